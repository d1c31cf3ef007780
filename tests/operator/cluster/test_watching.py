"""Following a collection through everything that can happen to a watch, in virtual time."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Set as AbstractSet
from typing import Any

import pytest

from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.place import Place
from naiad_operator.cluster.watching import Follower, Rhythm

PLACE = Place("apps/v1", "deployments", "ns")
pytestmark = pytest.mark.looptime

End = Exception | float | None
"""How a scripted watch ends: an error, the server's own end after so many seconds, or never."""


class ScriptedApi:
    """Answers lists and watches from a script, and notes when it was asked what.

    Args:
        lists: objects and version of each list, or an error; the last one repeats.
        watches: lines of each watch and how it ends; after the last, watches are silent for ever.
    """

    def __init__(
        self,
        lists: list[tuple[list[str], str] | errors.ApiError],
        watches: list[tuple[list[Any], End]],
    ) -> None:
        self._lists, self._watches = lists, watches
        self.asked: list[tuple[float, str]] = []

    async def pages(
        self, place: Place, *, labels: str
    ) -> AsyncIterator[tuple[list[dict[str, Any]], str]]:
        self._note("list")
        answer = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
        if isinstance(answer, errors.ApiError):
            raise answer
        names, version = answer
        yield [item(name) for name in names], version

    @contextlib.asynccontextmanager
    async def watch(
        self, place: Place, *, labels: str, since: str, seconds: float, silence: float
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
        self.asked.append((asyncio.get_running_loop().time(), what))


class Sink:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def changed(self, place: Place, item: dict[str, Any]) -> None:
        self.heard.append(f"+{item['metadata']['name']}")

    def removed(self, place: Place, item: dict[str, Any]) -> None:
        self.heard.append(f"-{item['metadata']['name']}")

    def replaced(self, place: Place, present: AbstractSet[str], version: str) -> None:
        self.heard.append(f"={','.join(sorted(present))}@{version}")


def item(name: str, version: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": version}}


def event(kind: str, name: str, version: str) -> dict[str, Any]:
    return {"type": kind, "object": item(name, version)}


def unreachable() -> errors.Unreachable:
    return errors.Unreachable("watch", message="gone")


async def followed(api: ScriptedApi, seconds: float) -> tuple[list[str], Follower]:
    """Follows for some virtual seconds."""
    sink = Sink()
    # The script stands in for the two methods that a follower uses.
    client: Client = api  # type: ignore[assignment]
    follower = Follower(client, PLACE, labels="a=b", sink=sink, rhythm=Rhythm())
    task = asyncio.create_task(follower.run())
    await asyncio.sleep(seconds)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return sink.heard, follower


async def test_what_exists_is_told_then_what_changes() -> None:
    events = [event("ADDED", "b", "11"), event("MODIFIED", "a", "12"), event("DELETED", "a", "13")]
    heard, follower = await followed(ScriptedApi([(["a"], "10")], [(events, None)]), 1)
    assert heard == ["+a", "=a@10", "+b", "+a", "-a"]
    assert follower.listed.is_set()


async def test_a_watch_that_the_server_ends_goes_on_from_the_last_version() -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "20"}}}
    api = ScriptedApi([([], "10")], [([bookmark], 300.0)])
    _, follower = await followed(api, 301)
    assert [what for _, what in api.asked] == ["list", "watch 10", "watch 20"]
    assert follower.restarts == 0


@pytest.mark.parametrize(
    "gone",
    [
        ([], errors.Gone("watch", code=410)),
        ([{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}], None),
    ],
    ids=["as an answer", "inside the stream"],
)
async def test_a_version_that_is_too_old_is_listed_again(gone: tuple[list[Any], End]) -> None:
    api = ScriptedApi([(["a"], "10"), (["b"], "90")], [gone])
    heard, _ = await followed(api, 1)
    assert [what for _, what in api.asked] == ["list", "watch 10", "list", "watch 90"]
    assert heard == ["+a", "=a@10", "+b", "=b@90"]


async def test_a_connection_that_breaks_goes_on_without_a_list() -> None:
    api = ScriptedApi([([], "10")], [([event("ADDED", "a", "11")], unreachable())])
    heard, follower = await followed(api, 5)
    assert [what for _, what in api.asked] == ["list", "watch 10", "watch 11"]
    assert heard == ["=@10", "+a"]
    assert follower.restarts == 1


async def test_an_api_server_that_is_away_is_asked_ever_less_often() -> None:
    api = ScriptedApi([([], "10")], [([], unreachable()) for _ in range(12)])
    _, follower = await followed(api, 100)
    times = [at for at, what in api.asked if what == "watch 10"]
    waits = [after - before for before, after in itertools.pairwise(times)]
    assert waits[0] < 0.5
    assert waits[5] > 4
    assert max(waits) <= 30 * 1.25
    assert follower.trouble is not None


async def test_a_list_that_is_refused_is_asked_again_and_nothing_counts_as_listed() -> None:
    forbidden = errors.Forbidden("list", code=403, message="no list verb")
    _, follower = await followed(ScriptedApi([forbidden], []), 20)
    assert not follower.listed.is_set()
    assert "no list verb" in str(follower.trouble)


async def test_a_429_is_obeyed() -> None:
    busy = errors.TooManyRequests("list", retry_after=12.0)
    api = ScriptedApi([busy, ([], "10")], [])
    await followed(api, 20)
    first, second = [at for at, what in api.asked if what == "list"]
    assert second - first >= 12.0 * 0.75


async def test_a_line_that_is_no_event_ends_in_a_new_list_and_not_in_a_crash() -> None:
    api = ScriptedApi([([], "10")], [([b"<html>"], None)])
    await followed(api, 5)
    assert [what for _, what in api.asked] == ["list", "watch 10", "list", "watch 10"]


async def test_watches_that_end_at_once_do_not_make_a_busy_loop() -> None:
    api = ScriptedApi([([], "10")], [([], 0.0) for _ in range(200)])
    await followed(api, 30)
    assert len(api.asked) < 40
