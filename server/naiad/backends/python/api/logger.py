"""`Logger` of models (row 15.25): into Python's logging as `naiad.models.<name>`, so that the server's log settings hold.

Python keeps every logger that `logging.getLogger` makes for ever, and a server may see ever new models. So these are not among them:
they are made when they are wanted, and pass what they get to the logger `naiad.models`.
"""

import enum
import functools
import logging

from naiad.backends.python.api import context

_KEPT = 256


class _ModelLogger(logging.Logger):
    """Takes levels from its parent logger each time: a cache of its own would miss changes."""

    def isEnabledFor(self, level: int) -> bool:  # type: ignore[explicit-override]  # noqa: N802 - the base class names it; no `override` in 3.8
        return logging.getLogger(MODELS).isEnabledFor(level)


MODELS = "naiad.models"
"""The logger above that of each model."""


@functools.lru_cache(maxsize=_KEPT)
def model_logger(model: str) -> logging.Logger:
    """The logger of a model, or of all models for an empty name."""
    above = logging.getLogger(MODELS)
    if not model:
        return above
    logger = _ModelLogger(MODELS + "." + model)
    logger.parent = above
    return logger


class Level(enum.IntEnum):
    """Triton's levels; VERBOSE is Python's DEBUG."""

    INFO = logging.INFO
    WARNING = logging.WARNING
    ERROR = logging.ERROR
    VERBOSE = logging.DEBUG


class Logger:
    """All of it is static, as in Triton: `Logger.log_info("ready")`.

    Raises:
        TypeError: a message that is not text, or an unknown level.
    """

    LogLevel = Level
    INFO = Level.INFO
    WARNING = Level.WARNING
    ERROR = Level.ERROR
    VERBOSE = Level.VERBOSE

    @staticmethod
    def log(message: "str | bytes", level: Level = Level.INFO) -> None:
        """Write a line at a level."""
        _write(message, level)

    @staticmethod
    def log_info(message: "str | bytes") -> None:
        """Write a line at INFO."""
        _write(message, Level.INFO)

    @staticmethod
    def log_warn(message: "str | bytes") -> None:
        """Write a line at WARNING."""
        _write(message, Level.WARNING)

    @staticmethod
    def log_error(message: "str | bytes") -> None:
        """Write a line at ERROR."""
        _write(message, Level.ERROR)

    @staticmethod
    def log_verbose(message: "str | bytes") -> None:
        """Write a line that is seen when verbose logging is on."""
        _write(message, Level.VERBOSE)


def _write(message: "str | bytes", level: Level) -> None:
    if isinstance(message, bytes):
        message = message.decode(errors="backslashreplace")
    if not isinstance(message, str):
        raise TypeError(
            f"Logger writes a str, not {type(message).__name__}: write str(...) or an f-string"
        )
    if not isinstance(level, Level):
        raise TypeError(
            f"the level of Logger.log is Logger.INFO, WARNING, ERROR or VERBOSE, not {level!r}"
        )
    running = context.running()
    logger = model_logger("" if running is None else running.model)
    # Two frames up is the model's line, which the log shows as its place.
    logger.log(level, "%s", message, stacklevel=3)
