"""Which NaiadProfile binds a namespace, whatever its services name."""

import typing

import pytest

from naiad_operator.api.parsing import binding, profiles
from naiad_operator.errors import InvalidSpec, ProfileNotFound
from tests.operator.api import specs
from tests.operator.api.parsing.test_profiles import profile

Manifest = dict[str, typing.Any]


def bound(
    name: str, *names: str, selector: Manifest | None = None, **fields: typing.Any
) -> Manifest:
    namespaces: Manifest = {"names": list(names)} if names else {}
    if selector is not None:
        namespaces["selector"] = selector
    return profile(name, policy={"namespaces": namespaces}, **fields)


def service_of(namespace: str, **spec: typing.Any) -> Manifest:
    made = specs.spec(**spec)
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


def chosen(manifest: Manifest, *known: Manifest, **labels: str) -> str | None:
    found = profiles.choose(manifest, known, labels_of=lambda _: labels)
    return found.name if found is not None else None


def test_the_profile_that_binds_a_namespace_counts_whatever_a_service_names() -> None:
    known = (bound("a", "team-a"), profile("free"), profile("usual", default=True))
    assert chosen(service_of("team-a"), *known) == "a"
    assert chosen(service_of("team-a", profile="free"), *known) == "a"
    assert chosen(service_of("team-a", profile="missing"), *known) == "a"
    assert chosen(service_of("team-b", profile="free"), *known) == "free"
    assert chosen(service_of("team-b"), *known) == "usual"


def test_a_profile_that_binds_namespaces_is_of_no_use_in_others() -> None:
    known = bound("a", "team-a", default=True)
    assert chosen(service_of("team-b"), known) is None
    with pytest.raises(ProfileNotFound, match="NaiadProfile a is for other namespaces than team-b"):
        chosen(service_of("team-b", profile="a"), known)


def test_two_that_bind_a_namespace_are_both_named() -> None:
    known = (bound("b", selector={}), bound("a", "team-a"))
    with pytest.raises(
        InvalidSpec, match="NaiadProfile a and NaiadProfile b bind the namespace team-a"
    ):
        chosen(service_of("team-a"), *known)
    assert chosen(service_of("team-b"), *known) == "b"


@pytest.mark.parametrize(
    ("selector", "labels", "is_bound"),
    [
        ({}, {}, True),
        ({"matchLabels": {"tier": "gold"}}, {"tier": "gold"}, True),
        ({"matchLabels": {"tier": "gold"}}, {"tier": "silver"}, False),
        ({"matchLabels": {"tier": "gold", "a": "b"}}, {"tier": "gold"}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}]}, {"tier": "silver"}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}]}, {}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]}, {}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]}, {"tier": "gold"}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, {"tier": ""}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, {}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, {"tier": "a"}, False),
        ({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}, {"a": "b"}, False),
    ],
    ids=str,
)  # fmt: skip
def test_a_selector_means_what_it_means_in_kubernetes(
    selector: Manifest, labels: dict[str, str], *, is_bound: bool
) -> None:
    assert (chosen(service_of("any"), bound("a", selector=selector), **labels) == "a") is is_bound


GOLD = {"matchLabels": {"tier": "gold"}}
NOT_FREE = {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["free"]}]}


@pytest.mark.parametrize(
    ("selectors", "before", "after", "depends"),
    [
        ((), {"tier": "gold"}, {}, False),
        ((GOLD,), {"tier": "gold"}, {"tier": "gold"}, False),
        ((GOLD,), {"tier": "gold"}, {"tier": "gold", "cost": "1"}, False),
        ((GOLD,), {"tier": "silver"}, {}, False),
        ((GOLD,), {}, {"tier": "gold"}, True),
        ((GOLD,), {"tier": "gold"}, {"tier": "silver"}, True),
        ((GOLD, NOT_FREE), {"tier": "silver"}, {"tier": "free"}, True),
        ((GOLD, NOT_FREE), {"tier": "silver"}, {"tier": "bronze"}, False),
        ((), None, {}, True),
    ],
    ids=str,
)
def test_labels_concern_the_services_of_a_namespace_if_another_profile_may_bind_it(
    selectors: tuple[Manifest, ...],
    before: dict[str, str] | None,
    after: dict[str, str],
    *,
    depends: bool,
) -> None:
    """Services wait for labels that were not known, whatever these are."""
    known = [bound("other", "team-a"), profile("free")]
    known += [bound(f"p{number}", selector=each) for number, each in enumerate(selectors)]
    assert binding.depends(known, before, after) is depends


def test_labels_that_cannot_be_read_keep_every_service_as_it_is() -> None:
    def labels_of(_: str) -> dict[str, str]:
        raise binding.LabelsUnknown("no permission")

    known = [bound("a", selector={"matchLabels": {"tier": "gold"}})]
    with pytest.raises(
        ProfileNotFound, match=r"NaiadProfile a binds namespaces by their labels, .*: no permission"
    ):
        profiles.choose(service_of("any"), known, labels_of=labels_of)
