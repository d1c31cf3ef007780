"""What models in threads of the server print: log lines with the model's and the instance's name, as those of worker processes are.

Stands in for `sys.stdout` and `sys.stderr` from the first such model on. Other output goes straight on, and so does what a model
writes while a debugger runs in its thread: the prompt of `breakpoint()` must reach the terminal unchanged.

Limits: what goes past the two (`sys.stdout.buffer`, `os.write`, C code) is not seen, nor is a stream that the model puts in their place.
"""

import collections.abc
import logging
import sys
import threading
from typing import Any

from naiad.backends.python.api import context
from naiad.backends.python.api.logger import model_logger

_LONGEST_LINE = 1 << 16
"""Characters of a line without an end that are kept; those of worker processes are cut there, too."""


class Prints:
    """A text stream that knows who writes; whatever is not about writing is the stream's own."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._mine = threading.local()

    def write(self, text: str) -> int:
        """Log the lines of a model as they are complete.

        Raises:
            TypeError: not text.
        """
        running = self._whose()
        if running is None or not isinstance(text, str):
            return int(self._stream.write(text))
        *lines, begun = (getattr(self._mine, "begun", "") + text).split("\n")
        if len(begun) > _LONGEST_LINE:
            lines.append(begun)
            begun = ""
        self._mine.begun = begun
        self._log(running, lines)
        return len(text)

    def writelines(self, lines: collections.abc.Iterable[str]) -> None:
        """Write one after the other."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Log what a model has begun; it wants it to be seen."""
        begun = getattr(self._mine, "begun", "")
        running = self._whose() if begun else None
        if running is not None:
            self._mine.begun = ""
            self._log(running, [begun])
        self._stream.flush()

    def close(self) -> None:
        """Stay open: it is not a model's to close."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _whose(self) -> "context.Running | None":
        """The model that writes, unless its words are to be left alone."""
        # A handler that writes to this very stream would come back here with its own line.
        if getattr(self._mine, "logs", False) or sys.gettrace() is not None:
            return None
        running = context.running()
        if running is None or not model_logger(running.model).isEnabledFor(logging.INFO):
            return (
                None  # a program that embeds the server without its log still shows what is printed
            )
        return running

    def _log(self, running: context.Running, lines: list[str]) -> None:
        logger = model_logger(running.model)
        instance = running.instance or "config"
        extra = {"model": running.model, "instance": instance}
        self._mine.logs = True
        try:
            for line in lines:
                shown = line.strip("\r")  # as a progress bar begins or ends its line
                if shown:
                    logger.info("[%s %s] %s", running.model, instance, shown, extra=extra)
        finally:
            self._mine.logs = False


def listen() -> None:
    """Put `Prints` in the place of the two streams, unless they stand there."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, Prints):
            setattr(sys, name, Prints(stream))
