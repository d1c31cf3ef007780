"""Warmup samples on an instance in a thread of the server."""

import asyncio
import threading
from collections.abc import Sequence

import pytest
from typing_extensions import override

from naiad.backends.instance import Execution, Response
from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.errors import InferenceError, invalid
from naiad.hosts.warmup import Warmup, WarmupRequest
from naiad.hosts.worker.warmup import MOST_BATCHES
from naiad.metrics.statistics import ModelStatistics
from tests.server.hosts.test_thread import AnsweringInstance
from tests.server.hosts.threads import GIVE_UP_S, Hosted, run
from tests.support.hosts import ScriptedInstance


def warmup(
    *, batch_size: int = 1, count: int = 1, statistics: ModelStatistics | None = None
) -> Warmup:
    request = InferRequest("m", -1, "", [], [], {})
    return Warmup(
        [WarmupRequest("s", batch_size, count, request)],
        batched=True,
        statistics=statistics or ModelStatistics(),
        clock=SystemClock(),
    )


async def test_samples_run_in_the_thread_of_the_batches_and_are_counted(hosted: Hosted) -> None:
    threads: list[str] = []
    instance = ScriptedInstance()
    host = hosted(instance)
    counted = ModelStatistics()
    warm = warmup(batch_size=2, count=3, statistics=counted)
    ran = await host.warm_up(
        warm.in_thread(0), lambda: threads.append(threading.current_thread().name)
    )
    warm.ran(ran)
    assert [len(batch) for batch in instance.executed] == [2, 2, 2]
    assert threads == [host.name] * 3
    assert (counted.execution_count, counted.inference_count) == (3, 6)
    await run(host)
    assert len(instance.executed) == 4


async def test_a_warmup_of_many_iterations_is_counted_whole_in_bounded_memory(
    hosted: Hosted,
) -> None:
    instance = ScriptedInstance()
    counted = ModelStatistics()
    count = 3 * MOST_BATCHES
    warm = warmup(batch_size=2, count=count, statistics=counted)
    ran = await hosted(instance).warm_up(warm.in_thread(0), lambda: None)
    assert len(instance.executed) == count
    assert len(ran) == MOST_BATCHES + 1
    warm.ran(ran)
    assert (counted.execution_count, counted.inference_count) == (count, 2 * count)
    assert sum(counted.request_time.counts) == 2 * count
    assert counted.success_ns == counted.request_time.total > 0


async def test_a_failure_names_the_sample_and_leaves_a_host_that_can_be_closed(
    hosted: Hosted,
) -> None:
    def refuse(_: object) -> list[InferResponse]:
        raise invalid("no")

    host = hosted(ScriptedInstance(refuse))
    with pytest.raises(InferenceError, match=r"^failed to run warmup sample 's': no$"):
        await host.warm_up(warmup(batch_size=2).in_thread(0), lambda: None)
    await host.close()


async def test_responses_that_are_deferred_afterwards_go_to_the_scheduler(hosted: Hosted) -> None:
    class Answering(AnsweringInstance):
        @override
        def execute(self, batch: Sequence[Inference]) -> Execution[Response]:
            execution = super().execute(batch)
            self.answer(batch, 2, final=True)
            return execution

    host = hosted(Answering())
    await host.warm_up(warmup().in_thread(0), lambda: None)
    got: list[bool] = []
    host.deferred_to(lambda deferred: got.append(deferred.response.final))
    await run(host)
    assert got == [False, False, True]


async def test_a_load_that_is_cancelled_meanwhile_ends_with_the_iteration(hosted: Hosted) -> None:
    begun, may_end = threading.Event(), threading.Event()
    instance = ScriptedInstance()

    def advance() -> None:
        begun.set()
        may_end.wait(GIVE_UP_S)

    host = hosted(instance)
    task = asyncio.create_task(host.warm_up(warmup(count=1_000_000).in_thread(0), advance))
    await asyncio.to_thread(begun.wait, GIVE_UP_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_end.set()
    await host.close()
    assert len(instance.executed) == 1
