"""Tables of what a cluster shows and what a resource's status says of it."""

import dataclasses
import typing

import pytest

from naiad_operator.api.parsing import validation
from naiad_operator.api.schema import openapi
from naiad_operator.api.types.status import Status
from naiad_operator.errors import Problem
from naiad_operator.status import ModelState, compute_invalid
from tests.operator.status.cases import NOT, READY
from tests.operator.status.parts import HPA, NOT_READY, ONE_READY, said, spec
from tests.support import manifests
from tests.support.observations import (
    NOW,
    READY_MODEL,
    condition,
    container,
    deployment,
    ended,
    pod,
    status,
    unscheduled,
    waiting,
)

Manifest = dict[str, typing.Any]


@pytest.mark.parametrize("case", READY)
def test_ready_when(case: str) -> None:
    assert condition(status(**READY[case])) == ("True", "Ready", "")


@pytest.mark.parametrize("case", NOT)
def test_not_ready_and_why_when(case: str) -> None:
    given, (reason, message) = NOT[case]
    assert condition(status(**given)) == ("False", reason, message)


@pytest.mark.parametrize("case", [*READY, *NOT])
def test_a_status_is_what_the_definition_allows(case: str) -> None:
    given = READY[case] if case in READY else NOT[case][0]
    assert validation.problems_of(openapi.schema_of(Status), status(**given), "status") == []


def test_serving_pods_are_reported_during_a_rollout() -> None:
    given = status(children={("Deployment", "demo"): deployment(total=3, updated=1, ready=2)})
    assert condition(given, "Available") == ("True", "Serving", "2 pods serve")
    assert condition(given, "Progressing")[:2] == ("True", "RollingOut")


