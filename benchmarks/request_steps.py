"""What one small request does in Python, counted instead of timed: modules entered, calls, memory allocated. The same on any machine.

`sys.setprofile` sees every call of a Python function. Allocations are counted by single steps (`sys.settrace` with opcodes): after each
instruction of the server, how many more blocks of memory Python holds than before it. A block that a C function takes and gives back
within one instruction is not seen. An object is one block or more: a list or a dict is two, an array three, and what a decoder returns as many as
it holds values. So the instructions that allocate are counted as well: what a reader of the code counts as an object that a line makes, with the
numbers and strings that it makes.
"""

import collections.abc
import dataclasses
import gc
import pathlib
import statistics
import sys
import types
import typing

import naiad

SERVER = str(pathlib.Path(naiad.__file__ or "").parent)


@dataclasses.dataclass(frozen=True, slots=True)
class Steps:
    """What requests did, in code of the server alone: harness, event loop and the model's own code are not counted.

    Attributes:
        at_once: how many requests came at once.
        modules: modules of which a function was called.
        calls: calls of Python functions per request; resuming a generator counts as one.
        allocations: instructions that allocated memory, per request.
        blocks: blocks of memory that were allocated per request.
    """

    at_once: int
    modules: int
    calls: float
    allocations: float
    blocks: float


class Calls:
    """A profiler that counts calls; use it as a context.

    Args:
        under: files whose path begins so are counted.
    """

    def __init__(self, under: str = SERVER) -> None:
        self._under = under
        self.by_function: collections.Counter[tuple[str, str]] = collections.Counter()

    def __enter__(self) -> typing.Self:
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    @property
    def modules(self) -> int:
        """How many modules they were in."""
        return len({file for file, _ in self.by_function})

    def _on_event(self, frame: types.FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self._under):
            self.by_function[code.co_filename.removeprefix(self._under), code.co_qualname] += 1


class Allocations:
    """A tracer that counts blocks of memory; use it as a context. Some thousand times slower than the code itself.

    Args:
        under: files whose path begins so are counted.
    """

    def __init__(self, under: str = SERVER) -> None:
        self._under = under
        self._deltas: list[tuple[tuple[str, int], int]] = []
        self._held = 0
        self._place: tuple[str, int] | None = None

    def __enter__(self) -> typing.Self:
        gc.collect()
        gc.freeze()  # each step below collects, in order to empty the free lists
        sys.settrace(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        gc.unfreeze()

    def by_line(self) -> collections.Counter[tuple[str, int]]:
        """Blocks by function and line."""
        blocks: collections.Counter[tuple[str, int]] = collections.Counter()
        for place, count in self._allocated():
            blocks[place] += count
        return blocks

    def instructions(self) -> int:
        """How many instructions allocated."""
        return len(self._allocated())

    def _allocated(self) -> list[tuple[tuple[str, int], int]]:
        """The place and the blocks of each instruction that allocated."""
        # The tracer's own variables lie in its measurements: what most instructions, which allocate nothing, show is zero.
        zero = statistics.mode([delta for _, delta in self._deltas] or [0])
        return [(place, delta - zero) for place, delta in self._deltas if delta > zero]

    def _on_event(self, frame: types.FrameType, event: str, arg: object) -> typing.Any:
        gc.collect()
        delta = sys.getallocatedblocks() - self._held
        if self._place is not None and event not in {"call", "return"}:
            self._deltas.append((self._place, delta))
        code = frame.f_code
        # After a call the next event is the first line: between the two the tracer itself makes an object of the frame.
        known = event != "call" and code.co_filename.startswith(self._under)
        self._place = (code.co_qualname, frame.f_lineno) if known else None
        frame.f_trace_opcodes = True
        gc.collect()
        self._held = sys.getallocatedblocks()
        return self._on_event
