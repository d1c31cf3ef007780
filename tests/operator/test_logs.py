"""Log lines: one JSON object each, with the service that the task works on."""

import json
import logging

import pytest

from naiad_operator.logs import OBJECT, JsonFormatter, TextFormatter, configure, of_its_weight


def record(message: str, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("naiad_operator.x", logging.INFO, "x.py", 1, message, (), None)
    made.__dict__.update(more)
    return made


def test_a_line_has_the_service_of_its_task() -> None:
    token = OBJECT.set("prod/demo")
    try:
        line = json.loads(JsonFormatter().format(record("put back")))
    finally:
        OBJECT.reset(token)
    assert line["object"] == "prod/demo"
    assert (line["message"], line["level"]) == ("put back", "info")
    assert line["time"].endswith("Z")


def test_a_line_about_no_service_names_none() -> None:
    assert "object" not in json.loads(JsonFormatter().format(record("started")))


def test_a_line_of_kopfs_names_the_service_that_it_knows() -> None:
    reference = {"namespace": "prod", "name": "demo"}
    line = json.loads(JsonFormatter().format(record("heard", k8s_ref=reference)))
    assert line["object"] == "prod/demo"


@pytest.mark.parametrize(
    ("level", "shown"), [("info", ["ours", "worse"]), ("debug", ["ours", "course", "worse"])]
)
def test_kopfs_own_info_lines_are_logged_only_at_debug_level(
    level: str, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    try:
        configure(level=level, text=False)
        logging.getLogger("naiad_operator.x").info("ours")
        logging.getLogger("kopf.activities.x").info("course")
        logging.getLogger("kopf.activities.x").warning("worse")
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        for name in ("kopf", "kopf.objects", "asyncio", "aiohttp.access"):
            logging.getLogger(name).setLevel(logging.NOTSET)
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["message"] for line in lines] == shown


@pytest.mark.parametrize(
    ("name", "message", "level"),
    [
        ("kopf._cogs.clients.watching", "Request attempt #1 failed; will retry: GET /a -> b", "warning"),
        ("kopf._cogs.clients.watching", "Request attempt #1 failed; TCP closed; will re-authenticate: GET /a", "warning"),
        ("kopf._cogs.clients.watching", "Request attempt #9 failed; escalating: GET /a -> b", "error"),
        ("kopf.objects", "Event processing has failed", "error"),
        ("naiad_operator.x", "Request attempt #1 failed; will retry: GET /a -> b", "error"),
    ],
)  # fmt: skip
def test_a_request_that_kopf_sends_again_is_a_warning(name: str, message: str, level: str) -> None:
    made = logging.LogRecord(name, logging.ERROR, "x.py", 1, message, (), None)
    assert of_its_weight(made)
    assert json.loads(JsonFormatter().format(made))["level"] == level


def test_an_exception_stays_on_the_line() -> None:
    made = record("failed")
    error = ValueError("two\nlines")
    made.exc_info = (ValueError, error, None)
    text = JsonFormatter().format(made)
    assert "\n" not in text
    assert "two\nlines" in json.loads(text)["exception"]


def test_a_line_for_people_is_short() -> None:
    assert TextFormatter().format(record("started")).endswith("info    started")
