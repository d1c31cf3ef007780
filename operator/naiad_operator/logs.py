"""Structured log lines: one JSON object per line, each with the service that it is about.

The name is a context variable of the task that reconciles the service, so that every line of that task has it, including those
of aiohttp and kopf. `--log-format=text` writes plain lines for a terminal.
"""

import contextvars
import datetime as dt
import json
import logging
import sys
import typing

from typing_extensions import override

OBJECT: contextvars.ContextVar[str] = contextvars.ContextVar("object", default="")
"""The service that the current task reconciles, as "namespace/name"."""


class JsonFormatter(logging.Formatter):
    """Formats a log record as one JSON object per line."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC)
        line: dict[str, typing.Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if name := _object(record):
            line["object"] = name
        line["message"] = record.getMessage()
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """Formats a log record as a plain line for people."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC)
        name = _object(record)
        about = f" [{name}]" if name else ""
        text = f"{at:%H:%M:%S} {record.levelname.lower():7}{about} {record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def of_its_weight(record: logging.LogRecord) -> bool:
    """A filter that keeps every line, and makes a warning of what kopf logs as an error although it passes: a failed request that kopf sends again.

    The API server closes an idle connection, or is busy for a while: the operator's own lines about that are warnings, too, and who alerts on
    errors wants none.
    """
    if record.levelno == logging.ERROR and record.name.partition(".")[0] == "kopf":
        message = record.getMessage()
        if message.startswith("Request attempt ") and "; will re" in message:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
    return True


def _object(record: logging.LogRecord) -> str:
    """The service of the current task, or the one that kopf's logger names."""
    reference = getattr(record, "k8s_ref", None)
    if isinstance(reference, dict) and reference.get("name"):
        return f"{reference.get('namespace') or ''}/{reference['name']}".strip("/")
    return OBJECT.get()


def configure(*, level: str, text: bool) -> None:
    """Sends every log line to standard error in the chosen format; access log lines of aiohttp's server are switched off."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if text else JsonFormatter())
    handler.addFilter(of_its_weight)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("kopf.objects").setLevel(
        logging.WARNING
    )  # one line per event that it handled
    logging.getLogger("asyncio").setLevel(max(logging.INFO, root.level))
    # The operator logs its own start and stop; of kopf only warnings are needed.
    debugging = root.level <= logging.DEBUG
    logging.getLogger("kopf").setLevel(logging.INFO if debugging else logging.WARNING)
