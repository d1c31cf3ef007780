"""Hosts that two services claim: which services are woken, and what they say."""

import typing

from naiad_operator.api.parsing import service
from naiad_operator.builders import build
from naiad_operator.builders.traffic.claims import Claim
from naiad_operator.queue import Key
from naiad_operator.reconcile.hosts import Hosts, claimed
from tests.support import manifests, observations

A, B, FAR = Key("models", "a"), Key("models", "b"), Key("payments", "ledger")


def of(**spec: typing.Any) -> frozenset[Claim]:
    resource = manifests.resource()
    resource["spec"] |= spec
    return claimed(build(service.parse(resource), manifests.facts()))


def ingress(**fields: typing.Any) -> frozenset[Claim]:
    return of(ingress={"enabled": True, "className": "nginx", "host": "a.example.com", **fields})


def gateway(*hosts: str) -> frozenset[Claim]:
    return of(gateway={"parentRefs": [{"name": "public"}], "hostnames": list(hosts)})


def test_both_services_say_so_and_one_of_another_namespace_is_not_named() -> None:
    woken: list[Key] = []
    hosts = Hosts(woken.append)
    hosts.claim(A, ingress())
    assert hosts.shared(A) == ()
    hosts.claim(FAR, ingress())
    assert woken == [A]
    [text] = hosts.shared(A)
    assert text.startswith("a.example.com/ is claimed by a service of another namespace as well")
    hosts.claim(B, ingress())
    assert woken == [A, A, FAR]
    assert "InferenceService b as well" in hosts.shared(A)[0]
    assert "InferenceService a as well" in hosts.shared(B)[0]
    assert "models" not in hosts.shared(FAR)[0]


def test_the_end_of_a_claim_wakes_the_others_once() -> None:
    woken: list[Key] = []
    hosts = Hosts(woken.append)
    hosts.claim(A, gateway("a.example.com", "b.example.com"))
    hosts.claim(B, gateway("b.example.com"))
    assert len(hosts.shared(A)) == 1
    woken.clear()
    for _ in range(3):
        hosts.claim(B, frozenset())
    assert (woken, hosts.shared(A)) == ([A], ())


def test_other_paths_classes_and_entries_share_nothing() -> None:
    hosts = Hosts(lambda _: None)
    for name, claim in enumerate(
        (ingress(), ingress(path="/b"), ingress(className="internal"), gateway("a.example.com"))
    ):
        hosts.claim(Key("models", f"s{name}"), claim)
    assert [hosts.shared(Key("models", f"s{name}")) for name in range(4)] == [()] * 4


def test_the_condition_is_true_and_stays_until_other_services_are_known() -> None:
    resource = manifests.resource()
    resource["status"] = observations.status(resource, shared_hosts=("x is claimed by b",))
    shared = ("True", "HostShared", "x is claimed by b")
    assert observations.condition(resource["status"], "NetworkReady") == shared
    again = observations.status(resource, shared_hosts=None)
    assert observations.condition(again, "NetworkReady") == shared
    gone = observations.status(resource)
    assert observations.condition(gone, "NetworkReady") == ("True", "Applied", "")
