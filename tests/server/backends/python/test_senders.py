"""Response senders of decoupled and of ordinary models (rows 15.9, 15.16, 15.17, 15.29)."""

import pathlib
import threading
import time

import pytest

from naiad.core.flow import RESPONSE_BYTES, Flow
from naiad.errors import InferenceError
from tests.server.backends.python.models import ask
from tests.server.backends.python.sending import GIVE_UP_S, made, seen


def test_a_decoupled_model_answers_as_often_as_it_likes(tmp_path: pathlib.Path) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            for request in requests:
                sender = request.get_response_sender()
                assert sender is request.get_response_sender()
                sender.send(response(1, 1))
                sender.send(response(2, 2))
                sender.send(flags=FINAL)
        """,
    )
    batch = [ask(request_id="a"), ask(request_id="b")]
    assert instance.execute(batch).responses == [None, None]
    got = answers.wait(6)
    assert [(each.id, seen(each), each.final) for each in got] == [
        (name, what, what == "end") for name in "ab" for what in ([1, 1], [2, 2], "end")
    ]
    assert [each.inference for each in answers.got] == [batch[0]] * 3 + [batch[1]] * 3


def test_the_last_response_may_carry_the_final_flag_and_a_sender_works_in_any_thread(
    tmp_path: pathlib.Path,
) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            senders = [request.get_response_sender() for request in requests]
            threading.Thread(target=self.later, args=(senders,)).start()

        def later(self, senders):
            for sender in senders:
                sender.send(response(7, 7), FINAL)
        """,
    )
    assert instance.execute([ask()]).responses == [None]
    (only,) = answers.wait(1)
    assert (seen(only), only.final, only.empty) == ([7, 7], True, False)


def test_a_request_may_be_kept_and_asked_for_its_sender_later(tmp_path: pathlib.Path) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            threading.Thread(target=self.later, args=(list(requests),)).start()

        def later(self, requests):
            requests[0].get_response_sender().send(flags=FINAL)
        """,
    )
    instance.execute([ask()])
    assert seen(answers.wait(1)[0]) == "end"


def test_what_a_model_sent_stays_as_it_was_when_its_buffer_changes(tmp_path: pathlib.Path) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            tensor = pb_utils.Tensor("OUT", np.zeros((1, 2), np.float32))
            sender = requests[0].get_response_sender()
            for number in range(3):
                tensor.as_numpy()[:] = number
                sender.send(pb_utils.InferenceResponse([tensor]))
            sender.send(flags=FINAL)
        """,
    )
    instance.execute([ask()])
    assert [seen(each) for each in answers.wait(4)] == [[0, 0], [1, 1], [2, 2], "end"]


def test_an_error_is_a_response_like_others(tmp_path: pathlib.Path) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            sender = requests[0].get_response_sender()
            error = pb_utils.TritonError("no", pb_utils.TritonError.NOT_FOUND)
            sender.send(pb_utils.InferenceResponse(error=error))
            sender.send(response(1, 2))
            sender.send(flags=FINAL)
        """,
    )
    instance.execute([ask()])
    got = answers.wait(3)
    assert [(seen(each), each.final) for each in got] == [
        ("NOT_FOUND", False),
        ([1, 2], False),
        ("end", True),
    ]


WRONG = {
    "sender.send(flags=2)": "Unsupported flag provided",
    "sender.send()": "Inference Response object must be provided when the response flags is set to zero",
    "sender.send('x')": "takes a pb_utils.InferenceResponse, not a str",
    "sender.send(flags=FINAL); sender.send(response(1, 1))": "Response sender has been closed",
    "sender.send(response(1, 1), FINAL); sender.send(flags=FINAL)": "Response sender has been closed",
    "pb_utils.InferenceRequest(model_name='m', inputs=[], requested_output_names=[]).get_response_sender()": "answers requests that execute was given",
}
WRONG_OF_ORDINARY = {
    "sender.send(flags=FINAL)": "Non-decoupled model cannot send complete final before sending a response",
    "sender.send(response(1, 1)); sender.send(response(1, 1))": "Non-decoupled model cannot send more than one response",
    "sender.send(response(1, 1)); sender.send(flags=FINAL); sender.send(flags=FINAL)": "Response sender has been closed",
}


@pytest.mark.parametrize(
    ("kind", "line", "fragment"),
    [("decoupled", *item) for item in WRONG.items()]
    + [("ordinary", *item) for item in WRONG_OF_ORDINARY.items()],
)
def test_what_cannot_be_sent_raises_in_the_model_in_tritons_words(
    tmp_path: pathlib.Path, kind: str, line: str, fragment: str
) -> None:
    instance, _ = made(
        tmp_path,
        f"""
        def execute(self, requests):
            sender = requests[0].get_response_sender()
            {line}
        """,
        decoupled=kind == "decoupled",
    )
    with pytest.raises(InferenceError, match=fragment):
        instance.execute([ask()])


def test_after_a_failed_batch_its_senders_are_closed_and_say_nothing_more(
    tmp_path: pathlib.Path,
) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            self.sender = requests[0].get_response_sender()
            raise ValueError("halfway")

        def is_ready(self):
            self.sender.send(flags=FINAL)
        """,
    )
    with pytest.raises(InferenceError, match="halfway"):
        instance.execute([ask()])
    assert not instance.ready()  # the send in it raised
    assert not answers.got


