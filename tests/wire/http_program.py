"""A program of other people that serves HTTP, for as long as a test needs it."""

import collections.abc
import contextlib
import pathlib
import subprocess

from tests.support.waiting import wait_until
from tests.wire.plain_http import call


@contextlib.contextmanager
def running(
    command: list[str],
    address: str,
    *,
    folder: pathlib.Path,
    log: pathlib.Path,
    ready: collections.abc.Callable[[int], bool] = lambda status: status == 200,
) -> collections.abc.Iterator[str]:
    """A program until its port answers, and its address.

    Args:
        command: the program and its arguments.
        address: where it listens: HOST:PORT.
        folder: where it runs.
        log: for its output.
        ready: whether it serves, from the status of `GET /`.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(OSError):
                return ready(call(address, "GET", "/")[0])
            return False

        wait_until(answers, seconds=300, what=f"{command[0]} does not answer")
        yield address
    finally:
        process.terminate()
        process.wait(60)
