"""What one small request does in Python, counted instead of timed: modules entered, calls, objects made, memory allocated. The same on any machine.

`sys.setprofile` sees every call of a Python function. The rest is counted by single steps (`sys.settrace` with opcodes), each an instruction of the
server:

* objects: instructions that make an instance, a list, a dict, a tuple or a set, by a call or a display. A decoder that returns several counts once. Numbers,
  text, iterators and bound methods do not count: this is what a reader of the code counts;
* allocating instructions: all of them after which Python holds more blocks of memory than before. These are numbers and text as well;
* blocks of memory. A list or a dict is two, an array three.

What a C function takes and gives back within one instruction is not seen.
"""

import collections.abc
import dataclasses
import dis
import functools
import gc
import pathlib
import statistics
import sys
import types
import typing

import msgspec

import naiad

_NO_SWITCH_S = 1_000.0

_DISPLAYS = "BUILD_CONST_KEY_MAP", "BUILD_LIST", "BUILD_MAP", "BUILD_SET", "BUILD_TUPLE"

SERVER = str(pathlib.Path(naiad.__file__ or "").parent)


@dataclasses.dataclass(frozen=True, slots=True)
class Steps:
    """What requests did, in code of the server alone: harness, event loop and the model's own code are not counted.

    Attributes:
        at_once: how many requests came at once.
        modules: modules of which a function was called.
        calls: calls of Python functions per request; resuming a generator counts as one.
        objects: instances and containers that were made, per request.
        allocations: instructions that allocated memory, per request.
        blocks: blocks of memory that were allocated per request.
    """

    at_once: int
    modules: int
    calls: float
    objects: float
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


@functools.cache
def _makers(code: types.CodeType) -> dict[int, str]:
    """The instructions that call something or display a container, by offset; of a call of a global name that name."""
    names: dict[object, str] = {}
    makers: dict[int, str] = {}
    for instruction in dis.get_instructions(code):
        positions = instruction.positions
        start = None if positions is None else (positions.lineno, positions.col_offset)
        if instruction.opname == "LOAD_GLOBAL":
            names[start] = instruction.argval
        elif instruction.opname.startswith(("CALL", *_DISPLAYS)):
            makers[instruction.offset] = names.get(start, "")
    return makers


class Allocations:
    """A tracer that counts objects and blocks of memory; use it as a context. Some thousand times slower than the code itself.

    Args:
        under: files whose path begins so are counted.
    """

    def __init__(self, under: str = SERVER) -> None:
        self._under = under
        self._deltas: list[tuple[tuple[str, int], int]] = []
        self._held = 0
        self._place: tuple[str, int] | None = None
        self._maker: type | str | None = None
        self._objects = 0
        self._switch_interval = sys.getswitchinterval()

    def __enter__(self) -> typing.Self:
        gc.collect()
        gc.freeze()  # each step below collects, in order to empty the free lists
        sys.setswitchinterval(_NO_SWITCH_S)  # or what other threads make would be counted
        sys.settrace(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        sys.setswitchinterval(self._switch_interval)
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

    def objects(self) -> int:
        """How many instances and containers were made."""
        return self._objects

    def _allocated(self) -> list[tuple[tuple[str, int], int]]:
        """The place and the blocks of each instruction that allocated."""
        # The tracer's own variables lie in its measurements: what most instructions, which allocate nothing, show is zero.
        zero = statistics.mode([delta for _, delta in self._deltas] or [0])
        return [(place, delta - zero) for place, delta in self._deltas if delta > zero]

    def _on_event(self, frame: types.FrameType, event: str, arg: object) -> typing.Any:
        tracked = gc.get_count()[0]  # objects that the garbage collector knows, since the last step
        gc.collect()
        delta = sys.getallocatedblocks() - self._held
        if self._place is not None and event not in {"call", "return"}:
            self._deltas.append((self._place, delta))
        code = frame.f_code
        ours = code.co_filename.startswith(self._under)
        if event == "call":
            self._objects += ours and code.co_name == "__init__"
        elif self._maker is not None and event != "return":
            # Records are not tracked: the garbage collector does not know them.
            self._objects += tracked > 0 or isinstance(self._maker, msgspec.StructMeta)
        # After a call the next event is the first line: between the two the tracer itself makes an object of the frame.
        known = event != "call" and ours
        self._place = (code.co_qualname, frame.f_lineno) if known else None
        name = _makers(code).get(frame.f_lasti) if known and event == "opcode" else None
        self._maker = None if name is None else frame.f_globals.get(name, name)
        frame.f_trace_opcodes = True
        gc.collect()
        self._held = sys.getallocatedblocks()
        return self._on_event
