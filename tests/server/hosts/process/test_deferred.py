"""Deferred responses in a worker process: decoupled models, senders, async execute, cancels (rows 15.8, 15.9, 15.16, 15.17, 15.29)."""

import asyncio
import logging
import os
import pathlib
import signal
from typing import Any

import pytest

from naiad.core import datatypes
from naiad.errors import ErrorCode
from naiad.metrics.statistics import RestartReason
from tests.server.backends.configs import spec, values
from tests.server.hosts.process.workers import (
    GIVE_UP_S,
    TO_THE_LAST,
    Hosts,
    ask,
    exists,
    lines,
    told,
)
from tests.support.waiting import until

UNTIL_CANCELLED = """
def initialize(self, args):
    self.folder = args["model_repository"]

def execute(self, requests):
    threading.Thread(target=self.go_on, args=(requests[0].get_response_sender(),)).start()

def go_on(self, sender):
    sender.send(response(1, 1))
    while not sender.is_cancelled():
        time.sleep(0.005)
    sender.send(response(2, 2), flags=FINAL)
"""


async def test_a_decoupled_model_responds_many_times_and_every_response_arrives_before_its_batch_ends(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(TO_THE_LAST, decoupled=True)
    first, second = ask((2, 0)), ask((0, 0))
    out = hosted.submit(first, second)
    told_by_then: list[Any] = []
    out.add_done_callback(lambda _: None)
    outcome = await asyncio.wait_for(out, GIVE_UP_S)
    told_by_then = told(hosted)
    assert outcome.execution is not None
    assert outcome.execution.responses == [None, None]
    assert told_by_then == [0, 1, "end!", "end!"]
    assert [answer.inference for answer in hosted.answers] == [first, first, first, second]
    assert all(
        outcome.compute_start_ns <= answer.begun_ns <= outcome.compute_end_ns
        for answer in hosted.answers
    )


async def test_a_thousand_answers_come_in_order(hosts: Hosts) -> None:
    hosted = await hosts.start(TO_THE_LAST, decoupled=True)
    await hosted.run(ask((1000, 0)))
    assert told(hosted) == [*range(1000), "end!"]


async def test_large_answers_and_answers_of_words_come_whole(hosts: Hosts) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            for request in requests:
                sender = request.get_response_sender()
                for size in (1, 10_000, 300_000):
                    words = np.array([[b"x" * size, b""]], object)
                    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", words)], parameters={"size": size}))
                sender.send(flags=FINAL)
        """,
        decoupled=True,
        outputs=[spec("OUT", datatypes.BYTES, (2,))],
    )
    await hosted.run()
    *answers, end = [answer.response for answer in hosted.answers]
    assert end.empty
    for size, answer in zip((1, 10_000, 300_000), answers, strict=True):
        assert values(answer) == {"OUT": [[b"x" * size, b""]]}
        assert answer.parameters == {"size": size}


async def test_a_thread_of_the_model_answers_while_other_batches_come_and_go(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(
        """
        def initialize(self, args):
            self.held = None
        def execute(self, requests):
            value = requests[0].inputs()[0].as_numpy()[0, 0]
            if value == 0:
                self.held = requests[0]
                self.sender = requests[0].get_response_sender()
                return None
            if value == 9:
                threading.Thread(target=self.answer).start()
            return [response(value, value)]
        def answer(self):
            self.sender.send(response(*self.held.inputs()[0].as_numpy()[0] + 5))
        """
    )
    waiting = ask((0, 7))
    outcome = await hosted.run(waiting)
    assert outcome.execution is not None
    assert outcome.execution.responses == [None]
    for number in (1, 2, 3, 9):
        outcome = await hosted.run(ask((number, 0)))
        assert outcome.execution is not None
    await until(lambda: hosted.answers)
    assert hosted.answers[0].inference is waiting
    assert values(hosted.answers[0].response) == {"OUT": [[5, 12]]}
    assert told(hosted) == ["5.0!"]


async def test_coroutines_of_a_decoupled_model_run_side_by_side(hosts: Hosts) -> None:
    hosted = await hosts.start(
        """
        async def execute(self, requests):
            import asyncio
            if not hasattr(self, "met"):
                self.met = asyncio.Event()
                await asyncio.wait_for(self.met.wait(), 10)
            self.met.set()
            for request in requests:
                request.get_response_sender().send(response(1, 1), flags=FINAL)
        """,
        decoupled=True,
    )
    await hosted.run()
    await hosted.run()
    await until(lambda: len(hosted.answers) == 2)
    assert told(hosted) == ["1.0!", "1.0!"]


@pytest.mark.slow
async def test_a_coroutine_that_lets_no_other_run_is_found_and_its_worker_replaced(
    hosts: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "naiad")
    hosted = await hosts.start(
        """
        async def execute(self, requests):
            import asyncio
            sender = requests[0].get_response_sender()
            seconds, stuck = requests[0].inputs()[0].as_numpy()[0]
            await asyncio.sleep(float(seconds))
            while stuck:
                pass
            sender.send(flags=FINAL)
        """,
        decoupled=True,
        timeout_s=1,
    )
    await hosted.run(ask((2.5, 0)))  # it may await for longer than that
    await until(lambda: told(hosted) == ["end!"])
    assert hosted.usable == []
    outcome = await hosted.run(ask((0, 1)))
    assert outcome.error is None
    await until(lambda: len(hosted.answers) == 2)
    error = hosted.answers[1].response.error
    assert error is not None
    assert error.code is ErrorCode.UNAVAILABLE
    assert "took longer than naiad.execute_timeout (1 s) and was killed" in error.message
    await until(lambda: hosted.usable == [False, True])
    assert hosted.restarts == [RestartReason.TIMEOUT]
    assert any("in execute" in line for line in lines(caplog, "naiad.models.m"))


async def test_an_async_execute_of_an_ordinary_model_answers_with_its_batch(hosts: Hosts) -> None:
    hosted = await hosts.start(
        """
        async def execute(self, requests):
            import asyncio
            await asyncio.sleep(0)
            return same(requests)
        """
    )
    outcome = await hosted.run(ask((3, 4)))
    assert outcome.execution is not None
    answer = outcome.execution.responses[0]
    assert answer is not None
    assert values(answer) == {"OUT": [[3, 4]]}


async def test_a_sender_that_is_dropped_fails_its_request(hosts: Hosts) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            threading.Thread(target=self.die, args=(requests.pop(),)).start()
        def die(self, request):
            raise ValueError("gone")
        """,
        decoupled=True,
    )
    await hosted.run(ask(request_id="r7"))
    await until(lambda: hosted.answers)
    error = hosted.answers[0].response.error
    assert error is not None
    assert error.code is ErrorCode.INTERNAL
    assert "[request id: r7] model 'm_0_0' dropped this request's response sender" in error.message


