"""Packets on the link between the server and a worker process: whatever one side sends, the other answers every request or breaks the link.

An input is choices that make up to four packets, each with any header, any bytes behind it, and any descriptors. They go to the
server's end (a real `ProcessHost` whose process is a stand-in) while two batches wait for their outcomes, and to the worker's end.
"""

import asyncio
import contextlib
import logging
import math
import os
import pathlib
import socket
import struct
import typing

import numpy as np

from naiad.backends.backend import WorkerPlan
from naiad.backends.instance import Execution, InstanceSpec, Response
from naiad.config.model_config import InstanceKind
from naiad.core import datatypes
from naiad.core.clock import ManualClock
from naiad.core.processes.launch import Child
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError, internal
from naiad.hosts.host import BatchOutcome, ClosedRpcHandler, DeferredResponse, Limits
from naiad.hosts.link import codec, kinds, link
from naiad.hosts.link.payload import Payload
from naiad.hosts.process import worker_process
from naiad.hosts.process.output_log import Identity
from naiad.hosts.process.spawn import Spawned
from naiad.hosts.process.worker_group import WorkerGroup
from naiad.hosts.worker.asking import AskingServer
from naiad.hosts.worker.requests import RequestReader
from tests.fuzz.choices import Choices
from tests.server.backends.configs import inference, model_config, spec

WORDS = (
    '[[null,[["y","FP32",[1,4],"cpu",0]]]]', '[["y","FP32",[1,4],"cpu",0]]', '["s","BYTES",[1],"cpu",0]', '["INTERNAL","x"]', '"cuda"', '"shared"',
    "[1,[]]", "[]", '"BYTES"', '"INT8"', "null", "-1", "18446744073709551616", "[[]]", '["infer"', '["cancel"]', '["load"',
)  # fmt: skip

