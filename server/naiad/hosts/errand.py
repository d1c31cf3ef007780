"""A function called in a worker process that lives for nothing else: a model's own code while its config is completed.

Blocking, for a thread of the loader's. Whatever the model does there (crash, print, never come back) ends here: in a result or in
an error that says what happened, and with the process gone.
"""

import contextlib
import os
import selectors
import subprocess
import time
from typing import Any

import orjson

from naiad.backends.backend import WorkerPlan
from naiad.errors import ErrorCode, InferenceError, unavailable
from naiad.hosts.output_log import Identity, OutputLog
from naiad.hosts.spawn import end_children, in_words, is_gone, order, spawn
from naiad.hosts.survivors import SURVIVORS
from naiad.hosts.worker import link
from naiad.hosts.worker.link import Link, LinkBrokenError, SegmentLostError

_PIPE_BYTES = 1 << 16
_GRACE_S = 2.0


def run_errand(identity: Identity, plan: WorkerPlan, *, timeout_s: float) -> Any:
    """Call `plan.runner` with its settings in a new process.

    Args:
        identity: whose process it is.
        plan: what to call, and by which interpreter.
        timeout_s: how long it may take.

    Returns:
        What it gave back, by way of JSON.

    Raises:
        InferenceError: it refused; UNAVAILABLE: its process could not be started, ended, or took too long.
    """
    with contextlib.ExitStack() as undo:
        try:
            process, data, _, reading, gone = spawn(identity, plan, undo)
        except OSError as error:
            raise unavailable(f"{identity}: no worker process could be started: {error}") from error
        output = OutputLog(identity)
        undo.callback(output.close)
        undo.callback(_end, process, gone, reading, output)
        to_it = Link(data)
        undo.callback(to_it.close)
        try:
            to_it.send(link.ERRAND, order(plan))
            _listen((to_it, gone), reading, output, time.monotonic() + timeout_s)
            kind, _, header = to_it.receive()
        except (
            LinkBrokenError,
            BlockingIOError,
        ) as error:  # a child of its own may keep the link open
            _end(process, gone, reading, output)
            how = in_words(process.returncode)
            raise unavailable(
                f"{identity}: its worker process {how} while it completed the model's config{output.last_words()}"
            ) from error
        except SegmentLostError as error:
            raise unavailable(
                f"{identity}: the model's completed config could not be received: {error}"
            ) from error
        except TimeoutError as error:
            end_children(process)
            raise unavailable(
                f"{identity}: auto_complete_config took longer than {timeout_s:g} s and was ended"
            ) from error
    found = orjson.loads(header)
    if kind == link.DONE:
        return found["result"]
    code, message = found["error"]
    raise InferenceError(ErrorCode[code], message)


def _listen(ends: tuple[Link, int], reading: int, output: OutputLog, end: float) -> None:
    """Take its output until there is an answer on its link, or its pidfd says that it is gone.

    Raises:
        TimeoutError: neither came before `end`.
    """
    with selectors.DefaultSelector() as selector:
        for each in ends:
            selector.register(each, selectors.EVENT_READ)
        selector.register(reading, selectors.EVENT_READ)
        while True:
            ready = selector.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError
            if any(key.fileobj in ends for key, _ in ready):
                return
            if not _read(reading, output):
                selector.unregister(reading)


def _read(reading: int, output: OutputLog, most: int = _PIPE_BYTES) -> int:
    try:
        data = os.read(reading, most)
    except BlockingIOError:
        return 0
    output.feed(data)
    return len(data)


def _end(process: "subprocess.Popen[bytes]", gone: int, reading: int, output: OutputLog) -> None:
    """It has a moment to end by itself; what it wrote is taken, and what it started goes with it."""
    if process.returncode is None:
        is_gone(gone, _GRACE_S)
    end_children(process)
    process.wait()
    SURVIVORS.remove(process.pid)
    # All that a pipe holds, and no more: a child that left its group may write for ever.
    left = _PIPE_BYTES
    while left > 0 and (taken := _read(reading, output, left)):
        left -= taken
