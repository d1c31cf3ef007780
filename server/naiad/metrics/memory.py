"""What a model version takes of memory, and how processes are measured: reads of /proc, which block for microseconds.

A worker process is measured by its proportional set size: pages that it shares with others (libraries, weights that several workers map) count in
proportion, so that the sum over all workers is what they hold together.
"""

import pathlib
import typing

import msgspec

Kind = typing.Literal["CPU", "GPU"]

_PROC = pathlib.Path("/proc")
_KIB = 1024
_OWN = ("RssAnon", "RssFile")


class MemoryUsage(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Memory of one kind that a model version takes, as loading it took it (row 8.7).

    Attributes:
        type: "CPU" for the host's memory, "GPU" for a device's.
        id: the number of the device; 0 for the host.
        byte_size: bytes.
        estimated: whether other work of the process may be included, or the files of the model are all that is known.
    """

    type: Kind
    id: int
    byte_size: int
    estimated: bool


def process_bytes(pid: int, *, proc: pathlib.Path = _PROC) -> int:
    """The proportional set size of a process in bytes; 0 if it has ended."""
    try:
        return _fields(proc / str(pid) / "smaps_rollup", ("Pss",))
    except OSError:  # it has ended, or this kernel has no such file: then all that it maps counts
        return resident_bytes(proc / str(pid))


def resident_bytes(process: pathlib.Path = _PROC / "self") -> int:
    """Resident memory of a process in bytes without shared memory, in which requests travel; 0 if it has ended.

    Unlike the proportional set size it is counted by the kernel all the time: the server may have millions of pages.
    """
    try:
        return _fields(process / "status", _OWN)
    except OSError:
        return 0


def _fields(file: pathlib.Path, names: tuple[str, ...]) -> int:
    """The sum of some lines `name: number kB`, in bytes."""
    size = 0
    for line in file.read_text().splitlines():
        name, _, amount = line.partition(":")
        if name in names:
            size += int(amount.split()[0]) * _KIB
    return size
