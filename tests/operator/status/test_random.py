"""Whatever other controllers write into the statuses of children, the status of the service is one that its definition allows, and no bug keeps it from being written."""

import typing

from hypothesis import given, strategies as st

from naiad_operator.api.parsing import validation
from naiad_operator.api.schema import openapi
from naiad_operator.api.types.status import Status
from tests.operator.status.parts import GATEWAY, HPA, KEDA, Manifest, spec
from tests.support import manifests
from tests.support.observations import status

SERVICES: list[Manifest] = [
    manifests.resource(**HPA),
    manifests.resource(**KEDA),
    GATEWAY,
    spec(service={"type": "LoadBalancer"}),
]

_SCHEMA = openapi.schema_of(Status)
_TEXT = st.text(max_size=12) | st.sampled_from(["x" * 40_000, "\x00", "\n\n", "٣"])
_TIMES = st.sampled_from(["0000-01-01T00:00:00Z", "0001-01-01T00:00:01Z", "9999-12-31T23:59:59Z", "2026-01-31T11:59:00Z"])  # fmt: skip
_COUNTS = st.sampled_from([0, 1, 2, 3, 2**31 - 1])  # the API server takes no negative ones
_REASONS = ["FailedGetPodsMetric", "TriggerError", "FailedCreate", "ProgressDeadlineExceeded", "TooManyReplicas", "ScalingDisabled"]  # fmt: skip
_OFTEN = st.sampled_from(_REASONS) | _TEXT


def _conditions(*types: str, required: tuple[str, ...] = ()) -> st.SearchStrategy[list[Manifest]]:
    """Conditions of these types, which always have the fields that their kind's schema requires."""
    fields: dict[str, st.SearchStrategy[typing.Any]] = {
        "reason": _OFTEN,
        "message": _TEXT,
        "lastTransitionTime": _TIMES,
        "observedGeneration": st.integers(-1, 2**63 - 1),
    }
    always = {"type": st.sampled_from(types), "status": st.sampled_from(["False", "True", "Unknown", "x"])}  # fmt: skip
    return st.lists(
        st.fixed_dictionaries(
            always | {name: fields[name] for name in required},
            optional={name: value for name, value in fields.items() if name not in required},
        ),
        max_size=4,
        unique_by=lambda each: str(each["type"]),
    )


_DEPLOYMENT = st.fixed_dictionaries(
    {},
    optional={
        "observedGeneration": _COUNTS,
        "replicas": _COUNTS,
        "readyReplicas": _COUNTS,
        "availableReplicas": _COUNTS,
        "updatedReplicas": _COUNTS,
        "unavailableReplicas": _COUNTS,
        "conditions": _conditions("Available", "Progressing", "ReplicaFailure"),
    },
)
_SCALER = st.fixed_dictionaries(
    {},
    optional={
        "conditions": _conditions("Ready", "AbleToScale", "ScalingActive", "Paused", "Fallback"),
        "currentReplicas": _COUNTS,
    },
)
_PARENT = st.fixed_dictionaries(
    {"parentRef": st.fixed_dictionaries({"name": st.sampled_from(["public", "a", "x" * 253])}, optional={"namespace": _TEXT})},
    optional={"controllerName": _TEXT, "conditions": _conditions("Accepted", "ResolvedRefs", required=("reason", "message", "lastTransitionTime"))},
)  # fmt: skip
_POINT = st.fixed_dictionaries({}, optional={"hostname": _TEXT, "ip": st.sampled_from(["", "::1", "10.0.0.1"])})  # fmt: skip


@given(
    resource=st.sampled_from(SERVICES),
    deployment=st.none() | _DEPLOYMENT,
    scaler=st.none() | _SCALER,
    parents=st.lists(_PARENT, max_size=3),
    points=st.lists(_POINT, max_size=2),
)
def test_a_status_comes_of_whatever_children_say(
    resource: Manifest,
    deployment: Manifest | None,
    scaler: Manifest | None,
    parents: list[Manifest],
    points: list[Manifest],
) -> None:
    metadata = {"name": "demo", "generation": 5, "creationTimestamp": "0000-01-01T00:00:00Z"}  # fmt: skip
    said: dict[str, Manifest | None] = {
        "Deployment": deployment,
        "HorizontalPodAutoscaler": scaler,
        "ScaledObject": scaler,
        "HTTPRoute": {"parents": parents},
        "Service": {"loadBalancer": {"ingress": points}},
    }
    children = {
        (kind, "demo"): {"kind": kind, "metadata": metadata, "spec": {"replicas": 2}, "status": each}
        for kind, each in said.items()
        if each is not None
    }  # fmt: skip
    given = status(resource, children=children)
    assert validation.problems_of(_SCHEMA, given, "status") == []
