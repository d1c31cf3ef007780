"""The watches of all kinds, in virtual time: which kinds the start waits for, and what is said of those that cannot be watched."""

import asyncio
import collections.abc
import contextlib
import typing

import pytest

from naiad_operator.builders import kinds, names
from naiad_operator.cluster import errors
from naiad_operator.cluster.child_store import ChildStore, Labels
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.reflector import GRACE_S, WatchTimeouts
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.runtime.tasks import Tasks
from naiad_operator.runtime.watches import Watches, problem_of

pytestmark = pytest.mark.looptime

Object = dict[str, typing.Any]
KEDA = kinds.SCALED_OBJECT
SERVED = frozenset({KEDA.key})
FORBIDDEN = errors.Forbidden("list scaledobjects.keda.sh", code=403, message="no list verb")
MISSING = errors.NotFound("list scaledobjects.keda.sh", code=404, message="not found")
TROUBLE = errors.ServerTrouble("list scaledobjects.keda.sh", code=500, message="webhook down")


class Api:
    """An API server whose lists fail as a test says, by plural name; `breaks` ends the watches of a kind."""

    def __init__(self, **fails: errors.ApiError) -> None:
        self.fails: dict[str, errors.ApiError] = fails
        self.hangs: set[str] = set()
        self.items: dict[str, list[Object]] = {}
        self.breaks: dict[str, asyncio.Event] = {}

    async def pages(
        self, ref: ResourceRef, *, labels: str
    ) -> collections.abc.AsyncIterator[tuple[list[Object], str]]:
        if ref.plural in self.hangs:
            await asyncio.get_running_loop().create_future()
        if ref.plural in self.fails:
            raise self.fails[ref.plural]
        yield self.items.get(ref.plural, []), "1"

    @contextlib.asynccontextmanager
    async def watch(
        self, ref: ResourceRef, **_: object
    ) -> collections.abc.AsyncIterator[collections.abc.AsyncIterator[bytes]]:
        if ref.plural in self.fails:
            raise self.fails[ref.plural]
        yield self._lines(ref.plural)

    async def _lines(self, plural: str) -> collections.abc.AsyncIterator[bytes]:
        await self.breaks.setdefault(plural, asyncio.Event()).wait()
        if plural in self.fails:
            raise self.fails[plural]
        yield b"{}"


class Followed:
    """Watches that run, and what they have reported."""

    def __init__(self, api: Api, *namespaces: str) -> None:
        self.changes = 0
        self.missing = 0
        self.recoveries = 0
        self.store = ChildStore(
            Labels(instance=names.INSTANCE_LABEL, manager="m"),
            on_change=lambda *_: None,
            transforms={},
        )
        self.tasks = Tasks(pytest.fail)
        self.watches = Watches(
            typing.cast("Client", api),
            self.store,
            self.tasks,
            namespaces=namespaces,
            timeouts=WatchTimeouts(),
            on_change=self._on_change,
            on_missing=self._on_missing,
            on_recovery=self._on_recovery,
        )

    def _on_change(self) -> None:
        self.changes += 1

    def _on_missing(self) -> None:
        self.missing += 1

    def _on_recovery(self) -> None:
        self.recoveries += 1


@contextlib.asynccontextmanager
async def following(
    api: Api, *namespaces: str, served: frozenset[str] = SERVED
) -> collections.abc.AsyncIterator[Followed]:
    followed = Followed(api, *namespaces)
    followed.watches.follow(served)
    try:
        yield followed
    finally:
        await followed.tasks.close()


async def waited(followed: Followed, seconds: float) -> bool:
    """Whether the start goes on within this time."""
    try:
        async with asyncio.timeout(seconds):
            await followed.watches.wait()
    except TimeoutError:
        return False
    return True


async def test_the_start_waits_for_every_kind_and_then_knows_of_no_problem() -> None:
    async with following(Api()) as followed:
        assert await waited(followed, 1)
        assert followed.watches.all_problems() == []
        assert followed.watches.blocking() == ""


@pytest.mark.parametrize("error", [FORBIDDEN, MISSING])
async def test_an_optional_kind_that_is_refused_stops_nothing(error: errors.ApiError) -> None:
    async with following(Api(scaledobjects=error)) as followed:
        assert await waited(followed, 1)
        assert followed.watches.blocking() == ""
        assert set(followed.watches.problems("any")) == {"ScaledObject"}


async def test_the_message_says_which_rule_to_add() -> None:
    async with following(Api(scaledobjects=FORBIDDEN)) as followed:
        await followed.watches.wait()
        message = followed.watches.problems("any")["ScaledObject"]
    assert message == (
        "the operator cannot list scaledobjects.keda.sh: no list verb; add to its role: "
        'apiGroups: ["keda.sh"], resources: [scaledobjects], verbs: [get, list, watch, create, patch, delete]'
    )


