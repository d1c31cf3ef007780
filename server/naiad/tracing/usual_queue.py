"""Usual traces on their way from the event loop to the thread that writes them: as numbers in blocks of memory that are used again and again.

No object is kept for a trace that waits. Objects that wait and are freed by another thread leave the interpreter's memory in pieces all over, and
whatever the event loop makes next lies in memory that its processor has not had for long.
"""

import bisect
import collections
import collections.abc
import typing

import msgspec
import numpy as np

from naiad.core.inference import ExecutionTimes
from naiad.tracing.usual import (
    COLUMNS,
    LONGEST_ID,
    PACK_INTO,
    PACK_OF_BATCH,
    PROTOCOLS,
    SIZE,
    SentTrace,
    Usual,
)

SLOTS = 256
"""Traces of a block: of so few numpy keeps the interpreter lock, but for the copy of their text, and does not exchange it with the event loop some fifty times."""


class _Block(msgspec.Struct, eq=False):
    """Memory of some traces.

    Attributes:
        slots: how many have room.
        count: how many are there; the loop's.
        taken: how many of them the thread has taken; the thread's.
        texts: the place of the first trace that has this request id and this name of a model, as those behind it until the next entry.
        request_id, model_name: the last entry's.
    """

    memory: bytearray
    slots: int
    count: int = 0
    taken: int = 0
    texts: list[tuple[int, str, str]] = []
    request_id: str | None = None
    model_name: str = ""


class UsualQueue:
    """The loop adds, one thread takes: each changes only what is its own, so that neither waits for the other.

    Args:
        most: traces that may wait.
        announce: called by the first that comes once the thread has begun to take.
        hurry: called when more than `enough` wait.
        dropped: called with how many did not fit.
    """

    def __init__(
        self,
        *,
        most: int,
        enough: int,
        announce: collections.abc.Callable[[], None],
        hurry: collections.abc.Callable[[], None],
        dropped: collections.abc.Callable[[int], None],
    ) -> None:
        self._slots = max(1, min(SLOTS, most, enough))
        self._blocks_left = most // self._slots
        self._enough = max(1, enough // self._slots)
        self._announce = announce
        self._hurry = hurry
        self._dropped = dropped
        # Between a full block and the trace that needs the next one.
        self._none = _Block(bytearray(), 0)
        self._block = self._none
        self._full = collections.deque[_Block]()
        self._free = collections.deque[_Block]()
        self._is_announced = False

    def __len__(self) -> int:
        return sum(block.count - block.taken for block in (*self._full, self._block))

    def add(self, traces: collections.abc.Sequence[SentTrace]) -> None:
        """Keep the numbers of those that are usual to the end: see `AddSent`. Loop only."""
        # Each request comes through here: what a batch or a block has in common is looked up once.
        block, times, protocol, of_batch = self._block, None, "", b""
        memory, at, slots = block.memory, block.count, block.slots
        request_id, name = block.request_id, block.model_name
        dropped = 0
        for trace in traces:
            inference = trace.inference
            if (
                inference is None
                or inference.traced is not trace  # it was not usual before
                or not inference.completed
                or not (sent_ns := trace.sent_ns)
                or not (queued_ns := inference.queued_ns)
                or (execution := inference.execution) is None
                or not (responded_ns := inference.answered_ns or execution.responded_ns)
                or len((asked := inference.request).id) > LONGEST_ID
            ):
                block.count = at  # whatever that does
                trace.complete()
                continue
            inference.traced = (
                None  # without a cycle both are freed soon, not by the garbage collector
            )
            if execution is not times or trace.protocol is not protocol:
                times, protocol = execution, trace.protocol
                of_batch = packed(times, protocol)
            if at == slots:
                block = self._next()
                memory, at, slots = block.memory, 0, block.slots
                request_id, name = None, ""
                if not slots:
                    dropped += 1
                    continue
            PACK_INTO(
                memory, at * SIZE, trace.id, of_batch, trace.received_ns, trace.read_ns, inference.received_ns, queued_ns, responded_ns,
                trace.send_ns, sent_ns,
            )  # fmt: skip
            if asked.id != request_id or asked.model_name != name:
                request_id, name = block.request_id, block.model_name = asked.id, asked.model_name
                block.texts.append((at, request_id, name))
            at += 1
            if at == slots:
                self._filled(block)
        block.count = at  # the thread may take them from now on
        if dropped:
            self._dropped(dropped)
        if (at or self._full) and not self._is_announced:
            self._is_announced = True
            self._announce()

    def taken(self) -> collections.abc.Iterator[Usual]:
        """Those that wait now, some at once, each valid until the next. On the thread."""
        self._is_announced = False  # before the look at how many there are
        begun = self._block
        for _ in range(len(self._full)):
            block = self._full.popleft()
            yield from self._rest(block)
            if block is begun:  # it was filled meanwhile, and the loop may use it again
                begun = self._none
            self._free.append(block)
        yield from self._rest(begun)

    def _filled(self, block: _Block) -> None:
        block.count = block.slots
        self._block = self._none
        self._full.append(block)
        if len(self._full) >= self._enough:
            self._hurry()

    def _next(self) -> _Block:
        """An empty block, which the loop fills from now on; one without slots if there is no memory left."""
        if self._free:
            block = self._free.pop()  # the one whose memory was used last
            block.taken = block.count = 0
            block.texts.clear()
            block.request_id = None
        elif self._blocks_left:
            self._blocks_left -= 1
            block = _Block(bytearray(self._slots * SIZE), self._slots)
        else:
            return self._none
        self._block = block
        return block

    def _rest(self, block: _Block) -> collections.abc.Iterator[Usual]:
        first, count = block.taken, block.count
        if first == count:
            return
        block.taken = count
        numbers: typing.Any = np.frombuffer(block.memory, np.int64, count * COLUMNS)
        texts = block.texts
        begin, end = (
            bisect.bisect_left(texts, (first + 1,)) - 1,
            bisect.bisect_left(texts, (count,)),
        )
        runs = [(max(0, at - first), request_id, name) for at, request_id, name in texts[begin:end]]
        yield Usual(numbers.reshape(count, COLUMNS)[first:], runs)


def packed(times: ExecutionTimes, protocol: str) -> bytes:
    """The numbers that the traces of a batch share."""
    return PACK_OF_BATCH(
        times.version, PROTOCOLS[protocol], times.start_ns, times.input_end_ns, times.output_start_ns, times.end_ns,
    )  # fmt: skip
