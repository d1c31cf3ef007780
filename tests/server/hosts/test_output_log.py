"""What a worker writes becomes log lines of the server."""

import asyncio
import json
import logging
import os

import pytest

from naiad.hosts.process.output_log import Identity, OutputLog, OutputReader


@pytest.fixture
def output(caplog: pytest.LogCaptureFixture) -> OutputLog:
    """A log of instance m_0_1 of model m."""
    caplog.set_level(logging.INFO, "naiad")
    return OutputLog(Identity("m", 1, "m_0_1"))


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(each.levelname, each.getMessage()) for each in caplog.records]


def record(level: int, message: str, name: str = "naiad.models.m") -> bytes:
    return b"\x1e" + json.dumps([level, name, "/m/1/model.py", 7, message]).encode() + b"\n"


def test_lines_are_logged_when_they_are_complete(
    output: OutputLog, caplog: pytest.LogCaptureFixture
) -> None:
    output.feed(b"first li")
    assert said(caplog) == []
    output.feed(b"ne\nsecond\n\nthi")
    output.close()
    assert said(caplog) == [
        ("INFO", "[m m_0_1] first line"),
        ("INFO", "[m m_0_1] second"),
        ("INFO", "[m m_0_1] thi"),
    ]
    assert vars(caplog.records[0])["model"] == "m"
    assert vars(caplog.records[0])["instance"] == "m_0_1"


def test_a_line_without_an_end_is_not_kept_for_ever(
    output: OutputLog, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        output.feed(b"x" * 50_000)
    assert len(caplog.records) == 1
    assert len(caplog.records[0].getMessage()) > 65_536


def test_a_record_keeps_its_level_its_place_and_its_lines(
    output: OutputLog, caplog: pytest.LogCaptureFixture
) -> None:
    output.feed(b"begun " + record(logging.ERROR, "broken\nhere") + record(logging.DEBUG, "unseen"))
    assert said(caplog) == [("INFO", "[m m_0_1] begun "), ("ERROR", "[m m_0_1] broken\nhere")]
    assert caplog.records[1].filename == "model.py"
    assert caplog.records[1].lineno == 7


def test_a_long_record_is_a_record(output: OutputLog, caplog: pytest.LogCaptureFixture) -> None:
    written = b"begun " + record(logging.ERROR, "é" * 80_000)
    for at in range(0, len(written), 65_536):
        output.feed(written[at : at + 65_536])
    assert said(caplog) == [
        ("INFO", "[m m_0_1] begun "),
        ("ERROR", "[m m_0_1] " + "é" * 80_000),
    ]


@pytest.mark.parametrize("invalid", [b"{", b"7", b"[1, 2]", b'["a", "b", "c", "d", "e"]'])
def test_what_only_looks_like_a_record_is_a_line(
    output: OutputLog, caplog: pytest.LogCaptureFixture, invalid: bytes
) -> None:
    output.feed(b"\x1e" + invalid + b"\n\xff\n")
    assert said(caplog) == [
        ("INFO", f"[m m_0_1] {invalid.decode()}"),
        ("INFO", "[m m_0_1] \ufffd"),
    ]


def test_loggers_that_a_model_names_are_not_made_in_the_server(
    output: OutputLog, caplog: pytest.LogCaptureFixture
) -> None:
    known = set(logging.getLogger().manager.loggerDict)
    for number in range(3):
        output.feed(record(logging.WARNING, "slow", f"request.{number}"))
    assert set(logging.getLogger().manager.loggerDict) == known
    assert [(each.name, each.getMessage()) for each in caplog.records] == [
        (f"request.{number}", "[m m_0_1] slow") for number in range(3)
    ]


def test_the_last_lines_are_kept(output: OutputLog) -> None:
    for number in range(100):
        output.feed(f"line {number}\n".encode())
    output.feed(record(logging.ERROR, "the end"))
    kept = output.last_lines().splitlines()
    assert len(kept) == 30
    assert kept[-2:] == ["line 99", "the end"]


@pytest.mark.parametrize(
    "odd",
    [
        b"[" * 5_000,
        b"9" * 5_000,
        b"[1]",
        b"null",
        b'["high", "x", "x", 1, "x"]',
        b'[20, ["x"], "x", 1, "x"]',
        b'[20, "x", 5, 1, "x"]',
        b'[20, "x", "x", null, "x"]',
        b'[20, "x", "x", 1, ' + b"[" * 400 + b"]" * 400 + b"]",
        b'[1e400, "x", "x", 1, "x"]',
        b'[%d, "x", "x", 1, "x"]' % 10**300,
        b"\xff\xfe",
    ],
)
def test_an_invalid_record_is_a_line_and_loses_no_other(
    output: OutputLog, caplog: pytest.LogCaptureFixture, odd: bytes
) -> None:
    output.feed(b"before\n\x1e" + odd + b"\nafter\n" + record(logging.ERROR, "why it died"))
    text = odd.decode(errors="replace")
    assert said(caplog) == [
        ("INFO", "[m m_0_1] before"),
        ("INFO", f"[m m_0_1] {text}"),
        ("INFO", "[m m_0_1] after"),
        ("ERROR", "[m m_0_1] why it died"),
    ]
    assert "why it died" in output.output_tail()


def test_names_that_a_model_thinks_of_leave_no_loggers(
    output: OutputLog, caplog: pytest.LogCaptureFixture
) -> None:
    before = set(logging.root.manager.loggerDict)
    for number in range(10):
        output.feed(record(logging.INFO, "x", f"naiad.{number}.{number}"))
    assert set(logging.root.manager.loggerDict) == before
    assert [each.name for each in caplog.records] == [f"naiad.{n}.{n}" for n in range(10)]


class EndlessPipe:
    """A pipe into which a child of the worker writes again as soon as something is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read = 0
        monkeypatch.setattr(os, "read", self._read)

    def _read(self, _: int, most: int) -> bytes:
        self.read += most
        return b"x" * (most - 1) + b"\n"


async def test_of_a_worker_that_has_ended_at_most_a_full_pipe_is_read(
    output: OutputLog, caplog: pytest.LogCaptureFixture
) -> None:
    reading, writing = os.pipe2(os.O_NONBLOCK)
    reader = OutputReader(reading, output, loop=asyncio.get_running_loop())
    os.write(writing, b"the last line\n")
    reader.read_rest()
    assert said(caplog) == [("INFO", "[m m_0_1] the last line")]
    with pytest.MonkeyPatch.context() as monkeypatch:
        endless = EndlessPipe(monkeypatch)
        reader.read_rest()
        assert endless.read == 1 << 16
    os.close(reading)
    os.close(writing)


async def test_output_without_end_is_read_in_parts_with_pauses(output: OutputLog) -> None:
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe2(os.O_NONBLOCK)
    reader = OutputReader(reading, output, loop=loop)
    loop.add_reader(reading, reader.on_readable)
    os.write(writing, b"x\n" * 5_000)
    reader.on_readable()
    assert not loop.remove_reader(reading)
    reader.close()
    os.close(reading)
    os.close(writing)