async def test_an_optional_kind_whose_lists_fail_delays_the_start_and_does_not_stop_it() -> None:
    async with following(Api(scaledobjects=TROUBLE)) as followed:
        assert not await waited(followed, GRACE_S - 1)
        assert "webhook down" in followed.watches.blocking()
        assert await waited(followed, 3 * GRACE_S)
        assert followed.watches.blocking() == ""
        assert "webhook down" in followed.watches.problems("any")["ScaledObject"]


async def test_a_kind_that_is_removed_while_its_list_hangs_does_not_hold_up_the_start() -> None:
    api = Api()
    api.hangs.add("scaledobjects")
    async with following(api) as followed:
        assert not await waited(followed, 3600)
        followed.watches.follow(frozenset())
        assert await waited(followed, 1)


@pytest.mark.parametrize("error", [FORBIDDEN, MISSING, TROUBLE])
async def test_a_required_kind_that_cannot_be_listed_stops_the_start_and_is_said(
    error: errors.ApiError,
) -> None:
    async with following(Api(deployments=error)) as followed:
        assert not await waited(followed, 3600)
        assert error.message in followed.watches.blocking()


async def test_a_kind_that_can_be_listed_again_is_watched_again() -> None:
    api = Api(scaledobjects=FORBIDDEN)
    async with following(api) as followed:
        await followed.watches.wait()
        del api.fails["scaledobjects"]
        changes = followed.changes
        await asyncio.sleep(120)
        assert followed.watches.all_problems() == []
        assert followed.changes == changes + 1


async def test_a_right_that_is_taken_while_running_is_said_and_keeps_the_objects() -> None:
    api = Api()
    api.items["scaledobjects"] = [item("demo")]
    async with following(api) as followed:
        await followed.watches.wait()
        assert len(followed.store) == 1
        await asyncio.sleep(1)
        api.fails["scaledobjects"] = FORBIDDEN
        api.breaks["scaledobjects"].set()
        await asyncio.sleep(1)
        assert set(followed.watches.problems("any")) == {"ScaledObject"}
        assert followed.changes == 1
        assert len(followed.store) == 1


async def test_a_kind_that_vanishes_while_running_asks_for_a_discovery_and_is_then_forgotten() -> (
    None
):
    api = Api()
    api.items["scaledobjects"] = [item("demo")]
    async with following(api) as followed:
        await followed.watches.wait()
        await asyncio.sleep(1)
        api.fails["scaledobjects"] = MISSING
        api.breaks["scaledobjects"].set()
        await asyncio.sleep(1)
        assert followed.missing
        followed.watches.follow(frozenset())
        assert len(followed.store) == 0
        assert followed.watches.all_problems() == []
        assert followed.tasks.ended() == ""


async def test_errors_that_pass_do_not_count_as_a_problem_of_a_kind_that_was_listed() -> None:
    api = Api()
    async with following(api) as followed:
        await followed.watches.wait()
        await asyncio.sleep(1)
        api.fails["scaledobjects"] = TROUBLE
        api.breaks["scaledobjects"].set()
        await asyncio.sleep(600)
        assert followed.watches.all_problems() == []
        assert followed.watches.restarts()["scaledobjects"] > 1


async def test_a_watch_that_is_open_again_is_reported_once() -> None:
    """The reconciles that failed in the meantime need not wait for their backoff."""
    api = Api()
    async with following(api) as followed:
        await followed.watches.wait()
        await asyncio.sleep(1)
        assert followed.recoveries == 0
        api.fails["deployments"] = errors.Unreachable("watch deployments", message="gone")
        api.breaks["deployments"].set()
        await asyncio.sleep(60)
        assert followed.recoveries == 0
        api.breaks["deployments"].clear()
        del api.fails["deployments"]
        await asyncio.sleep(60)
        assert followed.recoveries == 1


async def test_a_role_that_is_missing_in_one_namespace_concerns_its_services_only() -> None:
    def message(namespace: str) -> str:
        ref = ResourceRef(KEDA.api_version, KEDA.plural, namespace)
        problem = problem_of(KEDA, ref, FORBIDDEN, was_listed=False, failing_for=0)
        assert problem is not None
        return problem.namespace

    assert message("a") == "a"
    async with following(Api(scaledobjects=FORBIDDEN), "a", "b") as followed:
        await followed.watches.wait()
        assert set(followed.watches.problems("a")) == {"ScaledObject"}
        assert followed.watches.problems("c") == {}


async def test_a_required_kind_is_no_reason_to_leave_its_objects_alone() -> None:
    """The operator goes on with what it knows: /readyz and the log say what is wrong."""
    async with following(Api(deployments=FORBIDDEN)) as followed:
        await asyncio.sleep(1)
        assert followed.watches.problems("any") == {}
        assert [problem.kind for problem in followed.watches.all_problems()] == [kinds.DEPLOYMENT]


def item(name: str) -> Object:
    metadata = {"name": name, "namespace": "any", "uid": name, "resourceVersion": "1"}
    return {"metadata": metadata}
