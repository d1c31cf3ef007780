"""Hosts and Gateways that a profile lists: a service uses no others."""

import typing

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.builders import build
from naiad_operator.builders.policy import hosts
from naiad_operator.errors import InvalidSpec
from tests.operator.builders.policy.test_restricted import profile
from tests.support import manifests

Object = dict[str, typing.Any]


def refused(spec: Object, **policy: typing.Any) -> dict[str, str]:
    given = manifests.resource()
    given["spec"] |= spec
    held = profile(policy={"namespaces": {"names": ["models"]}, **policy})
    try:
        build(service.parse(given, held), manifests.facts())
    except InvalidSpec as invalid:
        return {problem.path: problem.message for problem in invalid.problems}
    return {}


@pytest.mark.parametrize(
    ("host", "pattern", "is_allowed"),
    [
        ("a.example.com", "a.example.com", True),
        ("b.example.com", "a.example.com", False),
        ("a.example.com", "*.example.com", True),
        ("b.a.example.com", "*.example.com", True),
        ("*.a.example.com", "*.example.com", True),
        ("*.example.com", "*.example.com", True),
        ("example.com", "*.example.com", False),
        ("badexample.com", "*.example.com", False),
        ("*.example.com", "*.a.example.com", False),
        ("", "*.example.com", False),
        ("any.host", "*", True),
        ("", "*", True),
    ],
)
def test_a_pattern_allows_itself_and_names_below_its_domain(
    host: str, pattern: str, *, is_allowed: bool
) -> None:
    assert hosts.matches(host, pattern) is is_allowed


OWN = "*.{namespace}.example.com"
GATEWAY: Object = {"parentRefs": [{"name": "public", "namespace": "infra"}]}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"ingress": {"enabled": True, "host": "payments.example.com"}}, "spec.ingress.host"),
        ({"ingress": {"enabled": True, "host": "a.models.example.com", "grpcHost": "x.com"}}, "spec.ingress.grpcHost"),
        ({"gateway": {**GATEWAY, "hostnames": ["a.models.example.com", "payments.example.com"]}}, "spec.gateway.hostnames[1]"),
        ({"gateway": {**GATEWAY, "grpcHostnames": ["payments.example.com"]}}, "spec.gateway.grpcHostnames[0]"),
        ({"gateway": GATEWAY}, "spec.gateway.hostnames"),
        ({"annotations": {"external-dns.alpha.kubernetes.io/hostname": "x"}}, "spec.annotations[external-dns.alpha.kubernetes.io/hostname]"),
        ({"service": {"annotations": {"external-dns.alpha.kubernetes.io/hostname": "x"}}}, "spec.service.annotations[external-dns.alpha.kubernetes.io/hostname]"),
        (
            {"ingress": {"enabled": True, "host": "a.models.example.com", "annotations": {"nginx.ingress.kubernetes.io/server-alias": "x"}}},
            "spec.ingress.annotations[nginx.ingress.kubernetes.io/server-alias]",
        ),
        *(
            ({"ingress": {"enabled": True, "host": "a.models.example.com", "annotations": {claim: "x"}}}, f"spec.ingress.annotations[{claim}]")
            for claim in (
                "nginx.org/server-snippets", "nginx.ingress.kubernetes.io/configuration-snippet", "nginx.ingress.kubernetes.io/from-to-www-redirect",
                "haproxy-ingress.github.io/server-alias-regex", "konghq.com/host-aliases", "traefik.ingress.kubernetes.io/router.rule",
            )
        ),
        ({"ingress": {"enabled": True, "host": "a.models.example.com"}}, ""),
        ({"gateway": {**GATEWAY, "hostnames": ["*.models.example.com"]}}, ""),
        ({"annotations": {"audit": "yes"}}, ""),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_a_host_that_the_profile_does_not_list_is_refused_with_those_that_it_lists(
    spec: Object, path: str
) -> None:
    found = refused(spec, hosts=[OWN])
    assert list(found) == ([path] if path else [])
    assert all("*.models.example.com" in message and "NaiadProfile platform" in message for message in found.values())  # fmt: skip
    assert refused(spec) == {}


def test_an_empty_list_allows_no_host() -> None:
    [message] = refused({"ingress": {"enabled": True, "host": "a.com"}}, hosts=[]).values()
    assert "allows no host here" in message


@pytest.mark.parametrize(
    ("gateways", "is_allowed"),
    [(["infra/public"], True), (["infra/*"], True), (["infra/other", "models/public"], False), ([], False)],
)  # fmt: skip
def test_gateways_of_other_namespaces_are_those_that_the_profile_lists(
    gateways: list[str], *, is_allowed: bool
) -> None:
    spec = {"gateway": {**GATEWAY, "hostnames": ["a.example.com"]}}
    found = refused(spec, gateways=gateways)
    assert list(found) == ([] if is_allowed else ["spec.gateway.parentRefs[0]"])
    own = {"gateway": {"parentRefs": [{"name": "mine"}], "hostnames": ["a.example.com"]}}
    assert refused(own, gateways=gateways) == {}
