"""Requests that a model forgets, or whose senders are unreachable: their clients get an error (row 15.16)."""

import gc
import pathlib
import threading

import pytest

from naiad.backends.python import leaked_senders
from naiad.errors import ErrorCode, FailureReason
from tests.server.backends.python.models import ask
from tests.server.backends.python.sending import made
from tests.support.waiting import wait_until

FORGETFUL = {
    "drops the request": "pass",
    "drops the sender": "requests[0].get_response_sender().send(response(1, 1))",
    "its thread dies": "threading.Thread(target=self.die, args=(requests.pop(),)).start()",
}


@pytest.mark.parametrize("line", FORGETFUL.values(), ids=FORGETFUL)
def test_a_request_whose_sender_is_dropped_fails_and_says_so(
    tmp_path: pathlib.Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pytest's own hook keeps the traceback, and with it the sender, until the test is over.
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    instance, answers = made(
        tmp_path,
        f"""
        def execute(self, requests):
            {line}

        def die(self, request):
            raise RuntimeError("the thread's end")
        """,
    )
    instance.execute([ask()])
    count = 2 if "send(" in line else 1
    last = answers.wait(count)[-1]
    assert last.final
    assert last.error is not None
    assert "dropped this request's response sender" in last.error.message
    assert "TRITONSERVER_RESPONSE_COMPLETE_FINAL" in last.error.message
    assert (last.error.code, last.error.reason) == (ErrorCode.INTERNAL, FailureReason.BACKEND)


CIRCLES = {
    "an exception that is kept": """
        def execute(self, requests):
            sender = requests[0].get_response_sender()
            try:
                raise ValueError("kept")
            except ValueError as caught:
                error = caught
        """,
    "a function that calls itself": """
        def execute(self, requests):
            sender = requests[0].get_response_sender()
            def again(number):
                sender.send(response(number, 0))
                if number:
                    again(number - 1)
            again(1)
        """,
    "a coroutine that keeps an exception": """
        async def execute(self, requests):
            sender = requests[0].get_response_sender()
            try:
                raise ValueError("kept")
            except ValueError as caught:
                error = caught
        """,
    "a thread's": """
        def execute(self, requests):
            threading.Thread(target=self.go, args=(requests[0].get_response_sender(),)).start()
        def go(self, sender):
            try:
                raise ValueError("kept")
            except ValueError as caught:
                error = caught
        """,
}


@pytest.mark.parametrize("body", CIRCLES.values(), ids=CIRCLES)
def test_a_sender_that_is_part_of_a_reference_cycle_is_found(
    tmp_path: pathlib.Path, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaked_senders, "LOOK_S", 0.02)
    before = set(threading.enumerate())
    gc.collect()
    gc.disable()  # as in a worker that has nothing to do
    try:
        instance, answers = made(tmp_path, body)
        instance.execute([ask()])
        last = answers.wait(1 if "again" not in body else 3)[-1]
    finally:
        gc.enable()
    assert last.error is not None
    assert "dropped this request's response sender" in last.error.message
    instance.close()
    # The model's own thread, if it has one, is about to end.
    wait_until(lambda: set(threading.enumerate()) <= before)


def test_a_request_that_is_answered_in_time_needs_no_collector(tmp_path: pathlib.Path) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            requests[0].get_response_sender().send(response(1, 1), FINAL)
        """,
    )
    before = set(threading.enumerate())
    instance.execute([ask()])
    answers.wait(1)
    assert set(threading.enumerate()) <= before
    instance.close()
