"""Log lines as JSON, one a line, each with the name of the service that it is about.

The name is put into the context of the task that works on a service, so that a line from any depth carries it, also one of
aiohttp's or kopf's, and nobody passes it along. On a terminal a plain line is easier to read: `--log-format=text`.
"""

import contextvars
import datetime as dt
import json
import logging
import sys
import typing

from typing_extensions import override

OBJECT: contextvars.ContextVar[str] = contextvars.ContextVar("object", default="")
"""The service that the present task works on, as "namespace/name"."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

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
    """A line for people."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC)
        name = _object(record)
        about = f" [{name}]" if name else ""
        text = f"{at:%H:%M:%S} {record.levelname.lower():7}{about} {record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def _object(record: logging.LogRecord) -> str:
    """The task's service, or the one that kopf's own logger names."""
    reference = getattr(record, "k8s_ref", None)
    if isinstance(reference, dict) and reference.get("name"):
        return f"{reference.get('namespace') or ''}/{reference['name']}".strip("/")
    return OBJECT.get()


def configure(*, level: str, text: bool) -> None:
    """Sends every log line to standard error in the chosen form; a line a request of aiohttp's server is not one."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if text else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("kopf.objects").setLevel(
        logging.WARNING
    )  # a line for each event that it passed on
    logging.getLogger("asyncio").setLevel(max(logging.INFO, root.level))
    # Its own course (a login, a stop) is told in our words already; what goes wrong there is not.
    debugging = root.level <= logging.DEBUG
    logging.getLogger("kopf").setLevel(logging.INFO if debugging else logging.WARNING)
