"""A second batch that a host has while its instance executes the first one, in a worker process and in a thread."""

import asyncio
import collections.abc
import errno
import os
import pathlib
import threading
import time
from typing import Any

import numpy as np
import pytest

from naiad.core import datatypes
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.errors import ErrorCode
from naiad.hosts.host import BatchOutcome
from naiad.hosts.link import kinds
from naiad.hosts.process import process_host
from naiad.hosts.worker.in_progress import RequestsInProgress
from naiad.hosts.worker.requests import ReceivedRequest
from naiad.metrics.statistics import RestartReason
from tests.server.backends.configs import inference, tensor
from tests.server.hosts.process.several import DIES, RAISES, SAME, WAITS, WHERE
from tests.server.hosts.process.test_instances import let_go, start
from tests.server.hosts.process.workers import GIVE_UP_S, Hosted, Hosts, answers, ask
from tests.server.hosts.threads import Hosted as HostedThread
from tests.support.hosts import ScriptedInstance, answer_all
from tests.support.inferences import make_inference
from tests.support.waiting import until, wait_until


async def two(
    hosts: Hosts, folder: pathlib.Path, *, timeout_s: float = 0, second: int = WAITS
) -> tuple[Hosted, list[Inference], "list[asyncio.Future[BatchOutcome]]"]:
    """A worker that executes a batch, which waits for a file, and has a second one."""
    hosted = await start(hosts, folder, 1, timeout_s=timeout_s)
    assert hosted.host.prefetches
    requests = [ask((WAITS, 0)), ask((second, 0))]
    outs = [hosted.submit(each) for each in requests]
    await until((folder / "begun m_0").exists)
    return hosted, requests, outs


async def outcome_of(out: "asyncio.Future[BatchOutcome]") -> BatchOutcome:
    return await asyncio.wait_for(out, GIVE_UP_S)


async def test_python_models_get_one_batch_at_a_time(hosts: Hosts) -> None:
    hosted = await hosts.start("def execute(self, requests):\n    return same(requests)")
    assert not hosted.host.prefetches


