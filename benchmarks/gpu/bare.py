"""A bare loop in a process of its own, which answers lines with medians in ms: both sides."""

import collections.abc
import contextlib
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any


class Bare:
    """That process, once it has said "ready"."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def wait(self) -> None:
        """Wait until it is ready.

        Raises:
            RuntimeError: it ended.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == "ready":
                return
        raise RuntimeError(f"the bare loop ended with status {self._process.wait()}")

    def ms(self, *words: Any) -> float:
        """What it answers.

        Raises:
            RuntimeError: the loop failed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline().strip()
        try:
            return float(line)
        except ValueError:
            raise RuntimeError(f"the bare loop: {line or 'ended'}") from None


@contextlib.contextmanager
def bare(module: str, *arguments: Any, errors: pathlib.Path) -> collections.abc.Iterator[Bare]:
    """Start it; it ends with the context."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    with (
        errors.open("w") as log,
        subprocess.Popen(  # noqa: S603 - this interpreter, on a module of this tree
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            yield Bare(process)
        finally:
            process.kill()


def answer(make: collections.abc.Callable[[str, int], collections.abc.Callable[[], Any]]) -> None:
    """That process: says "ready", then answers each line `KIND ROWS COUNT` with the median ms of so many runs, or with why there is none.

    `make` makes the loop of a kind and a number of rows, once.
    """
    loops: dict[tuple[str, int], collections.abc.Callable[[], Any]] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        kind, rows, count = line.split()
        key = kind, int(rows)
        try:
            if key not in loops:
                loops[key] = make(*key)
            times: list[float] = []
            for _ in range(int(count)):
                began = time.perf_counter()
                loops[key]()
                times.append((time.perf_counter() - began) * 1e3)
            print(statistics.median(times), flush=True)
        except Exception as error:  # noqa: BLE001 - the other loops may work
            print("error", type(error).__name__, " ".join(str(error).split())[:300], flush=True)
