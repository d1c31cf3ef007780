"""How log lines look: Triton's default and ISO8601 formats (rows 17.6, 17.7), and JSON, one object per line.

Modules log through the standard library (`logging.getLogger("naiad.…")`) and pass what a line is about in `extra`:
`request_id`, `model`, `version` and so on. The text formats put the request id in front of the message, JSON gives each a field. `rows` is for
people: lines of a table below the message, which JSON leaves out, because the same facts are in other fields; `suffix` is the same behind it.

Each format escapes what could break a line or hide in it (`log_text.py`): a caller passes values as arguments of the message or in `extra`,
and escapes nothing.
"""

import collections.abc
import contextlib
import datetime as dt
import itertools
import json
import logging
import os
import sys
import textwrap
import threading
import typing
import weakref

from typing_extensions import override

from naiad.errors import unavailable
from naiad.log_file import LogFile
from naiad.log_text import escaped, indented, is_plain, message_of

VERBOSE = logging.DEBUG

_quoted = json.encoder.encode_basestring

_LETTERS = {
    logging.DEBUG: "I",  # the reference logs verbose lines as information
    logging.INFO: "I",
    logging.WARNING: "W",
    logging.ERROR: "E",
    logging.CRITICAL: "F",
}
_OWN_FIELDS = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "rows", "suffix"}
_INDENT = "    "


def no_columns() -> int:
    """For streams other than a terminal: lines are not wrapped."""
    return 0


class TextFormatter(logging.Formatter):
    """`I0101 12:00:00.000000 pid file:line] "message"`, or the same with an ISO 8601 time in UTC.

    A traceback, the further lines of a message, a table's `rows` and the frames of a `stack` follow below, indented, so that none looks like a record.

    Args:
        columns: gives the width of the terminal that shows the lines: a longer first line is wrapped between words. 0 wraps nothing.
    """

    def __init__(
        self, *, iso: bool, columns: collections.abc.Callable[[], int] = no_columns
    ) -> None:
        super().__init__()
        self._iso = iso
        self._columns = columns
        self._pid = os.getpid()
        self._second = 0
        self._stamp = ""

    @override
    def format(self, record: logging.LogRecord) -> str:
        letter = _LETTERS.get(record.levelno, "I")
        stamp = self._to_the_second(int(record.created))
        if self._iso:
            stamp += letter
        else:
            stamp = f"{letter}{stamp}{int(record.created % 1 * 1_000_000):06}"
        first, *lines = message_of(record).rstrip("\n").split("\n")
        if request_id := getattr(record, "request_id", ""):
            first = f"[request id: {request_id}] {first}"
        message = _quoted(escaped(first + getattr(record, "suffix", "")))
        line = f"{stamp} {self._pid} {escaped(record.filename)}:{record.lineno}] {message}"
        columns = self._columns()
        if 0 < columns < len(line):
            line = _wrapped(line, columns)
        lines += (*getattr(record, "rows", ()), *getattr(record, "stack", ()))
        if record.exc_info:
            lines.append(self.formatException(record.exc_info))
        if lines:
            line = "\n".join((line, *itertools.chain.from_iterable(map(indented, lines))))
        return line

    def _to_the_second(self, second: int) -> str:
        """The part of the time that many lines share: a model may print thousands per second."""
        if second != self._second:
            moment = dt.datetime.fromtimestamp(second, tz=dt.UTC)
            self._stamp = moment.strftime("%Y-%m-%dT%H:%M:%SZ " if self._iso else "%m%d %H:%M:%S.")
            self._second = second
        return self._stamp


