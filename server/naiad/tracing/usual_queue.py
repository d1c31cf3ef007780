"""Usual traces on their way from the event loop to the thread that writes them: as numbers in blocks of memory that are used again and again.

No object is kept for a trace that waits. Objects that wait and are freed by another thread leave the interpreter's memory in pieces all over, and
whatever the event loop makes next lies in memory that its processor has not had for long.
"""

import bisect
import collections
import collections.abc
import mmap

import msgspec

from naiad.core.inference import ExecutionTimes
from naiad.tracing.rows import Rows
from naiad.tracing.usual import (
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


_NO_TIMES = ExecutionTimes(0, 0, 0, 0, 0)


class _Block(msgspec.Struct, eq=False):
    """Memory of some traces.

    Attributes:
        memory: of all blocks.
        first: the place of its first trace there.
        slots: how many have room.
        count: how many are there; the loop's.
        taken: how many of them the thread has taken; the thread's.
        texts: the place of the first trace that has this request id and this name of a model, as those behind it until the next entry.
        request_id, model_name: the last entry's.
    """

    memory: mmap.mmap | bytearray
    first: int
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
        next_id: gives the ids.

    Attributes:
        rows: the memory of what waits; None before the first one.
    """

    def __init__(
        self,
        *,
        most: int,
        enough: int,
        announce: collections.abc.Callable[[], None],
        hurry: collections.abc.Callable[[], None],
        dropped: collections.abc.Callable[[int], None],
        next_id: collections.abc.Callable[[], int],
    ) -> None:
        self._slots = max(1, min(SLOTS, most, enough))
        self._blocks = most // self._slots
        self._blocks_made = 0
        self._enough = max(1, enough // self._slots)
        self._announce = announce
        self._hurry = hurry
        self._dropped = dropped
        self._next_id = next_id
        # Between a full block and the trace that needs the next one.
        self._none = _Block(bytearray(), 0, 0)
        self._block = self._none
        self._full = collections.deque[_Block]()
        self._free = collections.deque[_Block]()
        self._done: list[_Block] = []  # the thread's
        self._is_announced = False
        self.rows: Rows | None = None

    def __len__(self) -> int:
        return sum(block.count - block.taken for block in (*self._full, self._block))

    def add(self, traces: collections.abc.Sequence[SentTrace]) -> None:
        """Keep the numbers of those that are usual to the end: see `AddSent`. Loop only."""
        block = self._block
        if block.count + len(traces) < block.slots:
            _fill(block, traces, self._next_id)
        else:
            self._add_to_several(traces)
        if not self._is_announced and (self._block.count or self._full):
            self._is_announced = True
            self._announce()

    def _add_to_several(self, traces: collections.abc.Sequence[SentTrace]) -> None:
        """As `add`, of as many as the block has room for, or more."""
        while traces:
            block = self._block
            if block is self._none:
                block = self._next()
            room = block.slots - block.count
            if not room:
                self._drop(traces)
                return
            some, traces = traces[:room], traces[room:]
            _fill(block, some, self._next_id)
            if block.count == block.slots:
                self._filled(block)

    def _drop(self, traces: collections.abc.Sequence[SentTrace]) -> None:
        """Those that are usual have no memory left and are lost."""
        block = _Block(bytearray(len(traces) * SIZE), 0, len(traces))
        _fill(block, traces, self._next_id)
        if block.count:
            self._dropped(block.count)

    def taken(self) -> collections.abc.Iterator[Usual]:
        """Those that wait now, some at once, valid until `release`. On the thread."""
        self._is_announced = False  # before the look at how many there are
        begun = self._block
        for _ in range(len(self._full)):
            block = self._full.popleft()
            yield from self._rest(block)
            self._done.append(block)
        yield from self._rest(begun)  # none, if it was filled meanwhile

    def release(self) -> None:
        """What was taken is written, or never will be: its memory is used again. On the thread."""
        self._free.extend(self._done)
        self._done.clear()

    def _filled(self, block: _Block) -> None:
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
        elif self._blocks_made < self._blocks:
            if self.rows is None:
                self.rows = Rows(self._blocks * self._slots)
            first = self._blocks_made * self._slots
            self._blocks_made += 1
            block = _Block(self.rows.memory, first, self._slots)
        else:
            return self._none
        self._block = block
        return block

    def _rest(self, block: _Block) -> collections.abc.Iterator[Usual]:
        first, count = block.taken, block.count
        if first == count:
            return
        block.taken = count
        assert self.rows is not None, "the block is a part of it"
        texts = block.texts
        begin, end = (
            bisect.bisect_left(texts, (first + 1,)) - 1,
            bisect.bisect_left(texts, (count,)),
        )
        runs = [(max(0, at - first), request_id, name) for at, request_id, name in texts[begin:end]]
        place = block.first + first
        yield Usual(self.rows.numbers[place : place + count - first], runs, place)


def _fill(
    block: _Block,
    traces: collections.abc.Iterable[SentTrace],
    next_id: collections.abc.Callable[[], int],
) -> None:
    """Put those that are usual into a block, which has room for all of them, and complete the others."""
    # Each request comes through here: what a batch or a block has in common is looked up once, and so is what follows from something else: an inference
    # that was executed was queued before, and is completed once its response was sent.
    memory, request_id, first_at = block.memory, block.request_id, block.first * SIZE
    at = first_at + block.count * SIZE
    times, protocol, responded_ns, of_batch, name = _NO_TIMES, "", 0, b"", ""
    for trace in traces:
        inference = trace.inference
        if (
            inference is None
            or inference.traced is not trace  # it was not usual before
            or not (sent_ns := trace.sent_ns)
        ):
            block.count = (at - first_at) // SIZE  # whatever that does
            trace.complete()
            continue
        execution = inference.execution
        if execution is not times or trace.protocol is not protocol:
            if execution is None or not (inference.answered_ns or execution.responded_ns):
                block.count = (at - first_at) // SIZE
                trace.complete()
                continue
            protocol, responded_ns = trace.protocol, execution.responded_ns
            # Without a time of its own each of its inferences has one, or none.
            times = execution if responded_ns else _NO_TIMES
            of_batch, name = packed(execution, protocol), inference.request.model_name
            if name != block.model_name:
                request_id = None
        its_id = inference.request.id
        if its_id != request_id:
            if len(its_id) > LONGEST_ID:
                block.count = (at - first_at) // SIZE
                trace.complete()
                continue
            request_id, block.request_id, block.model_name = its_id, its_id, name
            block.texts.append(((at - first_at) // SIZE, its_id, name))
        inference.traced = None  # without a cycle both are freed soon, not by the garbage collector
        PACK_INTO(
            memory, at, next_id(), of_batch, trace.received_ns, trace.read_ns, inference.received_ns, inference.queued_ns,
            inference.answered_ns or responded_ns, trace.send_ns, sent_ns,
        )  # fmt: skip
        at += SIZE
    block.count = (at - first_at) // SIZE  # the thread may take them from now on


def packed(times: ExecutionTimes, protocol: str) -> bytes:
    """The numbers that the traces of a batch share."""
    return PACK_OF_BATCH(
        times.version, PROTOCOLS[protocol], times.start_ns, times.input_end_ns, times.output_start_ns, times.end_ns,
    )  # fmt: skip
