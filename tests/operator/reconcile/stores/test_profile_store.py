"""The watched NaiadProfiles: when services may be reconciled, and what is said while profiles cannot be read."""

import asyncio
import typing

import pytest

from naiad_operator.api.manifests.unreadable import marked
from naiad_operator.api.parsing import service
from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.reflector import WatchTimeouts
from naiad_operator.errors import InvalidSpec, ProfileNotFound
from naiad_operator.reconcile.stores.profile_store import REF, ProfileStore
from tests.operator.api import specs

pytestmark = pytest.mark.looptime
SERVED = frozenset(("serving.naiad.dev/v1alpha1/NaiadProfile",))
NAMED = specs.spec(profile="a")
SERVED_ONE = specs.spec() | {"status": {"selector": "a=b"}}
"""A service that has its children, and no profile."""


def profile(name: str, uid: str = "", **fields: typing.Any) -> dict[str, typing.Any]:
    manifest = specs.profile(**fields)
    manifest["metadata"] = {"name": name, "uid": uid or name, "resourceVersion": "1"}
    return manifest


class Api:
    """Lists profiles, or refuses to; its watches stay open without an event."""

    def __init__(self, *answers: list[dict[str, typing.Any]] | errors.ApiError) -> None:
        self.answers = list(answers)

    async def pages(self, ref: typing.Any, *, labels: str) -> typing.Any:
        assert (ref, labels) == (REF, "")
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, errors.ApiError):
            raise answer
        yield answer, "1"

    def watch(self, ref: typing.Any, **_: typing.Any) -> "Api":
        return self

    async def __aenter__(self) -> typing.Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def __aiter__(self) -> "Api":
        return self

    async def __anext__(self) -> bytes:
        await asyncio.get_running_loop().create_future()
        raise StopAsyncIteration


class Watched:
    """A store that runs, and how often it called for new reconciles."""

    def __init__(self, api: Api, *, enabled: bool = True) -> None:
        self.changes = 0
        self.fallback = service.default_profile({"image": "own:1"})
        self.store = ProfileStore(
            typing.cast(Client, api),
            enabled=enabled,
            fallback=self.fallback,
            timeouts=WatchTimeouts(),
            on_change=self._count,
            on_namespace=lambda _: None,
        )
        self.task = asyncio.create_task(self.store.run())

    def _count(self) -> None:
        self.changes += 1


async def test_nothing_is_reconciled_before_the_profiles_are_listed() -> None:
    trouble = errors.ServerTrouble("list", code=503, message="starting")
    watched = Watched(Api(trouble, trouble, [profile("a", image="x:1")]))
    watched.store.follow(SERVED)
    waiting = asyncio.create_task(watched.store.wait())
    await asyncio.sleep(0.1)
    assert not waiting.done()
    assert "are not listed yet: cannot list: starting" in watched.store.blocking()
    await waiting
    chosen = watched.store.of(NAMED)
    assert chosen is not None
    assert chosen.spec.image == "x:1"


async def test_without_permission_services_without_a_profile_go_on() -> None:
    forbidden = errors.Forbidden("list naiadprofiles", code=403, message="no")
    watched = Watched(Api(forbidden, forbidden, [profile("a")]))
    watched.store.follow(SERVED)
    await watched.store.wait()
    assert watched.store.of(SERVED_ONE) is watched.fallback
    for manifest in (NAMED, specs.spec()):  # a new one waits, too
        with pytest.raises(
            ProfileNotFound, match=r"allow it with a ClusterRole: .*naiadprofiles.*list, watch"
        ):
            watched.store.of(manifest)
    before = watched.changes
    await asyncio.sleep(60)
    assert watched.store.of(NAMED) is not None, "once it is permitted"
    assert watched.changes > before, "and every service is looked at again"


@pytest.mark.parametrize(
    ("enabled", "served", "words"),
    [(True, frozenset(), "apply the CRDs"), (False, SERVED, "runs with --profiles=false")],
)
async def test_without_the_kind_or_the_option_nothing_is_waited_for_or_requested(
    *, enabled: bool, served: frozenset[str], words: str
) -> None:
    watched = Watched(Api(errors.NotFound("list", code=404)), enabled=enabled)
    watched.store.follow(served)
    await watched.store.wait()
    assert watched.store.of(specs.spec()) is watched.fallback
    with pytest.raises(ProfileNotFound, match=words):
        watched.store.of(NAMED)


