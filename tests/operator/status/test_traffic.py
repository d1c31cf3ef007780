"""What NetworkReady says of clients that may not get through although everything is applied."""

import typing

import pytest

from naiad_operator.api.parsing import validation
from naiad_operator.api.schema import openapi
from naiad_operator.api.types.status import Status
from naiad_operator.builders import kinds
from naiad_operator.status import Conflict
from tests.operator.api.specs import gateway, spec
from tests.support import manifests
from tests.support.observations import condition, status

Manifest = dict[str, typing.Any]

POLICY = {"enabled": True}
ADDRESS = {("Service", "demo"): {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}}
ACCEPTED = {
    ("HTTPRoute", "demo"): {
        "status": {
            "parents": [
                {
                    "parentRef": {"name": "g"},
                    "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted"}],
                }
            ]
        }
    }
}


def network(resource: Manifest, **observed: typing.Any) -> tuple[str, str, str]:
    return condition(status(resource, **observed), "NetworkReady")


@pytest.mark.parametrize("kind", ["LoadBalancer", "NodePort"])
def test_clients_outside_the_cluster_that_the_policy_blocks_are_reported(kind: str) -> None:
    blocked = network(spec(service={"type": kind}, networkPolicy=POLICY), children=ADDRESS)
    assert blocked[:2] == ("True", "ExternalClientsBlocked")
    assert f"clients of the {kind} Service are blocked" in blocked[2]
    assert "allowExternal: true" in blocked[2]


@pytest.mark.parametrize(
    "policy",
    [
        {"enabled": False},
        {"enabled": True, "allowExternal": True},
        {"enabled": True, "ingressFrom": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]},
    ],
)
def test_a_policy_that_lets_them_in_is_not(policy: Manifest) -> None:
    resource = spec(service={"type": "NodePort"}, networkPolicy=policy)
    assert network(resource) == ("True", "Applied", "")


def test_a_peer_inside_the_cluster_lets_no_client_in_from_outside() -> None:
    policy = {"enabled": True, "ingressFrom": [{"podSelector": {}}]}
    assert (
        network(spec(service={"type": "NodePort"}, networkPolicy=policy))[1]
        == "ExternalClientsBlocked"
    )


def test_the_hosts_of_grpc_have_no_path_prefix() -> None:
    both = {"hostnames": ["a.example"], "grpcHostnames": ["g.example"]}
    children = {**ACCEPTED, ("GRPCRoute", "demo"): ACCEPTED["HTTPRoute", "demo"]}
    given = network(gateway(hosts=both, pathPrefix="/api"), children=children)
    assert given[:2] == ("True", "PathPrefixOfHttp")
    assert "clients use g.example alone" in given[2]
    entry = {"enabled": True, "host": "a.example", "grpcHost": "g.example"}
    assert network(spec(ingress=entry, pathPrefix="/api"))[1] == "PathPrefixOfHttp"
    assert network(gateway(pathPrefix="/api"), children=ACCEPTED) == ("True", "Applied", "")


def test_limits_that_the_class_does_not_take_are_reported() -> None:
    entry = {"enabled": True, "host": "a.example", "className": "traefik", "maxBodySize": "1Gi"}
    given = network(spec(ingress=entry))
    assert given[:2] == ("True", "LimitsWithoutEffect")
    assert "Middleware" in given[2]


def test_an_affinity_that_the_class_does_not_take_is_reported() -> None:
    entry = {
        "enabled": True,
        "host": "a.example",
        "className": "traefik",
        "sessionAffinity": {"type": "Header"},
    }
    given = network(spec(ingress=entry))
    assert given[:2] == ("True", "SessionAffinityWithoutEffect")
    assert "one gRPC stream" in given[2]
    kept = network(spec(ingress={**entry, "sessionAffinity": {"type": "Cookie"}}))
    assert kept == ("True", "Applied", "")


def test_routes_that_cannot_have_the_persistence_are_reported() -> None:
    hosts = {"hostnames": ["a.example"], "sessionPersistence": {"type": "Header"}}
    lacking = kinds.session_persistence(kinds.HTTP_ROUTE)
    given = network(
        gateway(hosts=hosts), children=ACCEPTED, facts=manifests.facts(missing=[lacking])
    )
    assert given[:2] == ("True", "SessionAffinityWithoutEffect")
    assert "HTTPRoute of this cluster do not have it" in given[2]
    assert network(gateway(hosts=hosts), children=ACCEPTED) == ("True", "Applied", "")


def test_several_hints_are_all_said() -> None:
    entry = {"enabled": True, "host": "a.example", "className": "traefik", "maxBodySize": "1Gi"}
    resource = spec(ingress=entry, service={"type": "NodePort"}, networkPolicy=POLICY)
    value, reason, message = network(resource)
    assert (value, reason) == ("True", "ExternalClientsBlocked")
    assert "Middleware" in message


@pytest.mark.parametrize(
    "given",
    [
        spec(),
        spec(service={"type": "LoadBalancer"}),
        spec(ingress={"enabled": True, "host": "a.example", "grpcHost": "g.example"}),
        gateway(hosts={"hostnames": ["a.example"], "grpcHostnames": ["g.example"]}),
        spec(transformer={"image": "registry.example.com/qa:1"}),
    ],
    ids=["inside", "load balancer", "ingress", "gateway", "transformer"],
)
def test_no_address_is_that_of_a_service_which_another_owner_has(given: Manifest) -> None:
    free = status(given, children=ADDRESS)
    assert all((free["url"], free["grpcUrl"], *free["address"].values()))
    theirs = [Conflict("Service", "demo", "belongs to Deployment web")]
    made = status(given, conflicts=theirs, children=ADDRESS)
    assert (made["url"], made["grpcUrl"]) == ("", "")
    assert made["address"] == {"url": "", "grpcUrl": ""}
    assert validation.problems_of(openapi.schema_of(Status), made, "status") == []
    assert condition(made, "NetworkReady")[:2] == ("False", "ResourceConflict")
    assert condition(made)[0] == "False"
