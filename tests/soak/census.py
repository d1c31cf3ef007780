"""What a server holds of the system: processes, threads, descriptors, memory segments, bytes. Read from outside, by its id."""

import contextlib
import pathlib
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Census:
    """One count.

    Attributes:
        workers: its child processes.
        threads: its own.
        descriptors: its own open ones.
        segments: memory segments (memfd) mapped or open in it and in its workers.
        resident: bytes of its own.
    """

    workers: int
    threads: int
    descriptors: int
    segments: int
    resident: int

    def more_than(self, other: "Census") -> list[str]:
        """What there is more of here, in words; of resident memory a little more is fine (`soak.MOST_GROWN`)."""
        return [
            f"{name}: {mine} where there were {theirs}"
            for name, mine, theirs in (
                ("worker processes", self.workers, other.workers),
                ("threads", self.threads, other.threads),
                ("descriptors", self.descriptors, other.descriptors),
                ("memory segments", self.segments, other.segments),
            )
            if mine > theirs
        ]


def take(pid: int) -> Census:
    """Counts a server and its workers now."""
    server = psutil.Process(pid)
    workers = server.children(recursive=True)
    segments = sum(_segments(process.pid) for process in (server, *workers))
    return Census(
        workers=len(workers),
        threads=server.num_threads(),
        descriptors=server.num_fds(),
        segments=segments,
        resident=server.memory_info().rss,
    )


def workers(pid: int) -> list[psutil.Process]:
    """The processes that a server has started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def _segments(pid: int) -> int:
    """Distinct ones: a segment may be mapped by one process and open in it as well."""
    found = set[str]()
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            if "/memfd:" in line:
                found.add(line.split()[4])
    with contextlib.suppress(OSError):
        for path in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if "/memfd:" in str(path.readlink()):
                    found.add(str(path.stat().st_ino))
    return len(found)
