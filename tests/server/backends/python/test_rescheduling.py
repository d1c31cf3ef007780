"""Requests that a model wants to see again (row 15.18), and lists that it takes apart."""

import pathlib

import pytest

from naiad.errors import InferenceError
from tests.server.backends.python.models import ask
from tests.server.backends.python.sending import made, seen

AGAIN = "pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE"


def test_a_request_is_answered_or_seen_again_and_not_both(tmp_path: pathlib.Path) -> None:
    instance, _ = made(
        tmp_path,
        f"""
        def execute(self, requests):
            requests[0].set_release_flags({AGAIN})
            return [response(1, 1)]
        """,
        decoupled=False,
    )
    with pytest.raises(InferenceError, match="Expected a None object in the execute function"):
        instance.execute([ask()])


def test_a_request_with_a_sender_may_be_wanted_again(tmp_path: pathlib.Path) -> None:
    instance, _ = made(
        tmp_path,
        f"""
        def execute(self, requests):
            requests[0].get_response_sender()
            requests[0].set_release_flags({AGAIN})
        """,
        decoupled=False,
    )
    (response,) = instance.execute([ask()]).responses
    assert response is not None
    assert response.error is not None
    assert "iterative_sequence" in response.error.message


def test_a_coroutine_may_want_a_request_again(tmp_path: pathlib.Path) -> None:
    instance, answers = made(
        tmp_path,
        f"""
        async def execute(self, requests):
            requests[0].set_release_flags({AGAIN})
            requests[0].get_response_sender().send(response(1, 1))
            requests[1].get_response_sender().send(response(2, 2), FINAL)
        """,
    )
    instance.execute([ask(), ask()])
    assert [seen(each) for each in answers.wait(3)] == [[1, 1], [2, 2], "UNSUPPORTED"]
    instance.close()
    assert len(answers.got) == 3


def test_a_model_may_take_its_list_of_requests_apart(tmp_path: pathlib.Path) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            answers = []
            while requests:
                request = requests.pop(0)
                if len(answers) == 1:
                    request.get_response_sender().send(response(7, 7))
                    answers.append(None)
                else:
                    answers.append(response(1, 1))
            return answers
        """,
        decoupled=False,
    )
    outcome = instance.execute([ask(), ask(), ask()])
    assert [response if response is None else seen(response) for response in outcome.responses] == [
        [1, 1],
        None,
        [1, 1],
    ]
    assert [seen(each) for each in answers.wait(1)] == [[7, 7]]


def test_an_iterative_model_says_which_requests_are_to_come_back(tmp_path: pathlib.Path) -> None:
    instance, _ = made(
        tmp_path,
        f"""
        def execute(self, requests):
            requests[1].set_release_flags({AGAIN})
            return [response(1, 1), None]
        """,
        decoupled=False,
        iterative=True,
    )
    execution = instance.execute([ask(), ask()])
    assert execution.rescheduled == [1]
    assert [response is None for response in execution.responses] == [False, True]


def test_a_decoupled_iterative_model_sends_and_asks_again(tmp_path: pathlib.Path) -> None:
    instance, _ = made(
        tmp_path,
        f"""
        def execute(self, requests):
            requests[0].set_release_flags({AGAIN})
            requests[0].get_response_sender().send(response(1, 1))
        """,
        iterative=True,
    )
    assert instance.execute([ask(), ask()]).rescheduled == [0]
