"""What a writer of trace files is given, and what it answers: in the thread of `files`, or as messages to a process of its own."""

import typing

import msgspec

from naiad.tracing.usual import Usual


class Numbers(msgspec.Struct, frozen=True, tag=True):
    """Usual traces for a file that grows, which are in memory that both processes have.

    Attributes:
        first: the place of the first one.
        traces: how many.
        runs: as of a `Usual`.
    """

    path: str
    first: int
    traces: int
    runs: list[tuple[int, str, str]]


class Records(msgspec.Struct, frozen=True, tag=True):
    """Traces as text, with commas in between.

    Attributes:
        grows: whether they go behind what the file has; if not, it has them only.
    """

    path: str
    traces: int
    records: bytes
    grows: bool


class Begun(msgspec.Struct, frozen=True, tag=True):
    """Files that were written before, which go on behind what they have."""

    paths: list[str]


class Asks(msgspec.Struct, frozen=True, tag=True):
    """Asks for what became of all that came since the last one."""


Message = Numbers | Records | Begun | Asks


class Fault(msgspec.Struct, frozen=True):
    """Traces that were not written.

    Attributes:
        number: that of the system's error; 0 for a defect.
        words: what is wrong; the traceback of a defect.
    """

    path: str
    traces: int
    number: int
    words: str


class Place(msgspec.Struct, frozen=True):
    """How far a file was written.

    Attributes:
        inode: its number in the file system.
        end: where the bracket is.
    """

    inode: int
    end: int


class Written(msgspec.Struct, frozen=True):
    """What became of what a writer was given.

    Attributes:
        places: of the files that grow, by path.
    """

    faults: list[Fault]
    places: dict[str, Place]


class Writer(typing.Protocol):
    """Writes traces. Used by one thread; no method raises."""

    def usual(self, path: str, traces: Usual) -> None:
        """Usual traces, valid until `written`, for a file that grows."""

    def records(self, piece: Records) -> None:
        """Other traces."""

    def written(self) -> Written:
        """What it was given since the last time is written, or never will be."""

    def close(self) -> None:
        """End the files."""
