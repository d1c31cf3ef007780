"""The reflector with every way in which a list or a watch can end, in virtual time."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Set as AbstractSet
from typing import Any

import pytest

from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.reflector import Reflector, WatchTimeouts
from naiad_operator.cluster.resource_ref import ResourceRef

REF = ResourceRef("apps/v1", "deployments", "ns")
pytestmark = pytest.mark.looptime

End = Exception | float | None
"""How a scripted watch ends: an error, the server's own end after this many seconds, or never."""


class ScriptedApi:
    """Answers lists and watches from a script, and records the requests with their times.

    Args:
        lists: objects and version of each list, or an error; the last one repeats.
        watches: lines of each watch and how it ends; after the last, watches stay open without a line.
    """

    def __init__(
        self,
        lists: list[tuple[list[str], str] | errors.ApiError],
        watches: list[tuple[list[Any], End]],
    ) -> None:
        self._lists, self._watches = lists, watches
        self.requests: list[tuple[float, str]] = []

    async def pages(
        self, ref: ResourceRef, *, labels: str
    ) -> AsyncIterator[tuple[list[dict[str, Any]], str]]:
        self._note("list")
        answer = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
        if isinstance(answer, errors.ApiError):
            raise answer
        names, version = answer
        yield [item(name) for name in names], version

    @contextlib.asynccontextmanager
    async def watch(
        self, ref: ResourceRef, *, labels: str, since: str, seconds: float, idle_timeout: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self._note(f"watch {since}")
        events, end = self._watches.pop(0) if self._watches else ([], None)
        if isinstance(end, errors.ApiError) and not events:
            raise end
        yield self._lines(events, end)

    async def _lines(self, events: list[Any], end: End) -> AsyncIterator[bytes]:
        for event in events:
            yield event if isinstance(event, bytes) else json.dumps(event).encode()
        if isinstance(end, Exception):
            raise end
        if end is None:
            await asyncio.get_running_loop().create_future()
        else:
            await asyncio.sleep(end)

    def _note(self, what: str) -> None:
        self.requests.append((asyncio.get_running_loop().time(), what))


class RecordingHandler:
    """Records the calls of a reflector."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def on_update(self, ref: ResourceRef, item: dict[str, Any]) -> None:
        self.events.append(f"+{item['metadata']['name']}")

    def on_delete(self, ref: ResourceRef, item: dict[str, Any]) -> None:
        self.events.append(f"-{item['metadata']['name']}")

    def on_replace(self, ref: ResourceRef, present: AbstractSet[str], version: str) -> None:
        self.events.append(f"={','.join(sorted(present))}@{version}")


def item(name: str, version: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": version}}


def event(kind: str, name: str, version: str) -> dict[str, Any]:
    return {"type": kind, "object": item(name, version)}


def unreachable() -> errors.Unreachable:
    return errors.Unreachable("watch", message="gone")


async def reflect(api: ScriptedApi, seconds: float) -> tuple[list[str], Reflector]:
    """Runs a reflector for some virtual seconds."""
    handler = RecordingHandler()
    # The script stands in for the two client methods that a reflector uses.
    client: Client = api  # type: ignore[assignment]
    reflector = Reflector(client, REF, labels="a=b", handler=handler, timeouts=WatchTimeouts())
    task = asyncio.create_task(reflector.run())
    await asyncio.sleep(seconds)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return handler.events, reflector


async def test_existing_objects_are_reported_then_changes() -> None:
    events = [event("ADDED", "b", "11"), event("MODIFIED", "a", "12"), event("DELETED", "a", "13")]
    seen, reflector = await reflect(ScriptedApi([(["a"], "10")], [(events, None)]), 1)
    assert seen == ["+a", "=a@10", "+b", "+a", "-a"]
    assert reflector.listed.is_set()


async def test_a_watch_that_the_server_ends_continues_from_the_last_version() -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "20"}}}
    api = ScriptedApi([([], "10")], [([bookmark], 300.0)])
    _, reflector = await reflect(api, 301)
    assert [what for _, what in api.requests] == ["list", "watch 10", "watch 20"]
    assert reflector.restarts == 0


@pytest.mark.parametrize(
    "gone",
    [
        ([], errors.Gone("watch", code=410)),
        ([{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}], None),
    ],
    ids=["as an answer", "inside the stream"],
)
async def test_a_version_that_is_too_old_causes_a_new_list(gone: tuple[list[Any], End]) -> None:
    api = ScriptedApi([(["a"], "10"), (["b"], "90")], [gone])
    events, _ = await reflect(api, 1)
    assert [what for _, what in api.requests] == ["list", "watch 10", "list", "watch 90"]
    assert events == ["+a", "=a@10", "+b", "=b@90"]


async def test_a_broken_connection_continues_without_a_list() -> None:
    api = ScriptedApi([([], "10")], [([event("ADDED", "a", "11")], unreachable())])
    events, reflector = await reflect(api, 5)
    assert [what for _, what in api.requests] == ["list", "watch 10", "watch 11"]
    assert events == ["=@10", "+a"]
    assert reflector.restarts == 1


async def test_an_unreachable_api_server_is_retried_with_growing_backoff() -> None:
    api = ScriptedApi([([], "10")], [([], unreachable()) for _ in range(20)])
    _, reflector = await reflect(api, 100)
    times = [at for at, what in api.requests if what == "watch 10"]
    waits = [after - before for before, after in itertools.pairwise(times)]
    assert waits[0] < 0.5
    assert waits[5] > 4
    assert max(waits) <= 10 * 1.25, "the status is true within 30 s after an outage"
    assert reflector.last_error is not None


async def test_a_refused_list_is_retried_and_does_not_count_as_listed() -> None:
    forbidden = errors.Forbidden("list", code=403, message="no list verb")
    _, reflector = await reflect(ScriptedApi([forbidden], []), 20)
    assert not reflector.listed.is_set()
    assert "no list verb" in str(reflector.last_error)


async def test_a_429_is_obeyed() -> None:
    busy = errors.TooManyRequests("list", retry_after=12.0)
    api = ScriptedApi([busy, ([], "10")], [])
    await reflect(api, 20)
    first, second = [at for at, what in api.requests if what == "list"]
    assert second - first >= 12.0 * 0.75


async def test_a_line_that_is_not_an_event_causes_a_new_list_and_not_a_crash() -> None:
    api = ScriptedApi([([], "10")], [([b"<html>"], None)])
    await reflect(api, 5)
    assert [what for _, what in api.requests] == ["list", "watch 10", "list", "watch 10"]


async def test_watches_that_end_at_once_do_not_make_a_busy_loop() -> None:
    api = ScriptedApi([([], "10")], [([], 0.0) for _ in range(200)])
    await reflect(api, 30)
    assert len(api.requests) < 40


async def test_a_watch_that_is_forbidden_after_its_list_stays_an_error() -> None:
    """A role with list and without watch: the objects are known, and changes are not seen."""
    forbidden = errors.Forbidden("watch", code=403, message="no watch verb")
    api = ScriptedApi([(["a"], "10")], [([], forbidden) for _ in range(99)])
    _, reflector = await reflect(api, 100)
    assert reflector.listed.is_set()
    assert "no watch verb" in str(reflector.last_error)
    assert reflector.failing_since is not None
    assert reflector.failing_since < 1


async def test_minutes_of_refusals_cost_few_requests_and_then_all_is_well() -> None:
    busy = [errors.TooManyRequests("list", retry_after=1.0)] * 6
    trouble = [errors.ServerTrouble("list", code=503)] * 10
    api = ScriptedApi([*busy, *trouble, (["a"], "10")], [])
    events, reflector = await reflect(api, 600)
    assert events == ["+a", "=a@10"]
    assert reflector.last_error is None
    assert reflector.failing_since is None
    assert len(api.requests) == 18
    assert api.requests[-1][0] > 100
