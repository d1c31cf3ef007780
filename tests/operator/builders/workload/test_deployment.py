"""How many pods there should be, and how they are replaced: tables."""

import dataclasses
import typing

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.builders.bundle import build
from naiad_operator.builders.workload import deployment
from tests.support import manifests

Manifest = dict[str, typing.Any]
HPA = {"autoscaling": {"class": "hpa", "queueTimeMs": 5, "minReplicas": 2}}
KEDA0 = {
    "autoscaling": {
        "class": "keda",
        "queueTimeMs": 5,
        "minReplicas": 0,
        "triggers": [{"type": "cron"}],
    }
}
NONE = {"autoscaling": {"class": "none"}}


@pytest.mark.parametrize(
    ("predictor", "now", "wanted"),
    [
        ({}, None, 1),
        (
            {},
            4,
            4,
        ),  # class none without replicas: an autoscaler was switched off, and no pod is lost
        (NONE, 4, 4),
        ({}, 0, 1),  # it was suspended
        ({"replicas": 3}, 7, 3),
        ({"replicas": 0}, 7, 0),
        ({"autoscaling": {"class": "external"}, "replicas": 5}, 7, 5),
        (HPA, None, None),
        (HPA, 7, None),
        (HPA, 0, 2),
        (KEDA0, 0, None),  # KEDA itself scaled to nothing
        (KEDA0, 3, None),
    ],
    ids=str,
)
def test_the_number_of_pods(predictor: Manifest, now: int | None, wanted: int | None) -> None:
    parsed = service.parse(manifests.resource(**predictor))
    assert deployment.replicas(parsed, manifests.facts(current_replicas=now)) == wanted


@pytest.mark.parametrize("predictor", [{}, {"replicas": 3}, HPA, KEDA0], ids=str)
def test_a_suspended_service_has_no_pods(predictor: Manifest) -> None:
    manifest = manifests.resource(**predictor)
    manifest["spec"]["suspend"] = True
    parsed = service.parse(manifest)
    assert deployment.replicas(parsed, manifests.facts(current_replicas=4)) == 0
    assert not deployment.is_autoscaled(parsed)


def test_a_kept_number_is_not_changed_by_a_manual_scale_of_the_deployment() -> None:
    """`kubectl scale deployment` is drift, also where the spec says no number."""
    parsed = service.parse(manifests.resource())
    kept = dataclasses.replace(manifests.facts(current_replicas=7), kept_replicas=2)
    assert deployment.replicas(parsed, kept) == 2
    after_a_suspension = dataclasses.replace(kept, current_replicas=0)
    assert deployment.replicas(parsed, after_a_suspension) == 2


def rolling(
    *, claims: Manifest | None = None, **predictor: typing.Any
) -> tuple[typing.Any, typing.Any]:
    parsed = service.parse(manifests.resource(**predictor))
    modes = {name: frozenset(written) for name, written in (claims or {}).items()}
    facts = dataclasses.replace(manifests.facts(), claim_modes=modes)
    strategy = deployment.deployment(parsed, facts)["spec"]["strategy"]
    update = strategy["rollingUpdate"]
    return update["maxSurge"], update["maxUnavailable"]


CPU = {"accelerator": {"type": "none"}}


@pytest.mark.parametrize(
    ("predictor", "surge_and_unavailable"),
    [
        ({}, (0, 1)),
        (CPU, (1, 0)),
        ({**CPU, "placement": "onePerNode"}, (0, 1)),
        ({"accelerator": {"strategy": "dra"}}, (0, 1)),
        ({"deploymentStrategy": {"maxSurge": 1}}, (1, 0)),
        ({"deploymentStrategy": {"maxSurge": "50%"}}, ("50%", 0)),
        ({"deploymentStrategy": {"maxUnavailable": 0}}, (1, 0)),
        ({"deploymentStrategy": {"maxUnavailable": 2}}, (0, 2)),
        ({**CPU, "deploymentStrategy": {"maxSurge": 0}}, (0, 1)),
        ({**CPU, "deploymentStrategy": {"maxUnavailable": "25%"}}, (0, "25%")),
    ],
    ids=str,
)
def test_pods_are_replaced_so_that_a_full_cluster_does_not_block_it(
    predictor: Manifest, surge_and_unavailable: tuple[typing.Any, typing.Any]
) -> None:
    assert rolling(**predictor) == surge_and_unavailable


