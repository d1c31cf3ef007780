"""`async def execute` (row 15.8): who waits for whom, and how it ends."""

import pathlib
import threading

import pytest

from naiad.core.flow import Flow
from tests.server.backends.python.models import ask
from tests.server.backends.python.sending import made, seen


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
    instance.execute([ask()])
    answers.wait(1)
    instance.close()
    assert not [each for each in threading.enumerate() if each.name.endswith("-async")]


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
    slow.flow.hold()
    instance.execute([slow])
    instance.execute([other])
    assert len(answers.wait(42)) == 42
