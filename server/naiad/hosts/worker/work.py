"""What a worker process does: takes a batch, runs it, answers; see `main` for its threads and streams."""

import contextlib
import importlib
import json
import logging
import os
import socket
import sys
import threading
import traceback
from typing import Any

from naiad.backends.runner import Refusal
from naiad.hosts.worker import content, link

LOG_MARK = "\x1e"
"""In front of a line that is a log record: `[level, logger, path, line, message]` as JSON."""

_log = logging.getLogger("naiad.worker")


class Worker:
    """The worker.

    Args:
        data: loads, batches and outcomes, see `link`.
        control: a byte asks whether the model is ready, "1" or "0" comes back.
    """

    def __init__(self, data: socket.socket, control: socket.socket) -> None:
        self._link = link.Link(data)
        self._control = control
        self._runner: Any = None

    def run(self) -> int:
        """Work until the server says that it is the end, or is gone; gives back the exit status."""
        threading.Thread(target=self._answer_control, name="naiad-control", daemon=True).start()
        receive = self._link.receive
        try:
            while True:
                kind, header = receive()
                if kind == link.BATCH:
                    self._execute(header)
                elif kind == link.LOAD:
                    if not self._load(header):
                        return 0
                elif kind == link.CLOSE:
                    self._runner.close()
                    return 0
        except link.LinkBrokenError:
            return 1

    def _load(self, header: bytes) -> bool:
        order = json.loads(header)
        logging.basicConfig(handlers=[_ToServer()], level=logging.WARNING, force=True)
        logging.getLogger("naiad").setLevel(order["log_level"])
        module, _, name = order["runner"].partition(":")
        try:
            self._runner = getattr(importlib.import_module(module), name)(order["settings"])
        except Refusal as error:
            refusal = error
        except BaseException as error:  # noqa: BLE001 - also SystemExit: the server is told, whatever it is
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            refusal = Refusal("INTERNAL", text)
        else:
            self._link.send(link.LOADED, b"{}")
            return True
        self._link.send(link.REFUSED, content.pack_refusal(refusal))
        return False

    def _execute(self, header: bytes) -> None:
        parcel = None
        try:
            answer, parcel = self._answer(header)
        except Refusal as refusal:
            answer = content.pack_refusal(refusal)
        except BaseException as error:  # noqa: BLE001 - also SystemExit: a model may not end the worker
            _log.exception("a batch failed")
            answer = content.pack_refusal(Refusal("INTERNAL", f"{type(error).__name__}: {error}"))
        # The batch is let go by now, so that the answer says only what the model still holds of it.
        self._link.send(link.OUTCOME, answer, parcel)

    def _answer(self, header: bytes) -> "tuple[bytes, link.Parcel]":
        requests = content.requests_of(self._link.base, header)
        return content.pack_outcome(self._runner.execute(requests))

    def _answer_control(self) -> None:
        with contextlib.suppress(OSError):
            while self._control.recv(1):
                # A thread of its own, because a model may think about it for ever.
                threading.Thread(target=self._say_ready, name="naiad-ready", daemon=True).start()
        os._exit(1)

    def _say_ready(self) -> None:
        try:
            answer = bool(self._runner is not None and self._runner.ready())
        except BaseException:  # noqa: BLE001 - an exception of any kind means not ready (row 2.12)
            _log.exception("it could not say whether it is ready")
            answer = False
        with contextlib.suppress(OSError):
            self._control.send(b"1" if answer else b"0")


class _ToServer(logging.Handler):
    """Writes log records as lines for the server."""

    def emit(  # type: ignore[explicit-override]  # `override` is in no standard library of 3.8
        self, record: logging.LogRecord
    ) -> None:
        """See `logging.Handler`."""
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        fields = (record.levelno, record.name, record.pathname, record.lineno, message)
        # One write of one line, so that prints of the model come before or after it.
        sys.stderr.write(LOG_MARK + json.dumps(fields) + "\n")