CACHE = {
    **CPU,
    "model": {
        "storageUri": "s3://models/production",
        "cache": {"type": "pvc", "claimName": "cache"},
    },
}
PVC = {**CPU, "model": {"storageUri": "pvc://models/production"}}
POD_TEMPLATE = {
    **CPU,
    "podTemplate": {
        "spec": {"volumes": [{"name": "x", "persistentVolumeClaim": {"claimName": "mine"}}]}
    },
}
RWO, RWX, ROX = ["ReadWriteOnce"], ["ReadWriteMany"], ["ReadOnlyMany"]


@pytest.mark.parametrize(
    ("predictor", "claims", "surge_and_unavailable"),
    [
        (CACHE, {"cache": RWO}, (0, 1)),
        (CACHE, {"cache": RWX}, (1, 0)),
        (CACHE, {"cache": ["ReadWriteOncePod"]}, (0, 1)),
        (CACHE, {"cache": [*RWO, *RWX]}, (1, 0)),
        (CACHE, {}, (0, 1)),  # not readable, or missing
        (PVC, {"models": RWO}, (0, 1)),  # a read-only mount is also on one node at a time
        (PVC, {"models": ROX}, (1, 0)),
        (PVC, {"models": []}, (0, 1)),
        (POD_TEMPLATE, {"mine": RWO}, (0, 1)),
        (POD_TEMPLATE, {"mine": RWX}, (1, 0)),
        ({**CACHE, "deploymentStrategy": {"maxSurge": 1}}, {"cache": RWO}, (1, 0)),
    ],
    ids=str,
)
def test_pods_do_not_wait_for_a_volume_that_an_old_pod_holds_on_another_node(
    predictor: Manifest, claims: Manifest, surge_and_unavailable: tuple[typing.Any, typing.Any]
) -> None:
    assert rolling(claims=claims, **predictor) == surge_and_unavailable


def test_one_field_never_leaves_both_at_0() -> None:
    for predictor in ({}, CPU):
        for field in ("maxSurge", "maxUnavailable"):
            for zero in (0, "0%"):
                chosen = rolling(**predictor, deploymentStrategy={field: zero})
                assert [amount for amount in chosen if amount not in (0, "0%")]


@pytest.mark.parametrize(("scaler", "wanted"), [("hpa", 2), ("keda", None)])
def test_a_paused_scaled_object_keeps_its_zero(scaler: str, wanted: int | None) -> None:
    """KEDA's annotation paused-replicas: "0" must not start a tug-of-war; an HPA would leave such a Deployment alone for ever."""
    scaling = {"class": scaler, "queueTimeMs": 5, "minReplicas": 2}
    parsed = service.parse(manifests.resource(autoscaling=scaling))
    theirs = dataclasses.replace(manifests.facts(current_replicas=0), replicas_are_ours=False)
    assert deployment.replicas(parsed, theirs) == wanted


def test_a_rollout_has_at_least_as_long_as_models_may_take_to_load() -> None:
    for path in manifests.INPUTS:
        made = next(m for m in manifests.built(path) if m["kind"] == "Deployment")["spec"]
        probe = made["template"]["spec"]["containers"][0]["startupProbe"]
        assert made["progressDeadlineSeconds"] > probe["periodSeconds"] * probe["failureThreshold"]


@pytest.mark.parametrize(
    ("startup", "period", "checks"),
    [
        ({}, 1, 600),
        ({"failureThreshold": 120}, 10, 120),
        ({"periodSeconds": 5}, 5, 60),
        ({"periodSeconds": 10, "failureThreshold": 60}, 10, 60),
    ],
    ids=[
        "each second for ten minutes",
        "the first release's period",
        "the first release's number of checks",
        "as the first release's API server stored it, so that its pods keep their template",
    ],
)
def test_models_have_time_to_load(startup: Manifest, period: int, checks: int) -> None:
    resource = manifests.resource(probes={"startup": startup})
    children = build(service.parse(resource), manifests.facts())
    spec = next(m["spec"] for m in children if m["kind"] == "Deployment")
    probe = spec["template"]["spec"]["containers"][0]["startupProbe"]
    assert (probe["periodSeconds"], probe["failureThreshold"]) == (period, checks)
    assert spec["progressDeadlineSeconds"] > period * checks


def test_the_selector_never_follows_the_spec() -> None:
    """A Deployment's selector cannot be changed; a derived one would mean deleting every pod."""
    selectors = [
        manifest["spec"]["selector"]
        for path in manifests.INPUTS
        for manifest in manifests.built(path)
        if manifest["kind"] == "Deployment" and manifest["metadata"]["name"] == "demo"
    ]
    assert all(selector == selectors[0] for selector in selectors)
