"""A scheduler with the cache in front of it: hits, misses and what becomes of requests that wait for a look-up, in any way that they can end."""

import asyncio
import gc
import weakref
from typing import Any

import numpy as np
import pytest

from naiad.core import datatypes
from naiad.core.clock import ManualClock
from naiad.core.inference import Inference, OnResponse
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError, invalid, unavailable
from naiad.metrics.statistics import BatchTiming, ModelStatistics
from naiad.protocol import durations
from naiad.response_cache.entry import CachedResponse
from naiad.response_cache.key import ASIDE_BYTES, KeyMaker
from naiad.response_cache.local import LocalStore
from naiad.response_cache.scheduler import COPIED_ASIDE, CachingScheduler
from naiad.response_cache.store import Inserted, OnFound
from naiad.scheduling.occupancy import Occupancy
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from tests.server.backends.configs import tensor
from tests.support.inferences import make_inference
from tests.support.waiting import until

NO_TIMES = BatchTiming(0, 0, 0)


class Inner:
    """A scheduler that executes when the test says so, and counts as schedulers do."""

    def __init__(self) -> None:
        self.statistics = ModelStatistics()
        self.executing: list[Inference] = []
        self.refusal: InferenceError | None = None
        self.stopped = 0
        self._dispatcher = ResponseDispatcher(
            model="m", version=1, statistics=self.statistics, clock=ManualClock()
        )

    def submit(self, inference: Inference) -> None:
        if self.refusal is not None:
            raise self.refusal
        inference.on_cancel = self.cancel
        self.executing.append(inference)

    def cancel(self, inference: Inference) -> None:
        self.fail(inference, InferenceError(ErrorCode.CANCELLED, "", reason=FailureReason.CANCELED))

    def fail(self, inference: Inference, error: InferenceError) -> None:
        self.executing.remove(inference)
        self._dispatcher.fail(inference, error)

    def respond(self, at: int = 0, *outputs: Tensor, **more: Any) -> None:
        """Respond to one that executes."""
        inference = self.executing.pop(at)
        response = InferResponse("m", 1, inference.request.id, list(outputs), {}, **more)
        self._dispatcher.respond_composed(
            inference, response, queue_ns=0, timing=NO_TIMES, streams=False
        )

    def inflight(self) -> int:
        return len(self.executing)

    def occupancy(self) -> Occupancy:
        return Occupancy([], lambda _: False)

    def ready_now(self) -> bool | None:
        return True

    async def ready(self) -> bool:
        return True

    def resize(self, added: object, removed: object) -> None:
        raise AssertionError

    async def stop(self) -> None:
        self.stopped += 1


class SlowStore:
    """A store whose look-ups the test ends."""

    shared = True

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, OnFound]] = []
        self.entries: dict[bytes, CachedResponse] = {}

    def look_up(self, owner: str, key: bytes, on_found: OnFound) -> None:
        self.asked.append((key, on_found))

    def answer(self) -> None:
        for key, on_found in self.asked[:]:
            self.asked.remove((key, on_found))
            on_found(self.entries.get(key))

    def insert(self, owner: str, key: bytes, entry: CachedResponse) -> Inserted:
        self.entries[key] = entry
        return Inserted.NEW

    def accepts(self, size: int) -> bool:
        return True

    def forget(self, owner: str) -> None:
        pass

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass


class Cached:
    """A scheduler with a cache, and what its clients get."""

    def __init__(self, store: Any = None, *, ordered: bool = False) -> None:
        self.inner = Inner()
        self.store: Any = LocalStore(1 << 30) if store is None else store
        self.clock = ManualClock()
        self.got: list[tuple[str, Any]] = []
        self.scheduler = self.make(ordered=ordered)

    def make(self, *, ordered: bool = False, owner: str = "m1") -> CachingScheduler:
        return CachingScheduler(
            self.inner,
            model="m",
            version=1,
            owner=owner,
            store=self.store,
            make_key=KeyMaker(owner.encode(), full=False),
            statistics=self.inner.statistics,
            preserve_ordering=ordered,
            clock=self.clock,
        )

    def ask(
        self, *values: float, name: str = "", on_response: OnResponse | None = None
    ) -> Inference:
        """A request; what it gets is in `got`, unless it has a callback of its own."""
        given = tensor("X", [list(values)], datatypes.FP32)

        def get(response: InferResponse) -> None:
            error = response.error
            self.got.append(
                (name, error.code if error else [each.array.tolist() for each in response.outputs])
            )

        inference = make_inference(given, on_response=on_response or get)
        self.scheduler.submit(inference)
        return inference

    @property
    def counts(self) -> dict[str, int]:
        """The counters that are not 0."""
        of_model = durations.of_model(self.inner.statistics)
        found = {name: count for name, (count, _) in of_model.items() if count}
        return {**found, "inferences": self.inner.statistics.inference_count}


