"""ScaledObjects that every supported KEDA accepts: the rules of its admission webhook, by version, over every combination of triggers."""

import collections.abc
import itertools
import typing

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.builders import build
from tests.support import manifests

Manifest = dict[str, typing.Any]

VERSIONS = ((2, 17, 0), (2, 17, 3), (2, 18, 0), (2, 19, 0), (2, 20, 2))
"""The oldest supported KEDA, those whose webhook has other rules than the one before, and the newest."""

_RESOURCES = ("cpu", "memory")
_LONGEST_LABEL = 63


def denied(manifest: Manifest, version: tuple[int, int, int]) -> str:  # noqa: PLR0911 - one return per rule
    """Why the webhook of a KEDA denies a ScaledObject, by apis/keda/v1alpha1/scaledobject_{webhook,types}.go of that version; "" if it does not."""
    spec = manifest["spec"]
    triggers = spec["triggers"]
    if "fallback" in spec and not any(map(_falls_back(version), triggers)):
        return (
            "at least one trigger has to have the AverageValue type for the fallback to be enabled"
        )
    least, most = spec["minReplicaCount"], spec["maxReplicaCount"]
    if least > most:
        return "MinReplicaCount must be less than MaxReplicaCount"
    if least == 0 and all(trigger["type"] in _RESOURCES for trigger in triggers):
        return "cpu and memory alone never scale to zero"
    names = [trigger["name"] for trigger in triggers if trigger.get("name")]
    if len(set(names)) < len(names):
        return "triggerName is defined multiple times"
    if not triggers:
        return "no triggers defined"
    name = manifest["metadata"]["name"]
    autoscaler = spec["advanced"]["horizontalPodAutoscalerConfig"].get("name", f"keda-hpa-{name}")
    if version >= (2, 20, 0) and max(len(name), len(autoscaler)) > _LONGEST_LABEL:
        return "the name is used as a label"
    return ""


def _falls_back(version: tuple[int, int, int]) -> collections.abc.Callable[[Manifest], bool]:
    def counts(trigger: Manifest) -> bool:
        if trigger["type"] in _RESOURCES:
            return False
        default = "" if version < (2, 17, 1) else "AverageValue"
        return version >= (2, 18, 0) or trigger.get("metricType", default) == "AverageValue"

    return counts


def warned(manifest: Manifest, version: tuple[int, int, int]) -> bool:
    """Whether that KEDA accepts it with a warning, and an Event for every write."""
    spec = manifest["spec"]
    has_no_effect = "pollingInterval" in spec or "cooldownPeriod" in spec
    return version >= (2, 20, 0) and spec["minReplicaCount"] > 0 and has_no_effect


CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}
QUEUE = {"type": "kafka", "metadata": {"topic": "requests", "lagThreshold": "5"}}
AVERAGE = {**QUEUE, "metricType": "AverageValue"}
VALUE = {**QUEUE, "metricType": "Value"}


def scaled_object(**autoscaling: typing.Any) -> Manifest:
    resource = manifests.resource(autoscaling={"class": "keda", **autoscaling})
    children = build(service.parse(resource), manifests.facts())
    return next(child for child in children if child["kind"] == "ScaledObject")


def combinations() -> collections.abc.Iterator[Manifest]:
    own = [one for number in range(3) for one in itertools.combinations((CPU, QUEUE, AVERAGE, VALUE), number)]  # fmt: skip
    for queue, pending, triggers in itertools.product((False, True), (False, True), own):
        fields: Manifest = {"queueTimeMs": 5} if queue else {}
        fields |= {"pendingRequests": 16} if pending else {}
        fields |= {"triggers": list(triggers)} if triggers else {}
        if fields:
            yield fields
        yield {**fields, "minReplicas": 0, "activation": {"source": "nginx"}}


def test_every_combination_of_triggers_is_accepted_without_a_warning() -> None:
    seen = set()
    for fields in combinations():
        manifest = scaled_object(**fields)
        seen.add("fallback" in manifest["spec"])
        for version in VERSIONS:
            assert denied(manifest, version) == "", (fields, version)
            assert not warned(manifest, version), (fields, version)
            with_fallback = {**manifest, "spec": {**manifest["spec"], "fallback": {}}}
            if all(denied(with_fallback, each) == "" for each in VERSIONS):
                assert "fallback" in manifest["spec"], "it is there wherever all accept it"
    assert seen == {True, False}