def _wrapped(line: str, columns: int) -> str:
    """Wraps a line between words, because a terminal would cut words in two; a word that is too long stays whole."""
    return textwrap.fill(
        line,
        columns,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, whatever `extra` brought, and `exception` where there is one."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        moment = dt.datetime.fromtimestamp(record.created, tz=dt.UTC)
        fields: dict[str, object] = {
            "time": moment.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields.update(
            (name, value) for name, value in vars(record).items() if name not in _OWN_FIELDS
        )
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        line = json.dumps(fields, default=str, ensure_ascii=False)
        return line if is_plain(line) else json.dumps(fields, default=str)


class LevelFilter(logging.Filter):
    """Passes the levels that are switched on (`--log-info`, `--log-warning`, `--log-error`)."""

    def __init__(self, *, info: bool, warning: bool, error: bool) -> None:
        super().__init__()
        self._allowed = {
            logging.DEBUG: info,
            logging.INFO: info,
            logging.WARNING: warning,
            logging.ERROR: error,
            logging.CRITICAL: error,
        }

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        return self._allowed.get(record.levelno, True)


def terminal_columns() -> int:
    """The width of the terminal on standard error; 0 where there is none."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 0


class _Lines(logging.StreamHandler[typing.TextIO]):
    """Writes lines, each at once. A destination that cannot be written is reported once on standard error, and again when it fails after a success."""

    def __init__(self, stream: typing.TextIO, *, title: str) -> None:
        super().__init__(stream)
        self._title = title
        self._lost = 0

    @override
    def emit(self, record: logging.LogRecord) -> None:
        lost = self._lost
        super().emit(record)
        if lost == self._lost:
            self._lost = 0

    @override
    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._lost += 1
        if self._lost == 1:
            with contextlib.suppress(OSError):
                sys.stderr.write(
                    f"naiad: {self._title} cannot be written: {error.strerror}; log lines are lost until it can\n"
                )
                sys.stderr.flush()


class _FileLines(_Lines):
    """The same to a file.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._file = LogFile(path)
        super().__init__(typing.cast(typing.TextIO, self._file), title=f"--log-file={path}")

    @override
    def close(self) -> None:
        super().close()
        self._file.close()


FORMATS = ("default", "ISO8601")
"""The formats that Triton knows, which clients may choose at run time."""


class FollowsLevel(typing.Hashable, typing.Protocol):
    """What has a logger of its own, such as a worker process."""

    def log_level_changed(self, level: int) -> None:
        """Naiad's logger has this level now. In any thread; does not wait and raises nothing."""


_followers: "weakref.WeakSet[FollowsLevel]" = weakref.WeakSet()
_following = threading.Lock()


def follow_level(follower: FollowsLevel) -> None:
    """Have changes of the level that `LogSettings.change` makes told, for as long as the follower is referred to elsewhere."""
    with _following:
        _followers.add(follower)


class LogSettings:
    """What the log has, as an administrator sets it; changes apply at once (rows 9.20 to 9.24).

    Args:
        handler: writes the lines of the process; None: another program configures Python's logging, and nothing can be changed here.
        logger: whose level follows `log_verbose_level`; None: Naiad's.
    """

    def __init__(
        self,
        handler: logging.Handler | None = None,
        *,
        logger: logging.Logger | None = None,
        info: bool = True,
        warning: bool = True,
        error: bool = True,
        verbose: int = 0,
        line_format: str = "default",
        file: str = "",
    ) -> None:
        self._handler = handler
        self._logger = logging.getLogger("naiad") if logger is None else logger
        self._values: dict[str, bool | int | str] = {
            "log_file": file,
            "log_info": info,
            "log_warning": warning,
            "log_error": error,
            "log_verbose_level": verbose,
            "log_format": line_format,
        }
        self._apply()

    def shown(self) -> dict[str, bool | int | str]:
        """The settings by Triton's names."""
        return dict(self._values)

    def change(self, change: collections.abc.Mapping[str, bool | int | str]) -> None:
        """Set some of them, whose types are right.

        Raises:
            InferenceError: UNAVAILABLE: the program that runs the server configures logging.
        """
        if not change:
            return
        if self._handler is None:
            raise unavailable(
                "the log settings cannot be changed: the program that runs this server configures Python's logging; set the level of the logger 'naiad' there"
            )
        self._values.update(change)
        self._apply()

    def _apply(self) -> None:
        handler, values = self._handler, self._values
        if handler is None:
            return
        line_format = values["log_format"]
        handler.setFormatter(
            JsonFormatter()
            if line_format == "json"
            else TextFormatter(
                iso=line_format == "ISO8601",
                columns=no_columns if values["log_file"] else terminal_columns,
            )
        )
        for old in list(handler.filters):
            handler.removeFilter(old)
        handler.addFilter(
            LevelFilter(
                info=bool(values["log_info"]),
                warning=bool(values["log_warning"]),
                error=bool(values["log_error"]),
            )
        )
        level = VERBOSE if values["log_verbose_level"] else logging.INFO
        if level == self._logger.level:
            return
        self._logger.setLevel(level)
        with _following:
            followers = list(_followers)
        for follower in followers:
            follower.log_level_changed(level)


def configure(
    *, info: bool, warning: bool, error: bool, verbose: int, line_format: str, file: str
) -> None:
    """Send every log line of the process to standard error, or to `file`, in the given format; `of_process` gives the settings.

    Raises:
        OSError: the file cannot be opened.
    """
    handler = _FileLines(file) if file else _Lines(sys.stderr, title="standard error")
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)  # libraries speak up only when something is wrong
    _OF_PROCESS[:] = [
        LogSettings(
            handler,
            info=info,
            warning=warning,
            error=error,
            verbose=verbose,
            line_format=line_format,
            file=file,
        )
    ]


_OF_PROCESS: list[LogSettings] = []


def of_process() -> LogSettings:
    """The settings that `configure` has made; where it was not called, those of a program that configures Python's logging itself."""
    return _OF_PROCESS[0] if _OF_PROCESS else LogSettings()