Y = tensor("Y", [[1.0]])


def test_a_hit_is_answered_at_once_and_never_reaches_the_scheduler() -> None:
    cached = Cached()
    cached.ask(1, name="miss")
    cached.inner.respond(0, Y)
    inference = cached.ask(1, name="hit")
    assert cached.got == [("miss", [[[1.0]]]), ("hit", [[[1.0]]])]
    assert inference.completed
    assert cached.inner.executing == []
    assert cached.counts == {
        "success": 2, "queue": 2, "compute_input": 1, "compute_infer": 1, "compute_output": 1, "cache_hit": 1, "cache_miss": 1,
        "inferences": 1,
    }  # fmt: skip


class Client:
    """A request of a protocol: it is the callback, and holds the handle."""

    handle: Inference

    def __call__(self, response: InferResponse) -> None:
        pass


def test_neither_a_hit_nor_a_composed_response_leaves_a_cycle_of_what_belongs_to_the_request() -> (
    None
):
    cached = Cached()
    gc.disable()
    try:
        for executing in (1, 0):
            client = Client()
            client.handle = cached.ask(1, on_response=client)
            assert len(cached.inner.executing) == executing
            if executing:
                cached.inner.respond(0, Y)
            left = weakref.ref(client)
            del client
            assert left() is None
    finally:
        gc.enable()


def test_other_values_are_executed() -> None:
    cached = Cached()
    for value in (1, 2):
        cached.ask(value)
        cached.inner.respond(0, Y)
    assert cached.inner.statistics.cache_miss_count == 2


def test_errors_and_several_responses_are_not_kept() -> None:
    cached = Cached()
    cached.ask(1)
    cached.inner.fail(cached.inner.executing[0], invalid("no"))
    inference = cached.ask(1)
    cached.inner.executing.pop()
    inference.on_response(InferResponse("m", 1, "", [Y], {}, final=False))
    inference.on_response(InferResponse("m", 1, "", [Y], {}))
    cached.ask(1, name="third")
    assert len(cached.inner.executing) == 1
    assert len(cached.store) == 0
    assert cached.inner.statistics.cache_miss_count == 0


def test_the_same_request_twice_at_the_same_time_is_one_miss() -> None:
    cached = Cached()
    cached.ask(1)
    cached.ask(1)
    cached.inner.respond(0, Y)
    cached.inner.respond(0, Y)
    assert (cached.inner.statistics.cache_miss_count, len(cached.store)) == (1, 1)


def test_a_refusal_is_that_of_the_scheduler() -> None:
    cached = Cached()
    cached.inner.refusal = unavailable("full")
    with pytest.raises(InferenceError, match="full"):
        cached.ask(1)
    assert cached.got == []


def test_a_response_that_does_not_fit_is_passed_on_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cached = Cached(LocalStore(1024))
    for _ in range(2):
        cached.ask(1)
        cached.inner.respond(0, tensor("Y", np.zeros(1000, np.float32)))
    assert len(cached.got) == 2
    assert cached.inner.statistics.cache_miss_count == 2
    assert caplog.text.count("does not fit into the response cache") == 1


async def test_entries_go_with_the_version_that_made_them() -> None:
    cached = Cached()
    cached.ask(1)
    cached.inner.respond(0, Y)
    await cached.scheduler.stop()
    assert len(cached.store) == 0
    with pytest.raises(InferenceError, match="being shut down"):
        cached.ask(1)


def test_versions_do_not_share_entries() -> None:
    cached = Cached()
    cached.ask(1)
    cached.inner.respond(0, Y)
    cached.scheduler = cached.make(owner="m2")
    cached.ask(1)
    assert len(cached.inner.executing) == 1