@pytest.mark.parametrize("length", [4, 47, 48, 50])
def test_a_name_of_any_length_is_accepted_and_that_of_its_canary(length: int) -> None:
    resource = manifests.resource(autoscaling={"class": "keda", "queueTimeMs": 5})
    resource["metadata"]["name"] = "d" * length
    resource["spec"] |= {
        "gateway": {"parentRefs": [{"name": "public"}], "hostnames": ["demo.example.com"]},
        "canary": {"weight": 1, "autoscaling": {"class": "keda", "queueTimeMs": 5}},
    }
    children = build(service.parse(resource), manifests.facts())
    made = [child for child in children if child["kind"] == "ScaledObject"]
    assert [len(child["metadata"]["name"]) for child in made] == [length + len("-canary"), length]
    for version in VERSIONS:
        assert [denied(child, version) for child in made] == ["", ""]


def test_without_a_fallback_the_queue_time_alone_still_scales() -> None:
    spec = scaled_object(queueTimeMs=5)["spec"]
    assert "fallback" not in spec
    assert [trigger["metricType"] for trigger in spec["triggers"]] == ["Value"]


def test_values_of_metadata_are_texts() -> None:
    """KEDA's are a map of strings, and YAML would make numbers and booleans of some."""
    auth = {"name": "thanos", "modes": ["bearer"], "awsRegion": "eu-west-1", "namespaceParameter": True}  # fmt: skip
    for fields in combinations():
        triggers = scaled_object(**fields, prometheusAuth=auth)["spec"]["triggers"]
        ours = [trigger for trigger in triggers if trigger["type"] == "prometheus"]
        assert all(isinstance(text, str) for one in ours for text in one["metadata"].values())


def test_every_trigger_of_ours_has_the_credentials_and_no_other() -> None:
    auth = {"name": "thanos", "kind": "ClusterTriggerAuthentication", "modes": ["bearer", "tls"]}
    spec = scaled_object(
        queueTimeMs=5,
        pendingRequests=16,
        minReplicas=0,
        activation={"source": "traefik"},
        triggers=[QUEUE],
        prometheusAuth=auth,
    )["spec"]
    *ours, theirs = spec["triggers"]
    reference = {"name": "thanos", "kind": "ClusterTriggerAuthentication"}
    assert [trigger["authenticationRef"] for trigger in ours] == [reference] * 3
    assert {trigger["metadata"]["authModes"] for trigger in ours} == {"bearer,tls"}
    assert theirs == QUEUE


def test_a_pod_identity_needs_no_mode() -> None:
    auth = {"name": "amp", "awsRegion": "eu-west-1"}
    [trigger] = scaled_object(pendingRequests=16, prometheusAuth=auth)["spec"]["triggers"]
    assert trigger["authenticationRef"] == {"name": "amp", "kind": "TriggerAuthentication"}
    assert trigger["metadata"]["awsRegion"] == "eu-west-1"
    assert not trigger["metadata"].keys() & {"authModes", "namespace"}


@pytest.mark.parametrize(
    ("activation", "startup", "seconds"),
    [
        ({"source": "nginx"}, {}, 600),
        ({"source": "nginx"}, {"periodSeconds": 2, "failureThreshold": 10}, 300),
        ({"source": "nginx", "idleSeconds": 90}, {}, 90),
    ],
    ids=["as long as models may load", "at least five minutes", "as it is written"],
)
def test_the_last_pod_ends_after_a_while_without_requests(
    activation: Manifest, startup: Manifest, seconds: int
) -> None:
    """A pod that ended before it had loaded its models would never serve."""
    resource = manifests.resource(
        autoscaling={"class": "keda", "minReplicas": 0, "activation": activation},
        probes={"startup": startup},
    )
    children = build(service.parse(resource), manifests.facts())
    [spec] = [child["spec"] for child in children if child["kind"] == "ScaledObject"]
    assert (spec["cooldownPeriod"], spec["initialCooldownPeriod"]) == (seconds, seconds)


def test_an_ingress_of_a_known_controller_starts_the_first_pod() -> None:
    resource = manifests.resource(autoscaling={"class": "keda", "minReplicas": 0, "maxReplicas": 1})
    for name, metric in (("nginx", "nginx_ingress_controller_requests"), ("traefik", "traefik_router_requests_total")):  # fmt: skip
        resource["spec"]["ingress"] = {"enabled": True, "host": "a.example", "className": name}
        children = build(service.parse(resource), manifests.facts())
        [spec] = [child["spec"] for child in children if child["kind"] == "ScaledObject"]
        [trigger] = spec["triggers"]
        assert metric in trigger["metadata"]["query"]
        assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (0, 1)


def test_triggers_of_the_users_own_stay_the_only_ones_that_start_a_pod() -> None:
    resource = manifests.resource(
        autoscaling={"class": "keda", "minReplicas": 0, "triggers": [QUEUE]}
    )
    resource["spec"]["ingress"] = {"enabled": True, "host": "a.example", "className": "nginx"}
    children = build(service.parse(resource), manifests.facts())
    [spec] = [child["spec"] for child in children if child["kind"] == "ScaledObject"]
    assert spec["triggers"] == [QUEUE]