async def test_what_raises_in_a_decoupled_batch_fails_the_batch_and_what_it_sent_stays_sent(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            requests[0].get_response_sender().send(response(1, 1), flags=FINAL)
            raise ValueError("then it broke")
        """,
        decoupled=True,
    )
    outcome = await hosted.run(ask(), ask())
    assert outcome.error is not None
    assert "then it broke" in outcome.error.message
    assert told(hosted) == ["1.0!"]


async def test_a_cancel_is_seen_by_a_model_that_still_answers(hosts: Hosts) -> None:
    hosted = await hosts.start(UNTIL_CANCELLED, decoupled=True)
    request, other = ask(), ask()
    await hosted.run(request)
    await hosted.run(other)
    await until(lambda: len(hosted.answers) == 2)
    request.cancel()
    await until(lambda: len(hosted.answers) == 3)
    assert hosted.answers[2].inference is request
    other.cancel()
    await until(lambda: len(hosted.answers) == 4)


async def test_a_cancel_is_seen_while_the_batch_runs(hosts: Hosts, tmp_path: pathlib.Path) -> None:
    hosted = await hosts.start(
        """
        def initialize(self, args):
            self.folder = args["model_repository"]
        def execute(self, requests):
            open(self.folder + "/begun", "w").close()
            while not requests[1].is_cancelled():
                time.sleep(0.005)
            return [response(each.is_cancelled(), 0) for each in requests]
        """
    )
    batch = [ask(), ask()]
    out = hosted.submit(*batch)
    await until((tmp_path / "begun").exists)
    batch[1].cancel()
    outcome = await asyncio.wait_for(out, GIVE_UP_S)
    assert outcome.execution is not None
    assert [
        values(response) for response in outcome.execution.responses if response is not None
    ] == [
        {"OUT": [[0, 0]]},
        {"OUT": [[1, 0]]},
    ]


async def test_a_cancel_that_comes_right_behind_its_batch_or_before_it_is_not_lost(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            end = time.monotonic() + 60
            while not requests[0].is_cancelled() and time.monotonic() < end:
                pass
            return [response(each.is_cancelled(), 0) for each in requests]
        """
    )
    for _ in range(20):
        request = ask()
        out = hosted.submit(request)
        request.cancel()
        outcome = await asyncio.wait_for(out, GIVE_UP_S)
        assert outcome.execution is not None
        answer = outcome.execution.responses[0]
        assert answer is not None
        assert values(answer) == {"OUT": [[1, 0]]}
    early = ask()
    early.cancel()
    outcome = await hosted.run(early)
    assert outcome.execution is not None