def test_with_an_order_a_hit_waits_for_earlier_responses() -> None:
    cached = Cached(ordered=True)
    cached.ask(1)
    cached.inner.respond(0, Y)
    cached.got.clear()
    cached.ask(2, name="a")
    cached.ask(1, name="b")
    cached.ask(3, name="c")
    cached.ask(1, name="d")
    assert cached.got == []
    cached.inner.respond(1, Y)
    assert cached.got == []
    cached.inner.respond(0, Y)
    assert [name for name, _ in cached.got] == ["a", "b", "c", "d"]


def test_with_an_order_errors_and_refusals_hold_nothing_up() -> None:
    cached = Cached(ordered=True)
    first = cached.ask(2, name="a")
    cached.inner.refusal = unavailable("full")
    with pytest.raises(InferenceError, match="full"):
        cached.ask(9, name="refused")
    cached.inner.refusal = None
    cached.ask(3, name="b")
    cached.inner.respond(1, Y)
    assert cached.got == []
    first.cancel()
    assert cached.got == [("a", ErrorCode.CANCELLED), ("b", [[[1.0]]])]


def waiting() -> tuple[Cached, Inference]:
    cached = Cached(SlowStore())
    return cached, cached.ask(1, name="a")


def test_a_request_waits_for_the_store_and_is_executed_after_a_miss() -> None:
    cached, _ = waiting()
    assert (cached.inner.executing, cached.scheduler.inflight()) == ([], 1)
    cached.store.answer()
    assert cached.scheduler.inflight() == 1
    cached.inner.respond(0, Y)
    assert cached.got == [("a", [[[1.0]]])]
    cached.ask(1, name="b")
    cached.store.answer()
    assert cached.got[1] == ("b", [[[1.0]]])
    assert cached.scheduler.inflight() == 0


def test_a_cancellation_ends_the_wait_and_a_late_answer_changes_nothing() -> None:
    cached, inference = waiting()
    inference.cancel()
    assert cached.got == [("a", ErrorCode.CANCELLED)]
    cached.store.answer()
    assert (cached.inner.executing, len(cached.got)) == ([], 1)
    assert cached.inner.statistics.failures[FailureReason.CANCELED] == 1


def test_a_refusal_after_the_wait_is_a_response() -> None:
    cached, _ = waiting()
    cached.inner.refusal = unavailable("full", reason=FailureReason.REJECTED)
    cached.store.answer()
    assert cached.got == [("a", ErrorCode.UNAVAILABLE)]
    assert cached.inner.statistics.failures[FailureReason.REJECTED] == 1


def test_a_cancellation_while_it_executes_is_the_schedulers() -> None:
    cached, inference = waiting()
    cached.store.answer()
    inference.cancel()
    assert cached.got == [("a", ErrorCode.CANCELLED)]
    assert len(cached.store.entries) == 0


async def test_a_stop_waits_for_look_ups() -> None:
    cached, _ = waiting()
    stopping = asyncio.create_task(cached.scheduler.stop())
    await asyncio.sleep(0)
    assert cached.inner.stopped == 0
    cached.store.answer()
    await stopping
    assert cached.inner.stopped == 1


async def test_large_inputs_are_hashed_and_large_responses_copied_in_threads() -> None:
    cached = Cached()
    large = [0.0] * (ASIDE_BYTES // 4 + 1)
    cached.ask(*large, name="miss")
    assert cached.scheduler.inflight() == 1
    await until(lambda: bool(cached.inner.executing))
    output = tensor("Y", np.zeros(COPIED_ASIDE // 4 + 1, np.float32))
    cached.inner.respond(0, output)
    assert len(cached.got) == 1
    await until(lambda: len(cached.store) == 1)
    cached.ask(*large, name="hit")
    await until(lambda: len(cached.got) == 2)
    assert cached.inner.executing == []


async def test_a_cancellation_while_it_is_hashed() -> None:
    cached = Cached()
    inference = cached.ask(*[0.0] * (ASIDE_BYTES // 4 + 1), name="a")
    inference.cancel()
    assert cached.got == [("a", ErrorCode.CANCELLED)]
    await cached.scheduler.stop()
    assert cached.inner.executing == []
