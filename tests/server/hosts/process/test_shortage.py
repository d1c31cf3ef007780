"""A worker process and a server short of descriptors or memory: each request gets its own tensors or an error, and both go on."""

import collections.abc
import contextlib
import errno
import os
import resource
import threading
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from naiad.core import datatypes
from naiad.core.inference import Inference
from naiad.errors import ErrorCode
from naiad.hosts import unpacking
from naiad.hosts.device_tensors import DeviceTensors
from naiad.hosts.host import BatchAt, BatchOutcome, ClosedRpcHandler, Notify
from naiad.hosts.link import codec, layouts, segments
from naiad.hosts.link.kinds import RESULT
from naiad.hosts.link.link import Link
from naiad.hosts.process import process_host
from naiad.hosts.process.instance_links import InstanceLinks
from tests.server.backends.configs import inference, spec, tensor
from tests.server.hosts.process.workers import SAME, TO_THE_LAST, Hosts, ask, told
from tests.support.waiting import until, wait_until

pytestmark = pytest.mark.slow

FIRST_NUMBER = """
def execute(self, requests):
    return [response(each.inputs()[0].as_numpy()[0, 0], 0) for each in requests]
"""

COUNT = 20_000
"""So many numbers of four bytes need a segment."""

LIMITED = """
def initialize(self, args):
    import resource
    self.resource = resource
    self.held = []

def execute(self, requests):
    responses = []
    for request in requests:
        values = request.inputs()[0].as_numpy()
        what = values[0, 0]
        limit = self.resource.RLIMIT_AS if what < 0 else self.resource.RLIMIT_NOFILE
        soft, hard = self.resource.getrlimit(limit)
        if abs(what) == 1:
            self.held.append(values)
            self.resource.setrlimit(limit, (0 if what > 0 else 1 << 20, hard))
        elif abs(what) == 2:
            self.resource.setrlimit(limit, (hard, hard))
        responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.full((1, 2), what, np.float32))]))
    return responses
"""

WIDE: dict[str, Any] = {
    "inputs": [spec("IN", datatypes.FP32, (-1,))],
    "outputs": [spec("OUT", datatypes.FP32, (-1,))],
}


def wide(value: float, count: int = COUNT) -> Inference:
    return inference(tensor("IN", np.full((1, count), value, np.float32)))


def value(outcome: BatchOutcome) -> float:
    """What all of an answer's numbers are."""
    assert outcome.error is None, outcome.error
    assert outcome.execution is not None
    response = outcome.execution.responses[0]
    assert response is not None
    (only,) = set(response.outputs[0].array.ravel().tolist())
    return float(only)


@contextlib.contextmanager
def no_descriptor_left() -> collections.abc.Iterator[None]:
    """This process can open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def failing(number: int) -> collections.abc.Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise OSError(number, "injected")

    return fail


@pytest.mark.parametrize("sign", [1, -1], ids=["descriptors", "address space"])
async def test_a_worker_without_descriptors_or_memory_fails_the_batches_it_cannot_take_and_goes_on(
    hosts: Hosts, sign: int
) -> None:
    hosted = await hosts.start(LIMITED, **WIDE)
    assert value(await hosted.run(wide(1 * sign))) == sign
    pid = hosted.worker.pid
    for number in (80, 81):
        outcome = await hosted.run(wide(number, COUNT * 40))
        assert outcome.error is not None
        assert outcome.error.code is ErrorCode.UNAVAILABLE
        assert "could not take the request" in outcome.error.message
    assert value(await hosted.run(ask((82, 82)))) == 82, "a small request needs no segment"
    await hosted.run(ask((2 * sign, 0)))
    for number in (83, 84, 85):
        assert value(await hosted.run(wide(number, COUNT * 40))) == number
    assert hosted.worker.pid == pid
    assert hosted.restarts == []


async def test_a_server_without_descriptors_fails_the_batch_whose_answer_it_cannot_take(
    hosts: Hosts,
) -> None:
    """The requests come in a segment that is there already, so that only the answers need a descriptor."""
    hosted = await hosts.start(GROWS, **WIDE)
    assert value(await hosted.run(wide(3))) == 3

    held = await hosted.run(wide(4))
    with no_descriptor_left():
        outcomes = [await hosted.run(wide(number)) for number in (-5, -6)]
    for outcome in outcomes:
        assert outcome.error is not None
        assert outcome.error.code is ErrorCode.UNAVAILABLE
        assert "could not be received" in outcome.error.message
    assert [value(await hosted.run(wide(number))) for number in (-7, 8, -9)] == [-7, 8, -9]
    assert value(held) == 4
    assert hosted.restarts == []


GROWS = """
def execute(self, requests):
    values = requests[0].inputs()[0].as_numpy()
    if values[0, 0] < 0:
        values = np.repeat(values, 30, axis=1)
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)])]
"""


@pytest.mark.parametrize(
    ("where", "name", "number"),
    [(os, "memfd_create", errno.EMFILE), (segments, "Mapping", errno.ENOMEM)],
)
async def test_a_server_that_cannot_make_a_segment_fails_that_batch_alone(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, number: int
) -> None:
    hosted = await hosts.start(SAME, **WIDE)
    assert value(await hosted.run(wide(1))) == 1
    with monkeypatch.context() as without:
        without.setattr(where, name, failing(number))
        outcome = await hosted.run(wide(2, COUNT * 40))
        assert value(await hosted.run(ask((3, 3)))) == 3
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.UNAVAILABLE
    assert "could not be handed over" in outcome.error.message
    assert [value(await hosted.run(wide(each, COUNT * 40))) for each in (4, 5)] == [4, 5]
    assert hosted.restarts == []


async def test_a_streamed_response_that_cannot_be_taken_ends_its_request_and_no_other(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(STREAMS, decoupled=True, **WIDE)
    with no_descriptor_left():  # none was sent before, whose segment would be used again
        await hosted.run(ask((2, 0)))
        await until(lambda: hosted.answers)
    assert told(hosted) == ["UNAVAILABLE!"]
    hosted.answers.clear()
    await hosted.run(ask((1, 0)))
    await until(lambda: len(hosted.answers) == 2)
    assert told(hosted) == [1, "end!"]


STREAMS = TO_THE_LAST.replace("response(number, 0)", "response(*[number + 1] * 20_000)")


ASKS = """
def execute(self, requests):
    responses = []
    for request in requests:
        name = str(int(request.inputs()[0].as_numpy()[0, 0]))
        try:
            got = float(pb_utils.is_model_ready(name))
        except pb_utils.TritonModelException as error:
            got = -1.0 if "could not send" in str(error) else -2.0
        responses.append(response(got, 0))
    return responses
