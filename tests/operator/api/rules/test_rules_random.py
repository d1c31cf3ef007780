"""Rules over random specs, generated from the types: CEL and Python must agree on each."""

import typing

import cel
import hypothesis
import msgspec
import pytest
from hypothesis import strategies

from naiad_operator.api.parsing import validation
from naiad_operator.api.rules import table
from naiad_operator.api.rules.cel import matches
from naiad_operator.api.schema import resources
from tests.support import manifests

pytestmark = pytest.mark.slow

_TEXTS: dict[str, list[str]] = {
    "storageUri": [
        "s3://a/b",
        "s3://c/d",
        "gs://a/b",
        "as://a/b/c",
        "pvc://a",
        "pvc://a/b",
        "hf://a/b",
        "oci://a/b:c",
        "ftp://a/b",
        "/a",
        "s3://",
    ],
    "profile": ["1g.10gb", "1g.10gb+me", "3g.40gb", "10gb", "1g.10gb+x"],
    "endpoint": ["https://a:9000"],
    "hosts": ["a.example.com", "*.{namespace}.example.com"],
    "gateways": ["a/b", "a/*"],
    "path": ["/", "/a", "a", "a/../b", "/a/.."],
    "mountPath": ["/a", "/tmp", "/a/../b"],
    "hostPath": ["/a", "/a/.."],
    "healthPath": ["/a"],
    "name": ["a", "b", "tmp"],
    "pathPrefix": ["/a/b", "/v2/a", "/v2a", "/a/.."],
    "maxBodySize": ["64Mi", "64m"],
    "interval": ["5s"],
    "size": ["1Gi"],
    "sharedMemory": ["1Gi"],
    "serverVersion": ["0.1.0"],
    "host": ["a.example", "b.example"],
    "grpcHost": ["a.example", "b.example"],
    "hostnames": ["a.example", "b.example"],
    "grpcHostnames": ["b.example", "c.example"],
    "models": ["a", "*"],
    "requests": ["cpu", "nvidia.com/gpu", "amd.com/gpu"],
    "limits": ["cpu", "nvidia.com/mig-1g.10gb", "amd.com/gpu"],
    "resourceName": ["amd.com/gpu", "cpu"],
    "product": ["A-1", "A 1"],
    "labels": ["a", "app.kubernetes.io/name"],
    "annotations": ["a", "serving.naiad.dev/applied"],
    "loadBalancerSourceRanges": ["10.0.0.0/8"],
    "args": ["--log-verbose=1", "--http-port=1", "--grpc-port", "--http-base-path=/a"],
    "maxSurge": ["0%", "25%"],
    "maxUnavailable": ["0%", "25%"],
}
"""Texts that the rules look at, by field; others are a name."""

Drawn = strategies.SearchStrategy[typing.Any]


def drawn(info: msgspec.inspect.Type, field: str) -> Drawn:  # noqa: PLR0911 - one return per kind of type
    match info:
        case msgspec.inspect.StructType():
            return part(info)
        case msgspec.inspect.UnionType():
            members = [m for m in info.types if not isinstance(m, msgspec.inspect.NoneType)]
            return strategies.one_of(*(drawn(member, field) for member in members))
        case msgspec.inspect.BoolType():
            return strategies.booleans()
        case msgspec.inspect.IntType():
            least = info.ge or 0
            most = int(info.le) if info.le is not None else int(least) + 100
            return strategies.integers(int(least), min(int(least) + 70, most))
        case msgspec.inspect.LiteralType():
            return strategies.sampled_from(info.values)
        case msgspec.inspect.VarTupleType():
            below = drawn(info.item_type, field)
            return strategies.lists(below, min_size=info.min_length or 0, max_size=3)
        case msgspec.inspect.DictType(value_type=msgspec.inspect.AnyType()):
            return strategies.just({})
        case msgspec.inspect.DictType():
            keys = strategies.sampled_from(_TEXTS.get(field, ["a"]))
            return strategies.dictionaries(keys, strategies.just("1"), max_size=2)
        case msgspec.inspect.StrType():
            texts = _TEXTS.get(field, ["a", "b"])
            fit = [text for text in texts if matches(text, info.pattern or "")]
            return strategies.sampled_from(fit)
        case _:
            raise TypeError(f"nothing to draw for {info}")


def part(info: msgspec.inspect.StructType) -> Drawn:
    required = {f.encode_name: drawn(f.type, f.encode_name) for f in info.fields if f.required}
    optional = {f.encode_name: drawn(f.type, f.encode_name) for f in info.fields if not f.required}
    return strategies.fixed_dictionaries(required, optional=optional)


def spec(resource: resources.CustomResource) -> Drawn:
    info = msgspec.inspect.type_info(resource.spec)
    assert isinstance(info, msgspec.inspect.StructType)
    return part(info)


SEEN: dict[bool, set[str]] = {True: set(), False: set()}
PROGRAMS = {rule.cel: cel.compile(rule.cel) for table in table.RULES.values() for rule in table}


def agree(resource: resources.CustomResource, drawn_spec: dict[str, typing.Any]) -> None:
    filled, problems = validation.with_defaults(drawn_spec, resource)
    assert problems == [], "what the types allow, the schema allows"
    manifest = {"metadata": {"name": "demo"}, "spec": drawn_spec}
    for rule, value, path in validation.applied(manifest, filled, resource):
        if rule.cel in PROGRAMS:
            holds = rule.holds(value)
            assert PROGRAMS[rule.cel].execute({"self": value}) is holds, (path, rule.message, value)
            SEEN[holds].add(rule.message)


EXAMPLES = hypothesis.settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


@EXAMPLES
@hypothesis.given(spec(resources.SERVICE))
def _services_agree(given: dict[str, typing.Any]) -> None:
    agree(resources.SERVICE, given)


@EXAMPLES
@hypothesis.given(spec(resources.PROFILE))
def _profiles_agree(given: dict[str, typing.Any]) -> None:
    agree(resources.PROFILE, given)


def test_cel_and_python_agree_on_whatever_the_types_allow() -> None:
    _services_agree()
    _profiles_agree()
    every = {rule.message for table in table.RULES.values() for rule in table}
    assert len(SEEN[True]) == len(every), "every rule was kept by something"
    assert len(SEEN[False]) > 0.8 * len(every), "and most were broken by something"


@EXAMPLES
@hypothesis.given(spec(resources.SERVICE), strategies.data())
def test_nothing_of_a_wrong_type_breaks_a_rule(
    given: dict[str, typing.Any], data: strategies.DataObject
) -> None:
    """Types and rules are checked together: what has a wrong type is an error, and no rule fails over it."""
    places = list(_places(given))
    for container, key in data.draw(strategies.lists(strategies.sampled_from(places), max_size=3)):
        container[key] = data.draw(strategies.sampled_from([7, "x", True, None, [1], {"x": 1}]))
    manifest = {**manifests.resource(), "spec": given}
    for problem in validation.check(manifest):
        assert problem.message


def _places(value: typing.Any) -> typing.Iterator[tuple[typing.Any, typing.Any]]:
    """Every container in a value, with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])
