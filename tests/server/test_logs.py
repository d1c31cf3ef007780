"""Log lines: Triton's formats to the letter, JSON that a machine can read."""

import collections.abc
import contextlib
import errno
import json
import logging
import os
import pathlib
import re
from typing import Any

import pytest

from naiad import logs


def _record(message: str, **extra: object) -> logging.LogRecord:
    record = logging.makeLogRecord(
        {
            "name": "naiad.test",
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": message,
            "filename": "engine.py",
            "lineno": 7,
            "created": 1767225600.25,
        }
    )
    record.__dict__.update(extra)
    return record


def test_the_default_format_is_glogs() -> None:
    line = logs.TextFormatter(iso=False).format(_record('say "hi"'))
    assert re.fullmatch(r'W0101 00:00:00\.250000 \d+ engine\.py:7\] "say \\"hi\\""', line)


def test_the_iso_format_has_the_time_first() -> None:
    line = logs.TextFormatter(iso=True).format(_record("hi"))
    assert re.fullmatch(r'2026-01-01T00:00:00Z W \d+ engine\.py:7\] "hi"', line)


def test_the_request_id_comes_before_the_message() -> None:
    line = logs.TextFormatter(iso=False).format(_record("slow", request_id="r-1"))
    assert line.endswith('] "[request id: r-1] slow"')


def test_a_message_of_several_lines_stays_readable() -> None:
    line = logs.TextFormatter(iso=False).format(_record("first\n  ^^^\nlast"))
    assert line.endswith('"first"\n      ^^^\n    last')


def test_the_rows_of_a_table_are_for_people_alone() -> None:
    record = _record("models:", rows=["model  state", "m      READY"], models=[{"model": "m"}])
    assert (
        logs.TextFormatter(iso=False)
        .format(record)
        .endswith('"models:"\n    model  state\n    m      READY')
    )
    fields = json.loads(logs.JsonFormatter().format(record))
    assert fields["message"] == "models:"
    assert fields["models"] == [{"model": "m"}]
    assert "rows" not in fields


def test_a_terminal_gets_whole_words() -> None:
    words = [f"word{number}" for number in range(30)]
    path = "/a/" + "long/" * 20
    message = " ".join([*words, path, *words])
    formatter = logs.TextFormatter(iso=False, columns=lambda: 60)
    lines = formatter.format(_record(message, stack=["  File " + "x" * 90])).splitlines()
    *wrapped, last = lines
    assert last == "      File " + "x" * 90
    assert len(wrapped) > 5
    assert all(len(line) <= 60 or line.strip() == path for line in wrapped)
    assert all(line.startswith("    ") for line in wrapped[1:])
    whole = logs.TextFormatter(iso=False).format(_record(message))
    assert " ".join(line.strip() for line in wrapped) == whole


def test_a_stream_that_is_not_a_terminal_gets_whole_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert logs.terminal_columns() == 0


def test_json_lines_carry_every_extra_field() -> None:
    fields = json.loads(logs.JsonFormatter().format(_record("hi", request_id="r-1", model="m")))
    assert fields == {
        "time": "2026-01-01T00:00:00.250000Z",
        "level": "warning",
        "logger": "naiad.test",
        "message": "hi",
        "request_id": "r-1",
        "model": "m",
    }


@contextlib.contextmanager
def configured(**settings: Any) -> collections.abc.Iterator[None]:
    """Logging as the server sets it up, and as it was before afterwards."""
    root = logging.getLogger()
    ours = logging.getLogger("naiad")
    before = list(root.handlers), root.level, ours.level
    for handler in list(root.handlers):
        root.removeHandler(handler)
    try:
        logs.configure(
            **{"info": True, "warning": True, "error": True, "verbose": 0, "line_format": "json", **settings}
        )  # fmt: skip
        yield
    finally:
        for handler in list(root.handlers):
            root.removeHandler(handler)
            handler.close()
        for handler in before[0]:
            root.addHandler(handler)
        root.setLevel(before[1])
        ours.setLevel(before[2])


def test_lines_that_cannot_be_written_are_reported_once_until_some_can(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "log"
    real, full = os.write, True

    def disk(descriptor: int, data: memoryview) -> int:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", disk)
    log = logging.getLogger("naiad.test")
    with configured(file=str(file)):
        for _ in range(3):
            log.info("lost")
        output = capsys.readouterr().err
        assert output.count("\n") == 1
        assert f"--log-file={file} cannot be written: No space left on device" in output
        full = False
        log.info("kept")
        full = True
        log.info("lost")
        assert capsys.readouterr().err.count("cannot be written") == 1
    assert [json.loads(line)["message"] for line in file.read_text().splitlines()] == ["kept"]


@pytest.mark.parametrize("line_format", ["json", "default"])
def test_half_a_surrogate_pair_in_a_message_does_not_lose_the_line(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], line_format: str
) -> None:
    file = tmp_path / "log"
    with configured(file=str(file), line_format=line_format):
        logging.getLogger("naiad.test").info("file %s is odd", "a\ud800b")
    (line,) = file.read_text().splitlines()
    assert "ud800b is odd" in line
    if line_format == "json":
        assert json.loads(line)["message"] == "file a\ud800b is odd"
    assert not capsys.readouterr().err


@pytest.mark.parametrize(("warning", "expected"), [(True, 1), (False, 0)])
def test_levels_are_switched_one_by_one(
    tmp_path: pathlib.Path, *, warning: bool, expected: int
) -> None:
    file = tmp_path / "log"
    with configured(warning=warning, file=str(file)):
        logging.getLogger("naiad.test").warning("hm")
        logging.getLogger("naiad.test").debug("only when verbose")
    assert len(file.read_text().splitlines()) == expected


def test_a_change_of_the_level_reaches_what_has_loggers_of_its_own() -> None:
    told: list[int] = []

    class Apart:
        def log_level_changed(self, level: int) -> None:
            told.append(level)

    apart = Apart()
    logs.follow_level(apart)
    settings = logs.LogSettings(logging.NullHandler(), logger=logging.getLogger("level-test"))
    told.clear()
    settings.change({"log_verbose_level": 2})
    settings.change({"log_verbose_level": 1})  # nothing that is logged changes by this
    settings.change({"log_info": False})
    settings.change({"log_verbose_level": 0})
    assert told == [logging.DEBUG, logging.INFO]
    del apart
    settings.change({"log_verbose_level": 1})
    assert told == [logging.DEBUG, logging.INFO]
