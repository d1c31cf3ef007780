"""A one-shot worker task: calls a function in a worker process of its own, such as a model's `auto_complete_config`.

It blocks, for a thread of the loader. Whatever the model does (crash, print, hang), the call ends with a result or with
an error that says what happened, and the process is gone.
"""

import contextlib
import os
import selectors
import subprocess
import time
from typing import Any

from naiad.backends.backend import WorkerPlan
from naiad.errors import ErrorCode, InferenceError, unavailable
from naiad.hosts.orphan_reaper import ORPHAN_REAPER
from naiad.hosts.output_log import Identity, OutputLog
from naiad.hosts.spawn import end_children, in_words, is_gone, order, spawn
from naiad.hosts.worker import codec, link
from naiad.hosts.worker.link import Link, LinkBrokenError, SegmentLostError

_PIPE_BYTES = 1 << 16
_GRACE_S = 2.0


def run_one_shot(identity: Identity, plan: WorkerPlan, *, timeout_s: float) -> Any:
    """Call `plan.load` with its settings in a new process.

    Args:
        identity: for the log and messages.
        plan: the function, its settings and the interpreter.
        timeout_s: time limit.

    Returns:
        The result of the function, through JSON.

    Raises:
        InferenceError: the function's own; UNAVAILABLE: the process could not be started, ended, or took too long.
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
            to_it.send(link.ONE_SHOT, order(plan))
            _listen((to_it, gone), reading, output, time.monotonic() + timeout_s)
            kind, _, header = to_it.receive()
        except (
            LinkBrokenError,
            BlockingIOError,
        ) as error:  # a child process may keep the link open
            _end(process, gone, reading, output)
            how = in_words(process.returncode)
            raise unavailable(
                f"{identity}: its worker process {how} while it completed the model's config{output.output_tail()}"
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
    result = codec.read_json(header)
    if kind == link.DONE:
        return result
    code, message = result
    raise InferenceError(ErrorCode[code], message)


def _listen(ends: tuple[Link, int], reading: int, output: OutputLog, end: float) -> None:
    """Read its output until there is a message on its link, or its pidfd shows that it has ended.

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
    """Wait briefly for its end, kill it and its children, and read the rest of its output."""
    if process.returncode is None:
        is_gone(gone, _GRACE_S)
    end_children(process)
    process.wait()
    ORPHAN_REAPER.remove(process.pid)
    # At most what a pipe holds: a child that left its process group may write for ever.
    left = _PIPE_BYTES
    while left > 0 and (taken := _read(reading, output, left)):
        left -= taken