def test_a_decoupled_model_must_return_none(tmp_path: pathlib.Path) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            return [response(1, 1) for request in requests]
        """,
    )
    with pytest.raises(InferenceError, match="the execute function must return None"):
        instance.execute([ask()])
    assert not answers.got


def test_an_ordinary_model_may_answer_some_requests_through_senders(tmp_path: pathlib.Path) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            requests[1].get_response_sender().send(response(5, 5))
            return [response(1, 1), None]
        """,
        decoupled=False,
    )
    first, second = instance.execute([ask(), ask(request_id="b")]).responses
    assert first is not None
    assert (seen(first), second) == ([1, 1], None)
    (sent,) = answers.wait(1)
    assert (sent.id, seen(sent), sent.final) == ("b", [5, 5], True)


def test_an_ordinary_model_may_answer_all_requests_through_senders_later(
    tmp_path: pathlib.Path,
) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            senders = [request.get_response_sender() for request in requests]
            threading.Thread(target=self.later, args=(senders,)).start()

        def later(self, senders):
            for sender in senders:
                sender.send(response(3, 3), FINAL)
        """,
        decoupled=False,
    )
    assert instance.execute([ask(), ask()]).responses == [None, None]
    assert [seen(each) for each in answers.wait(2)] == [[3, 3], [3, 3]]


def test_a_response_beside_one_that_was_sent_fails_the_batch(tmp_path: pathlib.Path) -> None:
    instance, _ = made(
        tmp_path,
        """
        def execute(self, requests):
            requests[0].get_response_sender().send(response(5, 5))
            return [response(1, 1)]
        """,
        decoupled=False,
    )
    with pytest.raises(InferenceError, match="cannot send more than one response"):
        instance.execute([ask()])


def test_none_for_a_request_without_a_sender_is_not_a_response(tmp_path: pathlib.Path) -> None:
    instance, _ = made(
        tmp_path,
        """
        def execute(self, requests):
            requests[0].get_response_sender().send(response(5, 5))
            return [None, None]
        """,
        decoupled=False,
    )
    with pytest.raises(InferenceError, match="Expected an 'InferenceResponse' object"):
        instance.execute([ask(), ask()])


def test_request_and_sender_tell_that_the_client_left(tmp_path: pathlib.Path) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            sender = requests[0].get_response_sender()
            sender.send(response(requests[0].is_cancelled(), sender.is_cancelled()), FINAL)
        """,
    )
    call = ask()
    instance.execute([call])
    call.cancel()
    instance.execute([call])
    assert [seen(each) for each in answers.wait(2)] == [[0, 0], [1, 1]]


def test_a_sender_waits_for_a_client_that_reads_slowly_and_not_for_one_that_left(
    tmp_path: pathlib.Path,
) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            for request in requests:
                sender = request.get_response_sender()
                for _ in range(100):
                    sender.send(response(1))
                sender.send(flags=FINAL)
        """,
    )
    asked = ask()
    asked.flow = Flow(limit=10 * RESPONSE_BYTES)
    running = threading.Thread(target=instance.execute, args=([asked],), daemon=True)
    running.start()
    sent = len(answers.wait(10))
    running.join(0.1)
    assert sent <= len(answers.got) < 15
    weight = answers.got[0].weight
    assert weight == RESPONSE_BYTES + 4
    taken = len(answers.got)
    asked.flow.arrived(weight * taken)
    assert len(answers.wait(20)) < 30
    asked.cancel()
    deadline = time.monotonic() + GIVE_UP_S
    while running.is_alive() and time.monotonic() < deadline:
        # The loop drops what comes for a client that has left.
        came = len(answers.got)
        asked.flow.arrived(weight * (came - taken))
        taken = came
        running.join(0.01)
    assert len(answers.got) == 101
    assert answers.got[-1].response.empty


def test_the_weight_of_an_answer_counts_the_strings_themselves(tmp_path: pathlib.Path) -> None:
    instance, answers = made(
        tmp_path,
        """
        def execute(self, requests):
            text = np.array([b"x" * 100_000], dtype=object)
            answer = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", text)])
            requests[0].get_response_sender().send(answer)
            requests[0].get_response_sender().send(flags=FINAL)
        """,
    )
    asked = ask()
    asked.flow = Flow()
    instance.execute([asked])
    assert answers.wait(2)
    assert answers.got[0].weight > 100_000
