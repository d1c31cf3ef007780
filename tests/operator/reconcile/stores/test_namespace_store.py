"""The labels of namespaces for profiles that select them: read once such a profile exists, and what is said while they cannot be."""

import asyncio
import typing

import pytest
from typing_extensions import override

from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.reflector import WatchTimeouts
from naiad_operator.errors import ProfileNotFound
from naiad_operator.reconcile.stores import namespace_store, profile_store
from naiad_operator.reconcile.stores.profile_store import ProfileStore
from tests.operator.api import specs
from tests.operator.reconcile.stores.test_profile_store import SERVED, Api, profile

pytestmark = pytest.mark.looptime

GOLD = {"namespaces": {"selector": {"matchLabels": {"tier": "gold"}}}}


def namespace(name: str, **labels: str) -> dict[str, typing.Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}}


def of(namespace: str) -> dict[str, typing.Any]:
    made = specs.spec()
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


class Both(Api):
    """Lists profiles and namespaces."""

    def __init__(self, profiles: list[dict[str, typing.Any]], *namespaces: typing.Any) -> None:
        super().__init__(*namespaces)
        self.profiles = profiles
        self.asked = 0

    @override
    async def pages(self, ref: typing.Any, *, labels: str) -> typing.Any:
        if ref == profile_store.REF:
            yield self.profiles, "1"
            return
        assert ref == namespace_store.REF
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, errors.ApiError):
            raise answer
        yield answer, "1"


class Watched:
    """A store of profiles that runs, how often it called for new reconciles of all services, and of the services of which namespaces."""

    def __init__(self, api: Both) -> None:
        self.changes = 0
        self.woken: list[str] = []
        self.store = ProfileStore(
            typing.cast(Client, api),
            enabled=True,
            fallback=None,
            timeouts=WatchTimeouts(),
            on_change=self._count,
            on_namespace=self.woken.append,
        )
        self.store.follow(SERVED)
        self.task = asyncio.create_task(self.store.run())

    def _count(self) -> None:
        self.changes += 1

    def chosen(self, namespace: str) -> str | None:
        found = self.store.of(of(namespace))
        return found.name if found is not None else None


async def test_no_namespace_is_read_before_a_profile_selects_some() -> None:
    names = {"namespaces": {"names": ["team-a"]}}
    gold = namespace("team-b", tier="gold")
    api = Both([profile("a", policy=names)], [gold, namespace("team-a")])
    watched = Watched(api)
    await watched.store.wait()
    await asyncio.sleep(60)
    assert api.asked == 0
    assert (watched.chosen("team-a"), watched.chosen("team-b")) == ("a", None)
    watched.store.on_update(profile_store.REF, profile("b", policy=GOLD))
    with pytest.raises(errors.Unreachable, match="not listed yet"):
        watched.chosen("team-b")
    before = watched.changes
    await asyncio.sleep(1)
    assert watched.changes > before, "every service is looked at again"
    assert (watched.chosen("team-a"), watched.chosen("team-b")) == ("a", "b")
    watched.task.cancel()


async def test_nothing_is_reconciled_before_namespaces_are_listed() -> None:
    trouble = errors.ServerTrouble("list", code=503, message="starting")
    watched = Watched(Both([profile("a", policy=GOLD)], trouble, [namespace("team", tier="gold")]))
    waiting = asyncio.create_task(watched.store.wait())
    await asyncio.sleep(0.1)
    assert not waiting.done()
    assert watched.store.blocking() == "namespaces are not listed yet: cannot list: starting"
    await waiting
    assert watched.chosen("team") == "a"
    watched.task.cancel()


async def test_a_label_that_changes_binds_a_namespace_or_releases_it() -> None:
    watched = Watched(Both([profile("a", policy=GOLD)], [namespace("team", tier="gold")]))
    await watched.store.wait()
    namespaces = watched.store._namespaces
    before = watched.changes
    for labels, bound, woken in (
        ({"tier": "gold", "cost": "1"}, "a", 0),
        ({"tier": "silver", "cost": "1"}, None, 1),
        ({"tier": "silver", "cost": "2"}, None, 1),
        ({}, None, 1),
        ({"tier": "gold"}, "a", 2),
    ):
        namespaces.on_update(namespace_store.REF, namespace("team", **labels))
        assert watched.chosen("team") == bound
        assert watched.woken == ["team"] * woken, "only what a profile selects by"
    namespaces.on_update(namespace_store.REF, namespace("new", tier="gold"))
    assert watched.chosen("new") == "a"
    assert watched.woken == ["team", "team", "new"]
    assert watched.changes == before, "services of other namespaces rest"
    watched.task.cancel()


async def test_a_service_that_is_seen_before_its_namespace_waits_for_that() -> None:
    """Or a service in a new namespace would get pods that its profile refuses, which stay."""
    everywhere_else = {
        "selector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}
    }
    for policy, bound in ((GOLD, "a"), ({"namespaces": everywhere_else}, None)):
        watched = Watched(Both([profile("a", policy=policy)], [namespace("team", tier="gold")]))
        await watched.store.wait()
        with pytest.raises(errors.Unreachable, match="new is not among them yet") as raised:
            watched.chosen("new")
        assert raised.value.transient, "the reconcile is repeated"
        namespaces = watched.store._namespaces
        namespaces.on_update(namespace_store.REF, namespace("new", tier="gold"))
        assert (watched.chosen("new"), watched.woken) == (bound, ["new"])
        namespaces.on_delete(namespace_store.REF, namespace("new"))
        namespaces.on_replace(namespace_store.REF, set(), "9")
        for gone in ("new", "team"):
            with pytest.raises(errors.Unreachable):
                watched.chosen(gone)
        watched.task.cancel()


async def test_without_permission_every_service_stays_as_it_is_until_there_is_one() -> None:
    forbidden = errors.Forbidden("list namespaces", code=403, message="no")
    api = Both([profile("a", policy=GOLD)], forbidden, forbidden, [namespace("team", tier="gold")])
    watched = Watched(api)
    await watched.store.wait()
    with pytest.raises(ProfileNotFound, match=r"which cannot be read, .*resources: \[namespaces\]"):
        watched.chosen("team")
    await asyncio.sleep(60)
    assert watched.chosen("team") == "a"
    watched.task.cancel()
