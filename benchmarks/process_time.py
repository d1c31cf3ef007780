"""Processor time of a server: of its process and of every process that it started, those that have ended included."""

import os
import pathlib
import time

_PROC = pathlib.Path("/proc")
_CHILDREN_USER, _CHILDREN_SYSTEM = 13, 14
"""Fields of /proc/PID/stat behind the process's name: processor time of children that were waited for, in ticks."""

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def of_tree(pid: int) -> float:
    """User and system time of a process, its descendants and those of them that have ended, in seconds.

    The time of live processes is read from their processor clocks (nanoseconds); /proc/PID/stat has the same in ticks of 10 ms, which
    is a hundredth of a measurement of one second. A process that ends meanwhile is counted by the one that waited for it.
    """
    return sum(_of_one(descendant) for descendant in _descendants(pid))


def _of_one(pid: int) -> float:
    try:
        # The clock of another process, as clock_getcpuclockid(3) makes it; Python has no function for that.
        own = time.clock_gettime(~pid << 3 | 2)
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return own + _TICK_S * (int(fields[_CHILDREN_USER]) + int(fields[_CHILDREN_SYSTEM]))


def _descendants(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for each in found:  # it grows while it is walked
        for task in _tasks(each):
            try:
                text = (task / "children").read_text()
            except OSError:
                continue
            found += map(int, text.split())
    return found


def _tasks(pid: int) -> list[pathlib.Path]:
    try:
        return list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return []
