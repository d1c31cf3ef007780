"""Replies without tensors."""

import orjson
import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.http import replies

JSON = ((b"Content-Type", b"application/json"),)


def test_errors_are_json_with_the_single_key_error() -> None:
    reply = replies.refusal(400, 'say "please"')
    assert (reply.status, reply.headers) == (400, JSON)
    assert reply.body == (b'{"error":"say \\"please\\""}',)


def test_an_error_that_quotes_half_a_character_can_still_be_sent() -> None:
    assert replies.refusal(400, "input '\ud800'").body == (b'{"error":"input \'?\'"}',)


@pytest.mark.parametrize(
    ("code", "status"), [(ErrorCode.INVALID_ARG, 400), (ErrorCode.NOT_FOUND, 404)]
)
def test_a_failure_has_the_status_of_its_code(code: ErrorCode, status: int) -> None:
    reply = replies.error_reply(InferenceError(code, "no"), extra=((b"A", b"b"),), request_id="x")
    assert (reply.status, reply.headers) == (status, (*JSON, (b"A", b"b")))
    assert (reply.body, reply.request_id) == ((b'{"error":"no"}',), "x")


def test_a_bug_of_ours_is_a_500_that_does_not_blame_the_request() -> None:
    reply = replies.server_fault()
    assert reply.status == 500
    assert b"not the request's fault" in bytes(reply.body[0])


def test_an_overlong_message_is_cut() -> None:
    (body,) = replies.refusal(400, "é" * 1_000_000).body
    message = orjson.loads(body)["error"]
    assert (len(message), message[-2:]) == (65_538, " …")
    (body,) = replies.refusal(400, "é" * 65_536).body
    assert orjson.loads(body)["error"] == "é" * 65_536
