"""What a worker process logs, sent to the server among what its model prints."""

import contextlib
import json
import logging
import os
import sys
import threading
import traceback

from naiad.log_text import message_of

LOG_MARK = "\x1e"
"""In front of a line that is a log record: `[level, logger, path, line, message]` as JSON."""

_LONGEST = 80_000
"""Characters of a message; as JSON it has to fit into what the server takes for a record."""


class LogLevel:
    """How much is logged: what the order to load says, or what the server has said since, which may come first."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._is_told = False

    def ordered(self, level: int) -> None:
        """The order to load says so; in the thread that loads."""
        with self._changing:
            if not self._is_told:
                logging.getLogger("naiad").setLevel(level)

    def told(self, level: int) -> None:
        """The settings have changed; in the thread that listens."""
        with self._changing:
            self._is_told = True
            logging.getLogger("naiad").setLevel(level)


class ServerLogHandler(logging.Handler):
    """Writes log records as lines for the server, wherever the model may have led or closed `sys.stderr` meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._descriptor = os.dup(2)

    def emit(  # type: ignore[explicit-override]  # `override` is in no standard library of 3.8
        self, record: logging.LogRecord
    ) -> None:
        """See `logging.Handler`."""
        message = message_of(record)
        if record.exc_info:
            message += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        if len(message) > _LONGEST:
            message = f"{message[:_LONGEST]}… ({len(message) - _LONGEST} more characters)"
        fields = (record.levelno, record.name, record.pathname, record.lineno, message)
        # What was printed comes first. A line in one write, so that others come before or after it.
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            # It may be closed, None or whatever a model put there.
            with contextlib.suppress(Exception):
                stream.flush()  # type: ignore[union-attr]  # see above
        line = memoryview((LOG_MARK + json.dumps(fields) + "\n").encode())
        with contextlib.suppress(OSError):  # the descriptor may be closed too
            while line:
                line = line[os.write(self._descriptor, line) :]