def test_a_scaled_up_pod_without_a_gpu_is_reported_while_the_service_is_ready() -> None:
    given = status(
        manifests.resource(**HPA),
        children={("Deployment", "demo"): deployment(3, ready=2)},
        pods=[unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")],
    )
    assert condition(given)[0] == "True"
    assert condition(given, "Progressing")[:2] == ("False", "AcceleratorUnavailable")


def test_a_model_that_fails_beside_serving_pods_does_not_take_ready_away() -> None:
    """A bad new version in a watched repository: the old one serves on, and ModelsLoaded says what is wrong."""
    bad = ModelState(name="m", version="2", state="UNAVAILABLE", reason="truncated file")
    given = status(models=[READY_MODEL, bad])
    assert condition(given)[0] == "True"
    assert condition(given, "ModelsLoaded") == (
        "False",
        "ModelFailed",
        "model m version 2: truncated file",
    )
    assert given["modelStatus"]["transitionStatus"] == "BlockedByFailedLoad"
    assert given["modelCount"] == "1/2"
    assert [model["name"] for model in given["models"]] == ["m", "magika"], (
        "what is not ready comes first"
    )


def test_the_failure_of_a_pod_is_kept_for_machines() -> None:
    given = status(children=NOT_READY, pods=[ended("error: no license")], models=None)
    assert given["modelStatus"] == {
        "transitionStatus": "BlockedByFailedLoad",
        "copies": {"totalCopies": 2, "failedCopies": 1},
        "lastFailureInfo": {
            "reason": "CrashLoopBackOff",
            "message": "pod demo-6d5f-x7k2p ends each time it is started: error: no license",
            "pod": "demo-6d5f-x7k2p",
            "exitCode": 1,
            "time": "2026-01-31T11:59:30Z",
        },
    }


def test_the_end_of_a_json_log_are_its_message() -> None:
    line = '{"level": "error", "message": "the error is this"}'
    given = status(children=NOT_READY, pods=[ended(f"{line}\n")], models=None)
    assert condition(given)[2].endswith("started: the error is this")


def test_an_evicted_pod_does_not_matter_when_others_serve_in_its_place() -> None:
    evicted = pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory.")
    given = status(pods=[evicted])
    assert condition(given, "Progressing")[:2] == ("False", "Complete")
    assert "lastFailureInfo" not in given["modelStatus"]


def test_a_terminating_pod_is_not_reported() -> None:
    going = waiting("ImagePullBackOff", "no such image")
    going["metadata"]["deletionTimestamp"] = NOW
    assert condition(status(children=ONE_READY, pods=[going], models=None))[1] == "RollingOut"


def test_a_running_pod_that_loads_its_models_is_not_a_failure() -> None:
    running = container(state={"running": {}})
    assert condition(status(children=ONE_READY, pods=[running], models=None))[1] == "RollingOut"


def test_a_condition_keeps_its_time_until_it_changes_its_mind() -> None:
    before = status(children=ONE_READY, now="2026-01-31T10:00:00Z")
    resource = {**manifests.resource(replicas=2), "status": before}
    after = status(resource, now="2026-01-31T11:00:00Z")
    times = {c["type"]: c["lastTransitionTime"] for c in after["conditions"]}
    assert times["Ready"] == "2026-01-31T11:00:00Z"
    assert times["SpecValid"] == "2026-01-31T10:00:00Z"


def test_the_same_observation_gives_the_same_status() -> None:
    """So that nothing is written when nothing changed."""
    before = status()
    resource = {**manifests.resource(replicas=2), "status": before}
    assert status(resource, now="2026-02-01T00:00:00Z") == before


def test_every_condition_carries_the_generation_that_it_is_about() -> None:
    given = status()
    assert {c["observedGeneration"] for c in given["conditions"]} == {3}
    assert given["observedGeneration"] == 3


def kept(resource: Manifest, now: int | None, before: int | None = None) -> int | None:
    facts = dataclasses.replace(manifests.facts(current_replicas=now), kept_replicas=before)
    found: int | None = status(resource, facts=facts).get("keptReplicas")
    return found


def test_a_number_is_kept_only_when_neither_spec_nor_autoscaler_sets_one() -> None:
    suspended = manifests.resource()
    suspended["spec"]["suspend"] = True
    assert kept(manifests.resource(), None) == 1
    assert kept(manifests.resource(), 5) == 5, "an autoscaler was switched off"
    assert kept(manifests.resource(), 7, 5) == 5
    assert kept(manifests.resource(replicas=3), 3) is None
    assert kept(manifests.resource(**HPA), 5) is None, (
        "so that the number of the moment of switching it off counts"
    )
    assert kept(suspended, 0, 5) == 5
    assert kept(suspended, 0) is None


URLS = {
    "inside": (spec(), "http://demo.models.svc:8000", "demo.models.svc:8001"),
    "ingress": (
        spec(ingress={"enabled": True, "host": "a.example", "grpcHost": "g.example", "tls": {"secretName": "t"}}),
        "https://a.example",
        "g.example:443",
    ),
    "ingress with a path": (
        spec(ingress={"enabled": True, "host": "a.example", "path": "/demo/"}),
        "http://a.example/demo",
        "demo.models.svc:8001",
    ),
    "an ingress with a prefix": (
        spec(ingress={"enabled": True, "host": "a.example"}, pathPrefix="/api/predict/demo"),
        "http://a.example/api/predict/demo",
        "demo.models.svc:8001",
    ),
    "a gateway with a prefix": (
        spec(gateway={"parentRefs": [{"name": "g"}], "hostnames": ["a.example"]}, pathPrefix="/api"),
        "http://a.example/api",
        "demo.models.svc:8001",
    ),
    "a prefix and no entry": (spec(pathPrefix="/api"), "http://demo.models.svc:8000", "demo.models.svc:8001"),
    "hosts that stand for many": (
        spec(gateway={"parentRefs": [{"name": "g"}], "hostnames": ["*.example", "b.example"], "grpcHostnames": ["*.grpc.example"]}),
        "http://b.example",
        "demo.models.svc:8001",
    ),
    "an ingress of many hosts": (
        spec(ingress={"enabled": True, "host": "*.example"}),
        "http://demo.models.svc:8000",
        "demo.models.svc:8001",
    ),
    "an ingress that is off": (spec(ingress={"host": "a.example"}), "http://demo.models.svc:8000", "demo.models.svc:8001"),
    "gateway": (
        spec(gateway={"parentRefs": [{"name": "g"}], "hostnames": ["a.example"], "grpcHostnames": ["g.example"], "tls": True}),
        "https://a.example",
        "g.example:443",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", URLS)
def test_addresses_are_those_that_clients_use(case: str) -> None:
    resource, url, grpc_url = URLS[case]
    given = status(resource)
    assert (given["url"], given["grpcUrl"]) == (url, grpc_url)
    assert given["address"] == {
        "url": "http://demo.models.svc:8000",
        "grpcUrl": "demo.models.svc:8001",
    }


@pytest.mark.parametrize(
    ("point", "host"),
    [
        ({"ip": "192.0.2.7"}, "192.0.2.7"),
        ({"ip": "2001:db8::7"}, "[2001:db8::7]"),
        ({"hostname": "a.balancer.example", "ip": "192.0.2.7"}, "a.balancer.example"),
    ],
)
def test_a_load_balancers_address_is_where_clients_reach_the_service(
    point: Manifest, host: str
) -> None:
    given = status(
        spec(service={"type": "LoadBalancer"}),
        children={("Service", "demo"): {"status": {"loadBalancer": {"ingress": [point]}}}},
    )
    assert condition(given) == ("True", "Ready", "")
    assert (given["url"], given["grpcUrl"]) == (f"http://{host}:8000", f"{host}:8001")
    assert given["address"]["url"] == "http://demo.models.svc:8000"


@pytest.mark.parametrize(
    ("accelerator", "shown"),
    [
        ({"type": "none"}, {"resourceName": "none", "strategy": "mixed", "count": 0}),
        ({"count": 2}, {"resourceName": "nvidia.com/gpu", "strategy": "mixed", "count": 2}),
        (
            {"type": "mig", "profile": "1g.10gb", "strategy": "dra"},
            {"resourceName": "mig.nvidia.com", "strategy": "dra", "count": 1},
        ),
    ],
)
def test_the_accelerator_is_shown(accelerator: Manifest, shown: Manifest) -> None:
    assert status(manifests.resource(accelerator=accelerator))["accelerator"] == shown


def test_the_selector_matches_the_pods() -> None:
    """An autoscaler on the scale subresource finds its pods by it."""
    wanted = dict(pair.split("=") for pair in status()["selector"].split(","))
    template = manifests.built(manifests.INPUTS[0])[0]["spec"]["template"]
    assert wanted.items() <= template["metadata"]["labels"].items()


def test_an_invalid_resource_is_reported_and_keeps_the_rest_of_its_status() -> None:
    """Its children live on as they are, so the addresses and numbers of before still hold."""
    before = status()
    manifest = {**manifests.resource(), "status": before}
    given = compute_invalid(manifest, [Problem("spec.x", "is wrong: write y")], NOW)
    assert condition(given) == ("False", "InvalidSpec", "spec.x: is wrong: write y")
    assert condition(given, "SpecValid")[:2] == ("False", "InvalidSpec")
    assert condition(given, "Available")[0] == "True"
    assert given["url"] == before["url"]
    assert given["modelStatus"] == {"transitionStatus": "InvalidSpec"}
    assert validation.problems_of(openapi.schema_of(Status), given, "status") == []


def test_a_policy_that_may_block_the_ingress_is_reported_and_the_service_is_ready() -> None:
    entry = {"enabled": True, "host": "a.example"}
    closed = spec(ingress=entry, networkPolicy={"enabled": True})
    unnamed = dataclasses.replace(
        manifests.facts(), defaults=dataclasses.replace(manifests.DEFAULTS, ingress_namespace="")
    )
    given = status(closed, facts=unnamed)
    assert condition(given)[0] == "True"
    value, reason, message = condition(given, "NetworkReady")
    assert (value, reason) == ("True", "IngressNamespaceUnset")
    assert "ingressNamespace" in message
    assert condition(status(closed), "NetworkReady")[1] == "Applied"
    named = spec(
        ingress=entry, networkPolicy={"enabled": True, "ingressFrom": [{"podSelector": {}}]}
    )
    assert condition(status(named, facts=unnamed), "NetworkReady")[1] == "Applied"


def test_a_refusal_of_openshift_says_where_to_leave_user_ids_out() -> None:
    refusal = "forbidden: unable to validate against any security context constraint"
    failed = said("ReplicaFailure", "True", "FailedCreate", f'pods "demo-x" is {refusal}')
    children = {("Deployment", "demo"): deployment(total=0, conditions=[failed])}
    shown = condition(status(children=children, models=None))
    assert shown[1] == "PodsRefused"
    assert "the chart's value openshift" in shown[2]
    assert shown[2].endswith(refusal)


def test_a_refusal_is_the_same_condition_for_each_pod_that_is_tried() -> None:
    """The name in it is that of a pod that does not come to be."""
    found = set()
    for name in ("demo-6d5f-x7k2p", "demo-6d5f-b9q4z"):
        refusal = f'pods "{name}" is forbidden: exceeded quota: gpus, used: 4, limited: 4'
        failed = said("ReplicaFailure", "True", "FailedCreate", refusal)
        children = {("Deployment", "demo"): deployment(total=0, conditions=[failed])}
        found.add(condition(status(children=children, models=None)))
    assert found == {
        (
            "False",
            "QuotaExceeded",
            "pods are forbidden: exceeded quota: gpus, used: 4, limited: 4",
        )
    }