async def test_the_second_batch_begins_without_the_server(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    _, _, outs = await two(hosts, tmp_path)
    (tmp_path / "begun m_0").unlink()
    let_go(tmp_path, "m_0")
    # The event loop does nothing meanwhile.
    wait_until((tmp_path / "begun m_0").exists)
    assert not any(out.done() for out in outs)
    first, second = [await outcome_of(out) for out in outs]
    assert first.execution is not None
    assert second.execution is not None
    answers(second)
    assert first.compute_start_ns < first.execution.output_start_ns <= second.compute_start_ns
    assert second.compute_start_ns <= second.execution.input_end_ns


async def test_a_batch_that_fails_leaves_the_second_one_as_it_is(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 1)
    failed = hosted.submit(ask((RAISES, 0)))
    other = hosted.submit(ask((WHERE, 0)))
    assert (await outcome_of(failed)).error is not None
    answers(await outcome_of(other))


async def test_a_cancellation_of_the_second_batch_reaches_the_worker_when_it_begins(
    hosts: Hosts, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted, (_, second), outs = await two(hosts, tmp_path)
    assert hosted.worker.worker is not None
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(hosted.worker.worker, "notify", lambda *notice: sent.append(notice))
    second.cancel()
    assert sent == []
    let_go(tmp_path, "m_0")
    await outcome_of(outs[0])
    assert sent == [(kinds.CANCEL, 1)]
    await outcome_of(outs[1])


async def test_both_batches_fail_with_the_worker_and_the_next_one_serves(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted, _, outs = await two(hosts, tmp_path)
    assert hosted.worker.worker is not None
    hosted.worker.worker.kill("was ended by a test")
    for out in outs:
        error = (await outcome_of(out)).error
        assert error is not None
        assert error.code is ErrorCode.UNAVAILABLE
        assert "its worker process was ended by a test" in error.message
    await until(lambda: hosted.usable == [False, True])
    answers(await outcome_of(hosted.submit(ask((WHERE, 0)))))


async def test_a_second_batch_that_ends_the_worker_fails_alone(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted, _, outs = await two(hosts, tmp_path, second=DIES)
    let_go(tmp_path, "m_0")
    answers(await outcome_of(outs[0]))
    assert (await outcome_of(outs[1])).error is not None
    await until(lambda: hosted.restarts == [RestartReason.DIED])


async def test_the_time_limit_of_the_second_batch_counts_from_its_begin(
    hosts: Hosts, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = await start(hosts, tmp_path, 1, timeout_s=GIVE_UP_S)
    watched: list[str] = []
    host: Any = hosted.host
    watch, cancel = host._watchdog.watch, host._watchdog.cancel

    class Observed:
        def watch(self, *what: Any) -> None:
            watched.append(what[1])
            watch(*what)

        def cancel(self) -> None:
            watched.append("end")
            cancel()

    monkeypatch.setattr(host, "_watchdog", Observed())
    outs = [hosted.submit(ask((WAITS, 0))), hosted.submit(ask((WHERE, 0)), ask((WHERE, 0)))]
    assert watched == ["a batch of 1 requests"]
    let_go(tmp_path, "m_0")
    for out in outs:
        await outcome_of(out)
    assert watched == ["a batch of 1 requests", "end", "a batch of 2 requests", "end"]


async def test_a_second_batch_that_cannot_be_handed_over_fails_alone(
    hosts: Hosts, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = await start(hosts, tmp_path, 1)
    first = hosted.submit(ask((WAITS, 0)))

    def fail(*_: Any) -> int:
        raise OSError(errno.EMFILE, "no descriptor")

    with monkeypatch.context() as without:
        without.setattr(os, "memfd_create", fail)
        refused = await outcome_of(hosted.submit(large(1)))
    assert refused.error is not None
    assert "could not be handed over" in refused.error.message
    assert not first.done()
    third = hosted.submit(large(2))
    let_go(tmp_path, "m_0")
    answers(await outcome_of(first))
    assert number_of(await outcome_of(third)) == 2


async def test_the_end_waits_for_both_batches(hosts: Hosts, tmp_path: pathlib.Path) -> None:
    hosted, _, outs = await two(hosts, tmp_path)
    closing = asyncio.ensure_future(hosted.host.close())
    await asyncio.sleep(0)
    let_go(tmp_path, "m_0")
    for out in outs:
        answers(await outcome_of(out))
    await asyncio.wait_for(closing, GIVE_UP_S)
    assert (tmp_path / "notes").read_text().splitlines()[-1] == "model closed"


async def test_an_unload_that_gives_up_ends_both(hosts: Hosts, tmp_path: pathlib.Path) -> None:
    hosted, _, outs = await two(hosts, tmp_path)
    closing = asyncio.ensure_future(hosted.host.close())
    await asyncio.sleep(0)
    hosted.host.abort("a test says so")
    for out in outs:
        error = (await outcome_of(out)).error
        assert error is not None
        assert "was killed, because a test says so" in error.message
    await asyncio.wait_for(closing, GIVE_UP_S)


def number_of(outcome: BatchOutcome) -> float:
    """The number that came back with a batch of one request."""
    values: Any = answers(outcome)[0]["OUT"]
    return float(values[0][1])


def large(number: int) -> Inference:
    """A request whose tensor does not fit into a message."""
    row = np.full((1, 20_000), number, np.float32)
    row[0, 0] = SAME
    return inference(tensor("IN", row, datatypes.FP32))


@pytest.mark.parametrize(
    "aside", [1 << 22, 1 << 10], ids=["copied by the loop", "large ones by a thread"]
)
async def test_batches_come_back_with_their_own_tensors_while_two_are_there_all_the_time(
    hosts: Hosts, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, aside: int
) -> None:
    monkeypatch.setattr(process_host, "COPIED_ASIDE", aside)
    hosted = await start(hosts, tmp_path, 1)
    kept: list[tuple[int, Any]] = []
    left = iter(range(300))
    ended = asyncio.get_running_loop().create_future()

    def submit() -> None:
        number = next(left, None)
        if number is None:
            return
        request = large(number) if number % 3 else ask((SAME, number))

        def on_outcome(outcome: BatchOutcome) -> None:
            submit()
            kept.append((number, number_of(outcome)))
            if len(kept) == 300:
                ended.set_result(None)

        hosted.host.submit([request], on_outcome)

    submit()
    submit()
    await asyncio.wait_for(ended, GIVE_UP_S)
    assert kept == [(number, number) for number in range(300)]


async def test_a_thread_takes_the_second_batch_without_the_loop(hosted: HostedThread) -> None:
    go, begun = threading.Event(), threading.Event()
    seen: list[int] = []

    def script(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
        seen.append(len(batch))
        if len(seen) == 2:
            begun.set()
        else:
            assert go.wait(GIVE_UP_S)
        return answer_all(batch)

    instance = ScriptedInstance(script)
    instance.prefetches = True
    host = hosted(instance)
    assert host.prefetches
    outcomes: list[BatchOutcome] = []
    host.submit([make_inference()], outcomes.append)
    host.submit([make_inference(), make_inference()], outcomes.append)
    go.set()
    assert begun.wait(GIVE_UP_S), "the event loop does nothing meanwhile"
    assert outcomes == []
    await until(lambda: len(outcomes) == 2)
    first, second = outcomes
    assert [len(first.batch), len(second.batch)] == [1, 2]
    assert first.compute_end_ns <= second.compute_start_ns <= time.monotonic_ns()
    await host.close()


def test_a_cancellation_that_comes_before_the_batch_before_it_is_kept() -> None:
    requests = [ReceivedRequest(number) for number in range(4)]
    for each in requests:
        each.cancelled = False
    in_progress = RequestsInProgress(0)
    in_progress.cancel(3)
    in_progress.begin(0, requests[:2])
    in_progress.cancel(2)
    in_progress.ended()
    in_progress.begin(2, requests[2:])
    assert [each.cancelled for each in requests] == [False, False, True, True]
