"""Why a server has ended, as the operator's condition shows it: of the last lines of its log, the one that explains the end."""

import logging

import pytest

from naiad import __main__, logs
from naiad_operator.status import log_lines


def test_a_wrong_option_is_the_line_that_explains_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["naiad", "serve", "--model-repository=/m", "--no-such-option"])
    assert __main__.main() == 1
    line = log_lines.error_line(capsys.readouterr().err)
    assert line.startswith("naiad serve: error: unrecognized option '--no-such-option'")


_WRITTEN = (
    (logging.WARNING, "1 request ended with an error"),
    (logging.ERROR, '--model-repository=/m: there is no folder "m"'),
    (logging.INFO, "no error while unloading"),
    (logging.INFO, "stopped"),
)
"""The log of a server that cannot start, and then ends."""


def formatter(log_format: str) -> logging.Formatter:
    if log_format == "json":
        return logs.JsonFormatter()
    return logs.TextFormatter(iso=log_format == "ISO8601")


@pytest.mark.parametrize("log_format", ["default", "ISO8601", "json"])
def test_the_last_error_explains_the_end_in_every_format_of_the_log(
    log_format: str,
) -> None:
    """Without time and process, which differ after each restart: the condition would change each time."""
    fields = {"filename": "server.py", "lineno": 198}
    records = [
        logging.makeLogRecord(
            {**fields, "levelno": level, "levelname": logging.getLevelName(level), "msg": text}
        )
        for level, text in _WRITTEN
    ]
    line = log_lines.error_line("\n".join(map(formatter(log_format).format, records)))
    assert line == '--model-repository=/m: there is no folder "m"'