"""


class LongAnswers(ClosedRpcHandler):
    """Says that every model is ready, at a length that needs a segment for models above 100."""

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
        _, rest = layouts.Reader(unpacking.resolved).read(header)
        name = codec.read_json(rest)[1]
        answer = b"[null, true]".ljust(COUNT * 4 if int(name) > 100 else 0)
        reply(RESULT, number, codec.write([], answer)[0])


async def test_an_answer_that_cannot_be_sent_is_an_error_for_the_model_and_keeps_no_message_behind_it(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = await hosts.start(ASKS, rpc_handler=LongAnswers())
    with monkeypatch.context() as without:
        without.setattr(os, "memfd_create", failing(errno.EMFILE))
        outcomes = [await hosted.run(ask((number, 0))) for number in (102, 3, 104)]
    assert [value_of(outcome) for outcome in outcomes] == [-1, 1, -1]
    assert value_of(await hosted.run(ask((105, 0)))) == 1
    assert await hosted.host.ready()
    assert hosted.restarts == []


async def test_a_short_message_that_cannot_be_sent_is_sent_when_it_can(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = await hosts.start(SAME)
    failed: list[int] = []
    send = Link.notify

    def notify(end: Link, *message: Any) -> None:
        if len(failed) < 2:
            failed.append(1)
            raise OSError(errno.ENOBUFS, "injected")
        send(end, *message)

    monkeypatch.setattr(Link, "notify", notify)
    assert await hosted.host.ready()
    assert len(failed) == 2
    assert await hosted.host.ready()


def value_of(outcome: BatchOutcome) -> float:
    """The first number of an answer."""
    assert outcome.error is None, outcome.error
    assert outcome.execution is not None
    response = outcome.execution.responses[0]
    assert response is not None
    return float(response.outputs[0].array[0, 0])


async def test_a_large_batch_is_copied_by_a_thread(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_host, "COPIED_ASIDE", 0)
    hosted = await hosts.start(SAME, **WIDE)
    assert value(await hosted.run(wide(1))) == 1
    with monkeypatch.context() as without:
        without.setattr(os, "memfd_create", failing(errno.EMFILE))
        outcome = await hosted.run(wide(2, COUNT * 40))
    assert outcome.error is not None
    assert "could not be handed over" in outcome.error.message
    assert value(await hosted.run(wide(3))) == 3


@pytest.mark.parametrize(
    ("again", "by_thread"), [(1 << 23, 1), (0, 3)], ids=["small enough for the loop", "larger"]
)
async def test_a_thread_copies_what_is_large_or_takes_new_memory(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, again: int, by_thread: int
) -> None:
    monkeypatch.setattr(process_host, "COPIED_ASIDE", 0)
    monkeypatch.setattr(process_host, "COPIED_ASIDE_AGAIN", again)
    copied: list[int] = []
    send_aside = InstanceLinks.send_aside

    def counted(self: InstanceLinks, place: int, *message: Any, **rest: Any) -> None:
        copied.append(place)
        send_aside(self, place, *message, **rest)

    monkeypatch.setattr(InstanceLinks, "send_aside", counted)
    hosted = await hosts.start(FIRST_NUMBER, **WIDE)
    for number in range(3):
        assert value_of(await hosted.run(wide(number))) == number
    assert len(copied) == by_thread


async def test_the_thread_that_copies_ends_with_its_worker(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copying() -> list[str]:
        return [each.name for each in threading.enumerate() if "-copies" in each.name]

    monkeypatch.setattr(process_host, "COPIED_ASIDE", 0)
    hosted = await hosts.start(SAME, **WIDE)
    assert value(await hosted.run(wide(1))) == 1
    assert copying() == ["m_0_0-copies_0"]
    await hosted.host.close()
    wait_until(lambda: copying() == [], what=f"{copying()} go on")
