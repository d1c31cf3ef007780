"""Services whose children have names of each other's: in every order in which they come, nothing of one leads requests to another's objects or scales them."""

import collections.abc
import itertools
import json
import typing

import pytest
from typing_extensions import override

from naiad_operator.api.parsing import service as services
from naiad_operator.builders import build
from naiad_operator.builders.facts import CanaryFacts, ClusterFacts
from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.errors import InvalidSpec
from naiad_operator.reconcile.decisions import plan, references
from naiad_operator.reconcile.writers.applier import Applier, ApplyResult
from tests.operator.reconcile.writers.test_applier import empty_store
from tests.support import manifests

Object = dict[str, typing.Any]
IMAGE = "registry.example.com/qa:2"
COMPONENT: Object = {"image": IMAGE, "autoscaling": {"maxReplicas": 3}, "port": 8000}
GATEWAY: Object = {"gateway": {"parentRefs": [{"name": "public"}], "hostnames": ["a.example.com"]}}
INGRESS: Object = {"ingress": {"enabled": True, "className": "nginx", "host": "a.example.com"}}
WITH: Object = {"transformer": COMPONENT}
EXPLAINED: Object = {"explainer": COMPONENT}
CANARY: Object = {"canary": {"weight": 10}}


class Cluster(Client):
    """An API server's objects, by their path."""

    manager = "naiad-operator"

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}

    @override
    async def get(self, ref: ResourceRef) -> Object:
        if ref.url() not in self.objects:
            raise errors.NotFound(f"read {ref}")
        return self.objects[ref.url()]

    @override
    async def apply(
        self,
        ref: ResourceRef,
        manifest: collections.abc.Mapping[str, typing.Any],
        *,
        manager: str = "",
        force: bool = True,
    ) -> Object:
        there = self.objects.get(ref.url())
        if there is not None and "resourceVersion" in manifest["metadata"]:
            raise errors.Conflict(f"apply {ref}")
        document: Object = json.loads(json.dumps(manifest))
        document["metadata"].update(uid=f"of {ref.url()}", resourceVersion="7", managedFields=[])
        self.objects[ref.url()] = document
        return document

    def owners(self) -> dict[tuple[str, str], str]:
        return {
            (one["kind"], one["metadata"]["name"]): one["metadata"]["ownerReferences"][0]["name"]
            for one in self.objects.values()
        }


def service(name: str, *parts: Object) -> services.InferenceService:
    made = manifests.resource()
    made["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    for each in parts:
        made["spec"] |= each
    return services.parse(made)


async def reconcile(cluster: Cluster, wanted: services.InferenceService) -> ApplyResult:
    """Apply a service as if all of its pods served, so that routes lead wherever they may."""
    given = manifests.facts()
    serves = CanaryFacts(serves=True)
    facts = ClusterFacts(
        apis=given.apis,
        image=given.image,
        defaults=given.defaults,
        canary=serves,
        components=dict.fromkeys(("transformer", "explainer", "canary-transformer"), serves),
    )
    steps = plan.decide(
        build(wanted, facts),
        [],
        uid=wanted.uid,
        owner=f"InferenceService.serving.naiad.dev {wanted.name}",
        accepted=lambda _child, _stamp: False,
    )
    return await Applier(cluster, empty_store()).apply(
        steps,
        namespace=wanted.namespace,
        uid=wanted.uid,
        was_complete=False,
        is_new=True,
        report_server_errors=False,
    )


def reached(spec: typing.Any) -> collections.abc.Iterator[tuple[str, str]]:
    """What is named anywhere in a spec as a Service, as the target of an autoscaler, or as the host of the servers."""
    if isinstance(spec, list):
        if "--predictor_host" in spec:
            host = spec[spec.index("--predictor_host") + 1]
            yield "Service", host.partition(".")[0]
        for each in spec:
            yield from reached(each)
    elif isinstance(spec, dict):
        for key, value in spec.items():
            if key == "scaleTargetRef":
                yield "Deployment", value["name"]
            elif key in ("backendRef", "service") and "name" in value:
                yield "Service", value["name"]
            elif key == "backendRefs":
                yield from (("Service", each["name"]) for each in value)
            else:
                yield from reached(value)


COLLISIONS = {
    "transformer": [("qa", WITH, GATEWAY), ("qa-transformer", GATEWAY)],
    "transformer of an Ingress": [("qa", WITH, INGRESS), ("qa-transformer", INGRESS)],
    "both transformed": [("qa", WITH, GATEWAY), ("qa-transformer", WITH, GATEWAY)],
    "explainer": [("qa", EXPLAINED, GATEWAY), ("qa-explainer", EXPLAINED, INGRESS)],
    "explained transformer": [("qa", WITH, EXPLAINED, GATEWAY), ("qa-explainer", WITH), ("qa-transformer", EXPLAINED, INGRESS)],
    "canary": [("qa", CANARY, GATEWAY), ("qa-canary", GATEWAY)],
    "canaries' transformer": [("qa", CANARY, WITH, GATEWAY), ("qa-canary", WITH, GATEWAY)],
    "three deep": [("qa", CANARY, WITH, GATEWAY), ("qa-canary", CANARY, WITH, GATEWAY), ("qa-canary-transformer", WITH, GATEWAY)],
    "mirrored canary": [("qa", CANARY, GATEWAY, {"mirror": {}}), ("qa-canary",)],
    "mirrored transformer": [("qa", CANARY, WITH, GATEWAY, {"mirror": {}}), ("qa-canary-transformer",)],
}  # fmt: skip


@pytest.mark.parametrize("given", COLLISIONS.values(), ids=COLLISIONS)
async def test_nothing_of_a_service_leads_to_objects_of_another(
    given: list[tuple[typing.Any, ...]],
) -> None:
    for order in itertools.permutations(given):
        cluster = Cluster()
        for _ in range(2):
            conflicts = []
            for name, *parts in order:
                result = await reconcile(cluster, service(name, *parts))
                conflicts += result.conflicts
        owners = cluster.owners()
        assert conflicts
        for one in cluster.objects.values():
            own = one["metadata"]["ownerReferences"][0]["name"]
            for named in reached(one["spec"]):
                assert owners.get(named, own) == own, (order, one["kind"], one["metadata"]["name"])
        # What is there first keeps all that it wants.
        first = order[0][0]
        assert owners["Deployment", first] == owners["Service", first] == first


def test_a_component_refers_to_the_service_of_the_servers_that_it_asks() -> None:
    children = build(service("qa", CANARY, WITH, EXPLAINED, GATEWAY), manifests.facts())
    asked = {
        one["metadata"]["name"]: [name for kind, name in references.of(one) if kind == "Service"]
        for one in children
        if one["kind"] == "Deployment"
    }
    assert asked == {
        "qa": [],
        "qa-canary": [],
        "qa-transformer": ["qa"],
        "qa-explainer": ["qa"],
        "qa-canary-transformer": ["qa-canary"],
    }
    for field in ("command", "args"):
        elsewhere = {**COMPONENT, field: ["--predictor_host", "qa.elsewhere:8000"]}
        children = build(service("qa", {"transformer": elsewhere}), manifests.facts())
        assert all(not list(references.of(one)) for one in children if one["kind"] == "Deployment")


@pytest.mark.parametrize("name", ["qa", "qa-transformer", "qa-canary-transformer"])
def test_a_mirror_that_is_a_component_of_the_service_is_refused(name: str) -> None:
    mirrored = service("qa", CANARY, WITH, GATEWAY, {"mirror": {"service": name}})
    with pytest.raises(InvalidSpec, match=r"name another one of its namespace"):
        build(mirrored, manifests.facts())
