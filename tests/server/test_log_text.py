"""Whatever text a client or a model chooses, a record of the log is one line, all of whose characters are seen."""

import collections.abc
import json
import logging
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from typing_extensions import override

from naiad import logs
from naiad.core.inference import ExecutionTimes, Inference, RequestContext
from naiad.core.request import LATEST, InferRequest
from naiad.log_text import Lines, escaped, indented, message_of
from naiad.protocol.access_log import LoggedAccess
from naiad.protocol.observer import Ended
from naiad.repository.lifecycle import State
from naiad.repository.manager import VersionState
from naiad.serve.console import LoadingLines

_TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_MARKS = "\u061c\u200e\u200f\ufeff\u200b"
FORGED = 'm\nE0101 00:00:00.000000 1 a.py:1] "forged"\r\x85\u2028\u202e\x1b[2J\x9b\ud800'

TEXTS = st.text(
    st.one_of(st.characters(categories=("Cc", "Cf", "Zl", "Zp", "Cs")), st.characters()), max_size=20
)  # fmt: skip
FORMATTERS = [logs.TextFormatter(iso=False), logs.TextFormatter(iso=True), logs.JsonFormatter()]


def hidden(text: str) -> list[str]:
    """The characters of a text that a reader of it does not see, or that change what is seen of others."""
    return [
        character
        for character in text
        if unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs")
        or unicodedata.bidirectional(character) in _TURNS
        or character in _MARKS
    ]


class Written(logging.Handler):
    """Collects the lines of every format."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.lines += [formatter.format(record) for formatter in FORMATTERS]


def lines_of(
    log: collections.abc.Callable[[logging.Logger], object], name: str = "test"
) -> list[str]:
    """What some code writes to a logger: a line of each format for each record."""
    logger, handler = logging.getLogger(name), Written()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        log(logger)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = True
    assert handler.lines
    return handler.lines


def entry(text: str, place: str) -> Ended:
    chosen = {
        "peer": "10.0.0.9:1",
        "method": "GET",
        "path": "/v2",
        "id": "",
        "model": "m",
        place: text,
    }
    request = InferRequest(chosen["model"], LATEST, chosen["id"], [], [], {})
    made = Inference(request, lambda _: None, batch_size=1, received_ns=0, queued_ns=1)
    made.execution = ExecutionTimes(3, 1, 1, 1, 1)
    context = RequestContext(0, inference=made, sent_ns=10**9, request_id=chosen["id"])
    return Ended("http", chosen["peer"], chosen["method"], chosen["path"], 200, context)


@pytest.mark.parametrize("slow_ms", [0, 1])
@pytest.mark.parametrize("place", ["peer", "method", "path", "id", "model"])
@given(text=TEXTS)
@example(text=FORGED)
def test_an_entry_of_the_access_log_is_one_line(place: str, slow_ms: float, text: str) -> None:
    for line in lines_of(lambda logger: LoggedAccess(logger, slow_ms=slow_ms)(entry(text, place))):
        assert not hidden(line)


@given(text=TEXTS)
@example(text=FORGED)
def test_a_name_in_a_load_request_takes_one_line(text: str) -> None:
    lines = LoadingLines(None)

    def change(_: logging.Logger) -> None:
        for state, reason in (
            (State.LOADING, ""),
            (State.READY, ""),
            (State.UNAVAILABLE, f"model '{text}' is not in the repository"),
            (State.UNAVAILABLE, "unloaded"),
        ):
            lines.changed(VersionState(name=text, version=1, state=state, reason=reason))

    for line in lines_of(change, "naiad"):
        assert not hidden(line)


@given(text=TEXTS)
@example(text=FORGED)
def test_arguments_and_extras_of_any_record_take_one_line(text: str) -> None:
    class Named:
        @override
        def __repr__(self) -> str:
            return text

    def log(logger: logging.Logger) -> None:
        logger.warning("%s", text, extra={"request_id": text, "model": text, "suffix": text})
        logger.warning("%(name)s and %(number)05.1f", {"name": text, "number": 2.25})
        logger.warning("%s %r %5d %.2f", ValueError(text), Named(), 7, 1.5)

    for line in lines_of(log):
        assert not hidden(line)


def raised(error: Exception) -> Exception:
    """An error that has a traceback."""
    try:
        raise error
    except type(error) as caught:
        return caught


@given(text=TEXTS)
@example(text=FORGED)
def test_what_has_several_lines_has_no_line_that_looks_like_a_record(text: str) -> None:
    def log(logger: logging.Logger) -> None:
        logger.error(
            "it failed: %s",
            Lines(f"{text}\n  ^^^"),
            exc_info=raised(ValueError(text)),
            extra={"rows": [text], "stack": [text]},
        )

    *texts, of_json = lines_of(log)
    assert not hidden(of_json)
    for written in texts:
        first, *below = written.split("\n")
        assert not hidden(first)
        assert len(below) > 4
        for line in below:
            assert not line or line.startswith("    ")
            assert not hidden(line)


@given(text=TEXTS)
@example(text=FORGED)
def test_json_keeps_the_text_itself(text: str) -> None:
    of_json = lines_of(lambda logger: logger.info("%s", "hi", extra={"model": text}))[-1]
    assert json.loads(of_json)["model"] == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("café au lait", "café au lait"),
        ("日本語\u3000\U0001f600", "日本語\u3000\U0001f600"),
        ("a\tb\r\n", r"a\tb\r\n"),
        ("a\u202eb\u2028\x85", r"a\u202eb\u2028\x85"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_is_not_seen_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_lines_keep_their_columns_below_each_other() -> None:
    assert indented("dims:\t[x]\n     \t ^\n\nend") == [
        "    dims:   [x]",
        "             ^",
        "",
        "    end",
    ]


def record(message: str, *arguments: Any) -> logging.LogRecord:
    return logging.LogRecord("n", logging.INFO, "a.py", 1, message, arguments, None)


def test_only_marked_arguments_have_several_lines() -> None:
    assert message_of(record("%s: %s", "a\nb", Lines("c\n\x1b d"))) == "a\\nb: c\n\\x1b d"
    assert message_of(record("100% sure\nof it")) == "100% sure\nof it"
