"""Calls of the thread that executes batches, whose replies come on the instance's own socket: whatever happens meanwhile, batches go on.

The handler of the requests answers as the model's input says; real processes throughout.
"""

import asyncio
import errno
import os
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from naiad.errors import ErrorCode
from naiad.hosts import unpacking
from naiad.hosts.device_tensors import DeviceTensors
from naiad.hosts.host import BatchAt, BatchOutcome, ClosedRpcHandler, Notify
from naiad.hosts.link import call, codec, layouts
from naiad.hosts.link.kinds import RESULT
from tests.server.hosts.process.test_shortage import COUNT, failing, no_descriptor_left
from tests.server.hosts.process.workers import Hosts, ask
from tests.support.waiting import until

CALLS = """
def initialize(self, args):
    self.kept = []

def other(self, target, count):
    tensor = pb_utils.Tensor("IN", np.full(count, 7, np.float32))
    request = pb_utils.InferenceRequest(model_name=target, requested_output_names=["OUT"], inputs=[tensor])
    found = request.exec()
    if found.has_error():
        error = found.error()
        return -float(error.code() == pb_utils.TritonError.UNAVAILABLE)
    return float(found.output_tensors()[0].as_numpy()[0])

def execute(self, requests):
    how, count = requests[0].inputs()[0].as_numpy()[0]
    return [response(getattr(self, "case_%d" % how)(int(count)), threading.active_count())]

def case_0(self, count):
    return self.other("same", count)

def case_1(self, count):
    "A handler of a signal raises while the call waits."
    def give_up(number, frame):
        raise TimeoutError
    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        self.other("late", count)
    except TimeoutError:
        return 1.0

def case_2(self, count):
    "A handler of a signal calls while the call waits."
    got = []
    signal.signal(signal.SIGALRM, lambda number, frame: got.append(self.other("release", count)))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    return self.other("late", count) + sum(got)

def case_3(self, count):
    "Threads call beside the batch's own."
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(pb_utils.InferenceRequest(model_name="same", requested_output_names=["OUT"], inputs=[
            pb_utils.Tensor("IN", np.full(count, 7, np.float32))]).exec) for _ in range(40)]
        mine = sum(self.other("same", count) for _ in range(40))
    return mine + sum(float(each.result().output_tensors()[0].as_numpy()[0]) for each in others)

def case_4(self, count):
    "No descriptor is left for the reply."
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        return self.other("long", count)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
"""

CALLED, CALLED_LATE, HANDLER_CALLS, THREADS, NO_DESCRIPTOR = range(5)


class Other(ClosedRpcHandler):
    """Stands for the other models: "same" answers with its input, "long" at a length that needs a segment, "late" when "release" is called."""

    def __init__(self) -> None:
        self.late: list[Any] = []
        self.calls = 0

    @override
    def handle(
        self,
        number: int,
        header: bytes | bytearray,
        base: Any,
        *,
        batch_at: BatchAt,
        reply: Notify,
        lent: DeviceTensors | None = None,
    ) -> None:
        layout, rest = layouts.Reader(unpacking.resolved).read(header)
        found = call.read(rest)
        if found is None:
            return  # a cancel
        self.calls += 1
        assert found.size == 1
        assert batch_at(found.first, 1) is not None
        name = codec.read_json(found.text)[0]
        (tensor,) = unpacking.tensors_of(base, layout.groups[0])
        values = tensor.array
        if name == "long":
            values = np.full(COUNT, 7, np.float32)
        header, payload = codec.write([((), [("OUT", "FP32", values)])], codec.THE_RESPONSE)
        if name == "late":
            self.late.append((reply, number, header, payload))
            return
        reply(RESULT, number, header, payload)
        if name == "release":
            self.answer_late()

    def answer_late(self) -> None:
        for reply, number, header, payload in self.late:
            reply(RESULT, number, header, payload)
        self.late.clear()


def value_of(outcome: BatchOutcome) -> float:
    assert outcome.error is None, outcome.error
    assert outcome.execution is not None
    response = outcome.execution.responses[0]
    assert response is not None
    assert response.error is None, response.error
    return float(response.outputs[0].array[0, 0])


@pytest.mark.parametrize("count", [1, COUNT])
async def test_a_call_that_its_thread_has_given_up_does_not_disturb_those_after_it(
    hosts: Hosts, count: int
) -> None:
    other = Other()
    hosted = await hosts.start(CALLS, rpc_handler=other)
    assert value_of(await hosted.run(ask((CALLED_LATE, count)))) == 1
    other.answer_late()  # to a worker that waits for a batch
    assert value_of(await hosted.run(ask((CALLED, count)))) == 7
    assert value_of(await hosted.run(ask((CALLED_LATE, count)))) == 1
    following = hosted.submit(ask((CALLED, count)))
    other.answer_late()  # perhaps to one that waits for another reply
    assert value_of(await asyncio.wait_for(following, 20)) == 7
    assert hosted.restarts == []


async def test_a_signal_handler_may_call_while_its_thread_waits_for_a_reply(hosts: Hosts) -> None:
    hosted = await hosts.start(CALLS, rpc_handler=Other())
    assert value_of(await hosted.run(ask((HANDLER_CALLS, 1)))) == 14


async def test_threads_may_call_beside_the_thread_that_executes(hosts: Hosts) -> None:
    other = Other()
    hosted = await hosts.start(CALLS, rpc_handler=other)
    assert value_of(await hosted.run(ask((THREADS, 100)))) == 7 * 80
    assert other.calls == 80


async def test_a_reply_that_the_worker_cannot_take_is_an_error_of_that_call_alone(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(CALLS, rpc_handler=Other())
    assert value_of(await hosted.run(ask((NO_DESCRIPTOR, 1)))) == -1
    assert value_of(await hosted.run(ask((CALLED, COUNT)))) == 7
    assert hosted.restarts == []


async def test_a_reply_that_the_server_cannot_send_is_an_error_of_that_call_alone(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = await hosts.start(CALLS, rpc_handler=Other())
    with monkeypatch.context() as without:
        without.setattr(os, "memfd_create", failing(errno.EMFILE))
        assert value_of(await hosted.run(ask((CALLED, COUNT)))) == -1
    assert value_of(await hosted.run(ask((CALLED, COUNT)))) == 7
    assert hosted.restarts == []


async def test_a_call_that_the_server_cannot_take_is_an_error_of_that_call_alone(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(CALLS, rpc_handler=Other())
    with no_descriptor_left():
        assert value_of(await hosted.run(ask((CALLED, COUNT)))) == -1
    assert value_of(await hosted.run(ask((CALLED, COUNT)))) == 7
    assert hosted.restarts == []


async def test_a_worker_that_waits_for_a_reply_can_be_killed(hosts: Hosts) -> None:
    other = Other()
    hosted = await hosts.start(CALLS, rpc_handler=other)
    batch = hosted.submit(ask((HANDLER_CALLS, 1)))
    await until(lambda: other.calls == 1)
    hosted.host.abort("the test does")
    outcome = await asyncio.wait_for(batch, 20)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.UNAVAILABLE
    other.answer_late()  # to a worker that is gone