_KINDS = (
    kinds.OUTCOME, kinds.RESPONSE, kinds.LOADED, kinds.REFUSED, kinds.DONE, kinds.READY, kinds.REQUEST, kinds.CALL, kinds.PONG, kinds.BATCH, kinds.RESULT,
    kinds.LOAD, kinds.CLOSED, kinds.ENDS, kinds.ALIVE, kinds.ADD, kinds.SHARE, 0, 63, 64, 255,
)  # fmt: skip
_NUMBERS = (0, 1, 2, 16, 32, 64, 1 << 15, 1 << 16, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
_MESSAGE = struct.Struct("<BBBBxxxxQQQ")
_IN_THE_PACKET = 255
_MOST_BYTES = 1 << 24
"""Of one tensor that a worker may make the server hold: what it has sent is far less."""

_CONFIG = model_config(
    backend="python",
    inputs=[spec("x", datatypes.FP32, (-1,))],
    outputs=[spec("y", datatypes.FP32, (-1,)), spec("s", datatypes.BYTES, (1,))],
)
_PLAN = WorkerPlan(
    executable="python",
    load="none:none",
    settings={},
    environ={},
    instances=(InstanceSpec("m_0_0", InstanceKind.CPU, 0),),
)

_Y = ("y", "FP32", np.ones((1, 4), np.float32))
_S = ("s", "BYTES", np.array([b"a"], object))
_X = ("x", "FP32", np.ones((1, 4), np.float32))


def _packet(kind: int, header: bytes, *, tensors: bytes = b"", slot: int = _IN_THE_PACKET) -> bytes:
    """Choices that make one packet in which everything fits."""
    kinds = bytes([_KINDS.index(kind), 0, 0 if slot == _IN_THE_PACKET else 1, 0, 0, 0])
    payload = tensors + header
    return kinds + len(tensors).to_bytes(2, "little") + len(payload).to_bytes(2, "little") + payload


def _written(kind: int, written: tuple[bytes, Payload]) -> bytes:
    header, payload = written
    return _packet(kind, header, tensors=payload.joined())


def seeds() -> list[bytes]:
    """Packets as a worker sends them."""
    failed = Response([], {}, internal("x"))
    outcome = codec.write_outcome(Execution([Response([_Y, _S], {"p": 1})], 1, 2))
    response = codec.write_response(Response([_S], {}), final=True, begun_ns=0)
    return [
        b"\1\0" + _written(kinds.OUTCOME, outcome),
        b"\1\0" + _written(kinds.OUTCOME, codec.write_outcome(Execution([failed], 1, 2))),
        b"\0\0" + _packet(kinds.REFUSED, b'["INTERNAL","x"]'),
        b"\2\0"
        + _written(kinds.RESPONSE, response)
        + _written(kinds.OUTCOME, codec.write_outcome(Execution([None], 1, 2))),
        b"\1\1" + _written(kinds.BATCH, codec.write([((1, ()), [_X])], b'[["a",0,0,0,{},false]]')),
        b"\1\1" + _written(kinds.RESULT, codec.write([((), [_X])], b"[true,null,{}]")),
    ]


def check(data: bytes) -> None:
    """Raise if either side does otherwise."""
    choices = Choices(data)
    count, to_worker = choices.integer(1, 4), choices.boolean()
    _loop()
    before = _descriptors()
    packets = [_made(choices) for _ in range(count)]
    logging.disable(logging.CRITICAL)  # every worker here ends badly, and the host says so
    try:
        if to_worker:
            _send_to_worker(packets)
        else:
            _loop().run_until_complete(_send_to_server(packets))
    finally:
        logging.disable(logging.NOTSET)
        for _, descriptors in packets:
            for descriptor in descriptors:
                os.close(descriptor)
    assert _descriptors() == before, "descriptors are left"


def _made(choices: Choices) -> tuple[bytes, list[int]]:
    kind, held = choices.pick(_KINDS), choices.integer(0, 255)
    how, odd, along, number = (choices.integer(0, 255) for _ in range(4))
    tensors, size = choices.integer(0, 0xFFFF - 1), choices.integer(0, 0xFFFF - 1)
    payload = choices.take(size)
    slot = _IN_THE_PACKET if how % 4 == 0 else how % 7
    at, length = min(tensors, len(payload)), len(payload) - min(tensors, len(payload))
    if odd & 1:
        at = _NUMBERS[odd // 4 % len(_NUMBERS)]
    if odd & 2:
        length = _NUMBERS[odd // 8 % len(_NUMBERS)]
    head = _MESSAGE.pack(kind, held, slot, odd, number, at, length)
    if odd == 0xFF:
        head = head[: along % _MESSAGE.size]
    if slot == _IN_THE_PACKET:
        return head + payload, _along(along) if along & 1 and along > 0x7F else []
    return head, [_segment(payload), *_along(along)] if along % 8 != 7 else _along(along)


def _along(choice: int) -> list[int]:
    """Descriptors that are not segments."""
    match choice // 8 % 5:
        case 0:
            return []
        case 1:
            return [os.open("/dev/null", os.O_RDWR)]
        case 2:
            return [_segment(b"")]
        case 3:
            return [os.open("/", os.O_RDONLY)]
        case _:
            return [_segment(bytes(10)), _segment(bytes(100))]


def _segment(payload: bytes) -> int:
    segment = os.memfd_create("x")
    os.write(segment, payload)
    return segment


def _send(sender: socket.socket, packets: list[tuple[bytes, list[int]]]) -> None:
    for message, descriptors in packets:
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            socket.send_fds(sender, [message or b"\0"], descriptors)


def _send_to_worker(packets: list[tuple[bytes, list[int]]]) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setblocking(False)
    end = link.Link(theirs)
    asking = AskingServer(link.Link(ours.dup()))
    got: list[typing.Any] = []
    asking._deliveries[0] = lambda response, final: got.append(response)
    _send(ours, packets)
    try:
        for _ in packets:
            kind, number, header = end.receive()
            base = end.take_notification() if kind >= kinds.NOTIFICATIONS else end.base
            with contextlib.suppress(
                Exception
            ):  # the worker says INTERNAL, or ends: a server that sends this is broken
                if kind == kinds.BATCH:
                    for request in RequestReader().read(base, header, number):
                        for each in request.inputs:
                            assert each.array.nbytes <= _MOST_BYTES
                else:
                    asking.on_reply(number, header, base)
            del base
    except (link.LinkBrokenError, link.SegmentLostError, BlockingIOError):
        pass
    finally:
        got.clear()
        end.close()
        asking._link.close()
        ours.close()


class _Process:
    """Stands for a process that has ended when it is asked."""

    pid = 2**22 + 1
    returncode = 0

    def poll(self) -> int:
        return 0


class _Far:
    """The other end of a worker's descriptors, and its process."""

    def __init__(self) -> None:
        self.gone = -1
        self.used = False
        self.output = -1

    async def spawn(
        self, identity: Identity, plan: WorkerPlan, undo: contextlib.ExitStack
    ) -> Spawned:
        if self.used:
            raise OSError("a replacement is not started here")
        self.used = True
        ours, self.data = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control, self.control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        output, self.output = os.pipe()
        gone, self.gone = os.pipe()
        for each in (ours, control, self.data, self.control):
            each.setblocking(False)
        for descriptor in (output, gone):
            os.set_blocking(descriptor, False)
            undo.callback(os.close, descriptor)
        process = typing.cast("Child", _Process())
        return Spawned(process, [ours], control, output, gone)

    def end(self) -> None:
        if self.gone >= 0:
            os.close(self.gone)  # its other end becomes readable
            self.gone = -1

    def close(self) -> None:
        self.end()
        self.data.close()
        self.control.close()
        os.close(self.output)


class _NoPlace:
    """Binds no process."""

    def __init__(self, pid: int) -> None:
        pass

    def add(self, thread: int) -> None:
        pass

    def close(self) -> None:
        pass

    def remove(self, thread: int) -> None:
        pass

    def ran(self, computed_ns: int) -> None:
        pass


_LOOPS: list[asyncio.AbstractEventLoop] = []


def _loop() -> asyncio.AbstractEventLoop:
    if not _LOOPS:
        _LOOPS.append(asyncio.new_event_loop())
    return _LOOPS[0]


async def _send_to_server(packets: list[tuple[bytes, list[int]]]) -> None:
    loop = asyncio.get_running_loop()
    far = _Far()
    raised: list[typing.Any] = []
    loop.set_exception_handler(lambda _, details: raised.append(details))
    with contextlib.ExitStack() as patched:
        for owner, name, stand_in in (
            (worker_process, "spawn", far.spawn),
            (worker_process, "WorkerAffinity", _NoPlace),
            (worker_process.WorkerProcess, "kill", lambda worker, because: far.end()),
        ):
            patched.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, stand_in)
        await _batch(far, packets)
    assert not raised, f"an exception in the event loop: {raised[0].get('exception')!r}"
    loop.set_exception_handler(None)


async def _batch(far: _Far, packets: list[tuple[bytes, list[int]]]) -> None:
    loop = asyncio.get_running_loop()
    answers: list[DeferredResponse] = []
    outcomes: list[BatchOutcome] = []
    group = WorkerGroup(
        "m",
        1,
        _PLAN,
        config=_CONFIG,
        limits=Limits(),
        on_restart=lambda _: None,
        rpc_handler=ClosedRpcHandler(),
        clock=ManualClock(),
        loop=loop,
    )
    worker, (host,) = group.supervisor, group.hosts
    host.deferred_to(answers.append)
    loading = loop.create_task(worker.start())
    await _settle()
    first, *others = packets
    if first[0][:1] in {bytes([kinds.REFUSED]), bytes([kinds.DONE])}:
        others = packets  # what is sent while it loads
    else:
        loaded = b'{"prefetches":true}'
        head = _MESSAGE.pack(kinds.LOADED, 0, _IN_THE_PACKET, 0, 0, 0, len(loaded))
        _send(far.data, [(head + loaded, [])])
        await _settle()
        others = packets
        for _ in range(2):
            one = inference(Tensor("x", datatypes.FP32, (1, 2), np.ones((1, 2), np.float32)))
            host.submit([one], outcomes.append)
        await _settle()
    _send(far.data, others)
    await _settle()
    far.end()
    await _settle()
    with contextlib.suppress(InferenceError):
        await asyncio.wait_for(loading, 60)
    if host.busy or len({id(outcome.batch) for outcome in outcomes}) != len(outcomes):
        raise AssertionError("a batch has no outcome, or two")
    for response in _responses(outcomes, answers):
        for output in response.outputs:
            assert output.fault is None
            assert output.array.shape == output.shape
            assert output.array.dtype == output.datatype.dtype
            assert output.array.size == math.prod(output.shape)
            assert output.array.nbytes <= _MOST_BYTES, (
                "a worker makes the server hold what it did not send"
            )
    answers.clear()
    outcomes.clear()
    await worker.close()
    far.close()


def _responses(
    outcomes: list[BatchOutcome], answers: list[DeferredResponse]
) -> list[InferResponse]:
    found = [answer.response for answer in answers]
    for outcome in outcomes:
        if outcome.execution is not None:
            found += [response for response in outcome.execution.responses if response is not None]
    return found


async def _settle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


def _descriptors() -> int:
    return len(list(pathlib.Path("/proc/self/fd").iterdir()))