async def test_a_kind_that_is_served_later_is_watched_from_then_on() -> None:
    watched = Watched(Api([profile("a")]))
    watched.store.follow(frozenset())
    await watched.store.wait()
    watched.store.follow(SERVED)
    await watched.store.wait()
    assert watched.store.of(NAMED) is not None
    watched.store.follow(frozenset())
    with pytest.raises(ProfileNotFound, match="apply the CRDs"):
        watched.store.of(NAMED)


async def test_only_a_change_of_a_spec_reconciles_all_services() -> None:
    watched = Watched(Api([]))
    watched.store.follow(SERVED)
    await watched.store.wait()
    before = watched.changes
    store = watched.store
    store.on_update(REF, profile("a", image="x:1"))
    store.on_update(REF, profile("a", image="x:2"))
    assert watched.changes == before + 2
    store.on_update(REF, profile("a", image="x:2"))
    assert watched.changes == before + 2, "labels or managed fields"
    store.on_update(REF, profile("b"))
    store.on_replace(REF, {"a"}, "9")
    store.on_delete(REF, profile("a"))
    store.on_delete(REF, profile("a"))
    assert watched.changes == before + 5
    with pytest.raises(ProfileNotFound, match="there is none"):
        store.of(NAMED)


async def test_a_list_that_fails_for_ever_delays_the_start_and_does_not_stop_it() -> None:
    watched = Watched(Api(errors.ServerTrouble("list", code=500, message="webhook down")))
    watched.store.follow(SERVED)
    async with asyncio.timeout(120):
        await watched.store.wait()
    assert "webhook down" in watched.store.unreadable
    assert watched.store.of(SERVED_ONE) == watched.fallback
    for manifest in (NAMED, specs.spec()):
        with pytest.raises(ProfileNotFound):
            watched.store.of(manifest)
    watched.task.cancel()


async def test_a_profile_that_cannot_be_read_keeps_its_services_as_they_are() -> None:
    """Also those that have it because it was the default: without it their pods would be replaced."""
    unreadable = marked({"metadata": profile("a")["metadata"]}, "it is too deep")
    watched = Watched(Api([unreadable, profile("b", image="b:1")]))
    watched.store.follow(SERVED)
    await watched.store.wait()
    known = {"status": {"observedGeneration": 1, "selector": "a=b"}}
    by_default = specs.spec() | {"status": {"profile": "a"}}
    # A new service, too: the profile may bind its namespace.
    for manifest in (NAMED | known, by_default, specs.spec(), specs.spec(profile="b")):
        with pytest.raises(
            InvalidSpec, match="NaiadProfile a: the operator cannot read this object: it is"
        ):
            watched.store.of(manifest)
    assert watched.store.of(specs.spec() | known) == watched.fallback
    found = watched.store.of(specs.spec(profile="b") | known)
    assert found is not None
    assert found.name == "b"
    watched.task.cancel()


async def test_a_profile_is_parsed_once_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = service.parse_profile

    def counted(manifest: typing.Any) -> service.Profile:
        parsed.append(manifest["spec"]["image"])
        return parse(manifest)

    monkeypatch.setattr(service, "parse_profile", counted)
    watched = Watched(Api([profile("a", image="x:1")]))
    watched.store.follow(SERVED)
    await watched.store.wait()
    for _ in range(3):
        of = watched.store.of(NAMED)
        assert of is not None
        assert of.spec.image == "x:1"
    watched.store.on_update(REF, profile("a", image="x:2"))
    of = watched.store.of(NAMED)
    assert of is not None
    assert of.spec.image == "x:2"
    assert parsed == ["own:1", "x:1", "x:2"]
    watched.store.on_delete(REF, profile("a", image="x:2"))
    with pytest.raises(ProfileNotFound):
        watched.store.of(NAMED)
