"""The life of a stream as a table: (state, what came or goes) -> state, or whose fault it is (RFC 9113, section 5.1). Pure.

The states are those of a stream that a client opened on a server that never pushes: both reserved states cannot occur.
"""

import collections
import enum
import typing

import msgspec
import numpy as np

from naiad.protocol.transport.http2.errors import ConnectionFault, ErrorCode, StreamFault
from naiad.protocol.transport.http2.frames import HEAD_BYTES


class State(enum.IntEnum):
    """Section 5.1; a stream that is idle has no object."""

    OPEN = 0
    HALF_CLOSED_REMOTE = 1
    """The client has finished sending."""
    HALF_CLOSED_LOCAL = 2
    """We have."""
    CLOSED = 3


class Step(enum.IntEnum):
    """What comes on a stream that exists, or is sent on it."""

    HEADERS = 0
    """Without END_STREAM: neither a request, which opened the stream, nor trailers."""
    TRAILERS = 1
    """HEADERS with END_STREAM."""
    DATA = 2
    LAST_DATA = 3
    """DATA with END_STREAM."""
    RESET = 4
    """RST_STREAM, from either side."""
    END = 5
    """We send END_STREAM."""


class Fault(msgspec.Struct, frozen=True):
    """What the client must not do; `of_connection` ends more than the stream."""

    code: ErrorCode
    section: str
    of_connection: bool = False


_MALFORMED = Fault(ErrorCode.PROTOCOL_ERROR, "8.1")
_ENDED = Fault(ErrorCode.STREAM_CLOSED, "5.1")
_GONE = Fault(ErrorCode.STREAM_CLOSED, "5.1", of_connection=True)

_O, _R, _L, _C = State

TRANSITIONS: dict[State, dict[Step, State | Fault]] = {
    State.OPEN: {
        Step.HEADERS: _MALFORMED, Step.TRAILERS: _R, Step.DATA: _O, Step.LAST_DATA: _R, Step.RESET: _C, Step.END: _L,
    },
    State.HALF_CLOSED_REMOTE: {
        Step.HEADERS: _ENDED, Step.TRAILERS: _ENDED, Step.DATA: _ENDED, Step.LAST_DATA: _ENDED, Step.RESET: _C, Step.END: _C,
    },
    State.HALF_CLOSED_LOCAL: {
        Step.HEADERS: _MALFORMED, Step.TRAILERS: _C, Step.DATA: _L, Step.LAST_DATA: _C, Step.RESET: _C, Step.END: _L,
    },
    State.CLOSED: {
        Step.HEADERS: _GONE, Step.TRAILERS: _GONE, Step.DATA: _ENDED, Step.LAST_DATA: _ENDED, Step.RESET: _C, Step.END: _C,
    },
}  # fmt: skip
"""WINDOW_UPDATE and PRIORITY may come in every state and change none."""

_ROWS: tuple[tuple[State | Fault, ...], ...] = tuple(
    tuple(row[step] for step in Step) for row in TRANSITIONS.values()
)


class Filling:
    """Memory that the next data of a stream go to, because their user knows how many come.

    Attributes:
        memory: all of it.
        at: how many bytes of it are filled.
    """

    __slots__ = ("at", "memory")

    def __init__(self, memory: memoryview) -> None:
        self.memory = memory
        self.at = 0

    @property
    def missing(self) -> int:
        """Bytes that are still to come."""
        return len(self.memory) - self.at

    def put(self, data: bytes | bytearray, start: int, end: int) -> int:
        """Copy what belongs here of `data[start:end]`; returns how many bytes that are."""
        at = self.at
        count = min(end - start, len(self.memory) - at)
        if count:
            self.memory[at : at + count] = memoryview(data)[start : start + count]
            self.at = at + count
        return count

    def put_alike(self, data: bytes | bytearray, start: int, size: int, count: int) -> None:
        """Copy the payloads of so many frames of one size, none longer than what is missing: the first begins at `data[start]`."""
        rows = np.ndarray((count, size), np.uint8, data, start, (HEAD_BYTES + size, 1))
        np.ndarray((count, size), np.uint8, self.memory, self.at)[:] = rows
        self.at += count * size


class Stream(msgspec.Struct, eq=False):
    """One stream. A struct, as it is made in a fifth of the time that `__init__` takes.

    Attributes:
        id: its number.
        send_window: bytes that we may send; the client's settings can make it negative (section 6.9.2).
        receive_window: bytes that the client may send.
        expected: bytes of data that the request's content-length has left; -1 without one.
        filling: where its next data go, if they do not go into events.
        unsent: data that waits for the windows, in order; `unsent_bytes` of them.
        trailers: the header block that ends the stream once the data are sent; None until there is one.
        call: what the user of the protocol keeps with the stream.
    """

    id: int
    state: State
    send_window: int
    receive_window: int
    expected: int = -1
    filling: Filling | None = None
    unsent: collections.deque[memoryview] | None = None
    unsent_bytes: int = 0
    trailers: bytes | None = None
    call: typing.Any = None

    def wait(self, data: bytes | memoryview) -> None:
        """Put data behind what waits for the windows."""
        if self.unsent is None:
            self.unsent = collections.deque()
        self.unsent.append(memoryview(data))
        self.unsent_bytes += len(data)

    def step(self, step: Step) -> State:
        """Follow the table.

        Raises:
            StreamFault, ConnectionFault: the client may not do this now.
        """
        following = _ROWS[self.state][step]
        if type(following) is Fault:
            raise fault_of(following, step, self.id, self.state)
        self.state = typing.cast("State", following)
        return self.state


def fault_of(
    fault: Fault, step: Step, stream_id: int, state: State
) -> StreamFault | ConnectionFault:
    """What a row of the table says, as an exception."""
    raised = ConnectionFault if fault.of_connection else StreamFault
    return raised(
        fault.code,
        f"{step.name} on stream {stream_id}, which is {state.name} (section {fault.section})",
    )


AFTER_END = tuple(typing.cast("State", row[Step.END]) for row in _ROWS)
"""The states after END_STREAM of ours, which is allowed in each."""

CLOSED = _ROWS[State.CLOSED]
"""The row of a stream that is gone, by step."""
