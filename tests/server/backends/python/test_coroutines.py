"""`async def execute` (row 15.8): which batches wait for which, and how it ends."""

import pathlib
import threading

import pytest

from naiad.backends.python import coroutines
from naiad.core.flow import Flow
from tests.server.backends.python.models import ask
from tests.server.backends.python.sending import GIVE_UP_S, made, seen


def test_async_execute_of_an_ordinary_model_is_waited_for(tmp_path: pathlib.Path) -> None:
    instance, _ = made(
        tmp_path,
        """
        async def execute(self, requests):
            import asyncio
            await asyncio.sleep(0)
            return [response(4, 4) for request in requests]
        """,
        decoupled=False,
    )
    (answer,) = instance.execute([ask()]).responses
    assert answer is not None
    assert seen(answer) == [4, 4]
    instance.close()


def test_async_execute_of_a_decoupled_model_runs_beside_the_next_batch(
    tmp_path: pathlib.Path,
) -> None:
    instance, answers = made(
        tmp_path,
        """
        def initialize(self, args):
            self.waiting = []

        async def execute(self, requests):
            import asyncio
            me = asyncio.Event()
            if self.waiting:
                self.waiting.pop().set()
            else:
                self.waiting.append(me)
                await me.wait()
            for request in requests:
                request.get_response_sender().send(flags=FINAL)
        """,
    )
    assert instance.execute([ask(request_id="first")]).responses == [None]
    assert instance.execute([ask(request_id="second")]).responses == [None]
    assert sorted(each.id for each in answers.wait(2)) == ["first", "second"]
    instance.close()


@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        ("raise ValueError('in the coroutine')", "in the coroutine"),
        ("return [1]", "must return None"),
    ],
)
def test_a_coroutine_that_fails_ends_its_requests(
    tmp_path: pathlib.Path, line: str, fragment: str
) -> None:
    instance, answers = made(
        tmp_path,
        f"""
        async def execute(self, requests):
            requests[0].get_response_sender().send(response(1, 1))
            {line}
        """,
    )
    assert instance.execute([ask()]).responses == [None]
    first, last = answers.wait(2)
    assert (seen(first), first.final) == ([1, 1], False)
    assert last.final
    assert last.error is not None
    assert fragment in last.error.message
    instance.close()
    assert len(answers.got) == 2


def test_closing_waits_for_coroutines_and_ends_their_thread(tmp_path: pathlib.Path) -> None:
    instance, answers = made(
        tmp_path,
        """
        async def execute(self, requests):
            import asyncio
            requests[0].get_response_sender().send(flags=FINAL)
            asyncio.get_running_loop().create_task(asyncio.sleep(3600))
        """,
    )
    before = set(threading.enumerate())
    instance.execute([ask()])
    answers.wait(1)
    instance.close()
    assert set(threading.enumerate()) <= before


def test_a_coroutine_does_not_wait_so_that_the_others_of_its_instance_go_on(
    tmp_path: pathlib.Path,
) -> None:
    instance, answers = made(
        tmp_path,
        """
        async def execute(self, requests):
            for request in requests:
                sender = request.get_response_sender()
                for _ in range(20):
                    sender.send(response(1))
                sender.send(flags=FINAL)
        """,
    )
    slow, other = ask(), ask()
    slow.flow = Flow()
    slow.flow.pause()
    instance.execute([slow])
    instance.execute([other])
    assert len(answers.wait(42)) == 42


@pytest.mark.parametrize(
    "body",
    [
        "while not stop.is_set():\n    try:\n        await asyncio.sleep(0.01)\n    except asyncio.CancelledError:\n        pass",
        "stop.wait()",
    ],
    ids=["takes no cancel", "blocks the thread"],
)
def test_a_coroutine_that_does_not_end_does_not_delay_the_close(
    tmp_path: pathlib.Path, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coroutines, "CLOSE_TIMEOUT_S", 0.05)
    lines = "\n".join("                " + line for line in body.splitlines())
    instance, answers = made(
        tmp_path,
        f"""
        async def execute(self, requests):
            import asyncio
            stop = self.stop = threading.Event()
            async def go_on():
{lines}
            requests[0].get_response_sender().send(response(1, 1), FINAL)
            self.task = asyncio.create_task(go_on())
        """,
    )
    stop = instance.model
    instance.execute([ask()])
    answers.wait(1)
    closing = threading.Thread(target=instance.close)
    closing.start()
    closing.join(GIVE_UP_S)
    closed = not closing.is_alive()
    stop.stop.set()
    assert closed


@pytest.mark.parametrize(
    "line",
    [
        "raise SystemExit(3)",
        "raise KeyboardInterrupt",
        "asyncio.get_running_loop().stop()",
        "asyncio.create_task(leave()).add_done_callback(lambda done: done.exception())",
    ],
)
def test_a_coroutine_that_wants_to_end_everything_ends_alone(
    tmp_path: pathlib.Path, line: str
) -> None:
    instance, answers = made(
        tmp_path,
        f"""
        async def execute(self, requests):
            import asyncio
            async def leave():
                raise SystemExit
            if requests[0].request_id() == "bad":
                {line}
                await asyncio.sleep(0)
            requests[0].get_response_sender().send(response(1, 1), flags=FINAL)
        """,
    )
    instance.execute([ask(request_id="bad")])
    answers.wait(1)
    instance.execute([ask(request_id="good")])
    assert answers.wait(2)[-1].id == "good"
    assert seen(answers.got[-1].response) == [1, 1]
    instance.close()