@pytest.mark.slow
async def test_a_flood_of_cancels_to_a_worker_that_does_not_listen_arrives_later(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(
        """
        def initialize(self, args):
            self.folder = args["model_repository"]
        def execute(self, requests):
            open(self.folder + "/begun", "w").close()
            end = time.monotonic() + 60
            while not all(each.is_cancelled() for each in requests) and time.monotonic() < end:
                time.sleep(0.005)
            return [response(sum(each.is_cancelled() for each in requests), 0)] * len(requests)
        """,
        max_batch_size=4000,
    )
    batch = [ask() for _ in range(3000)]
    out = hosted.submit(*batch)
    await until((tmp_path / "begun").exists)
    os.kill(hosted.worker.pid, signal.SIGSTOP)
    for inference in batch:
        inference.cancel()
    os.kill(hosted.worker.pid, signal.SIGCONT)
    outcome = await asyncio.wait_for(out, GIVE_UP_S)
    assert outcome.execution is not None
    answer = outcome.execution.responses[0]
    assert answer is not None
    assert values(answer) == {"OUT": [[3000, 0]]}


@pytest.mark.slow
async def test_a_worker_that_dies_fails_every_request_that_still_waits_for_responses(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(UNTIL_CANCELLED, decoupled=True)
    await hosted.run()
    await hosted.run()
    await until(lambda: len(hosted.answers) == 2)
    pid = hosted.worker.pid
    os.kill(pid, signal.SIGKILL)
    await until(lambda: len(hosted.answers) == 4)
    assert told(hosted) == [1, 1, "UNAVAILABLE!", "UNAVAILABLE!"]
    error = hosted.answers[-1].response.error
    assert error is not None
    assert "was ended by SIGKILL" in error.message
    await until(lambda: hosted.usable == [False, True])
    assert not exists(pid)
    request = ask()
    await hosted.run(request)
    request.cancel()
    await until(lambda: len(hosted.answers) == 6)


async def test_a_sender_of_an_ordinary_model_that_answers_before_its_batch_ends(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            requests[0].get_response_sender().send(response(1, 1))
            return [None, *same(requests[1:])]
        """
    )
    for _ in range(3):
        outcome = await hosted.run(ask(), ask((5, 6)))
        assert outcome.execution is not None
        first, second = outcome.execution.responses
        assert first is None
        assert second is not None
        assert values(second) == {"OUT": [[5, 6]]}
    assert told(hosted) == ["1.0!"] * 3
