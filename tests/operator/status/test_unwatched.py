"""What a status says of kinds that the operator cannot watch, and which pods make it read nodes."""

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.status import scheduling
from tests.operator.status.parts import GATEWAY, KEDA, spec
from tests.support import manifests
from tests.support.observations import condition, pod, status, unscheduled

WHY = "the operator cannot list scaledobjects.keda.sh: no list verb; add to its role: …"
MONITORED = spec(monitoring={"podMonitor": True})
DRA = manifests.resource(accelerator={"strategy": "dra"})


@pytest.mark.parametrize(
    ("resource", "kind", "type_"),
    [
        (manifests.resource(**KEDA), "ScaledObject", "AutoscalingReady"),
        (GATEWAY, "HTTPRoute", "NetworkReady"),
        (MONITORED, "PodMonitor", "MonitoringReady"),
        (DRA, "ResourceClaimTemplate", "Progressing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_object_that_may_be_missing_is_a_failure_and_one_that_existed_is_unknown(
    resource: manifests.Manifest, kind: str, type_: str
) -> None:
    missing = status(resource, unwatched={(kind, "demo"): WHY})
    assert condition(missing, type_) == ("False", "WatchFailed", WHY)
    known = status(resource, children={(kind, "demo"): {}}, unwatched={(kind, "demo"): WHY})
    assert condition(known, type_) == ("Unknown", "WatchFailed", WHY)
    assert condition(known)[0] == "True"


def test_pods_that_serve_are_ready_although_the_template_of_their_claims_cannot_be_watched() -> (
    None
):
    given = status(DRA, unwatched={("ResourceClaimTemplate", "demo"): WHY})
    assert condition(given)[0] == "True"


def test_a_missing_scaled_object_is_why_the_service_is_not_ready() -> None:
    given = status(manifests.resource(**KEDA), unwatched={("ScaledObject", "demo"): WHY})
    assert condition(given) == ("False", "WatchFailed", WHY)


NO_NODE = unscheduled("0/3 nodes are available")
SCHEDULED = pod(phase="Running", conditions=[{"type": "PodScheduled", "status": "True"}])


@pytest.mark.parametrize(
    ("predictor", "shown", "wanted"),
    [
        ({}, [SCHEDULED, NO_NODE], True),
        ({}, [SCHEDULED], False),
        ({}, [], False),
        ({"accelerator": {"type": "none"}}, [NO_NODE], False),
        ({"accelerator": {"strategy": "dra"}}, [NO_NODE], False),
    ],
)
def test_nodes_matter_only_for_a_device_that_no_node_has_free(
    predictor: manifests.Manifest, shown: list[manifests.Manifest], *, wanted: bool
) -> None:
    parsed = service.parse(manifests.resource(**predictor))
    assert scheduling.needs_nodes(parsed, shown) is wanted
