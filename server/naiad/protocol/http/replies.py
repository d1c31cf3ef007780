"""Whole replies that do not carry tensors: JSON, errors, empty ones. Pure.

Every error of this server is a JSON object with the single key "error" (row 1.2), whichever part of it fails.
"""

import collections.abc
import functools
import typing

import orjson

from naiad.errors import ErrorCode, InferenceError, internal
from naiad.protocol.http.message import HttpReply, OnReply
from naiad.protocol.status import RETRY_AFTER_S, http_status

CONTENT_TYPE = b"Content-Type"
JSON_TYPE = (CONTENT_TYPE, b"application/json")
JSON_HEADERS = (JSON_TYPE,)
BINARY_TYPE = (CONTENT_TYPE, b"application/octet-stream")

_MAX_LENGTH = 1 << 16
"""Characters of an error. A message may quote a name that a client sent: 50 MB of it, which came as 50 KB of gzip."""

ExtraHeaders = tuple[tuple[bytes, bytes], ...]

RETRY_AFTER = (b"Retry-After", b"%d" % RETRY_AFTER_S)

OK = HttpReply(200, (), ())
"""200 with an empty body: the response to a health check (rows 2.1, 2.2)."""

NOT_OK = HttpReply(400, (), ())
"""400 with an empty body: the server is not ready (row 2.2)."""


def json_reply(value: typing.Any, *, status: int = 200) -> HttpReply:
    """A value as a JSON reply. `value` holds what orjson writes: dict, list, str, int, float, bool, None."""
    return HttpReply(status, JSON_HEADERS, (orjson.dumps(value),))


def error_body(message: str) -> bytes:
    """An error's JSON (row 1.2); an overlong message is cut."""
    if len(message) > _MAX_LENGTH:
        message = message[:_MAX_LENGTH] + " …"
    # A message may quote what a client sent, and that may hold lone surrogates, which JSON cannot.
    text = message.encode("utf-8", "replace").decode()
    return orjson.dumps({"error": text})


def refusal(
    status: int, message: str, *, extra: ExtraHeaders = (), request_id: str = ""
) -> HttpReply:
    """An error of the HTTP front end itself (rows 1.2, 1.4); `request_id` is for the access log."""
    return HttpReply(status, JSON_HEADERS + extra, (error_body(message),), request_id)


def error_reply(
    error: InferenceError, *, extra: ExtraHeaders = (), request_id: str = ""
) -> HttpReply:
    """A failure with the status of its code (row 1.1); UNAVAILABLE says when to retry."""
    if error.code is ErrorCode.UNAVAILABLE:
        extra = (*extra, RETRY_AFTER)
    return refusal(http_status(error.code), error.message, extra=extra, request_id=request_id)


def error_callback(on_reply: OnReply) -> collections.abc.Callable[[InferenceError], None]:
    """A callback that responds with a failure."""
    return lambda error: on_reply(error_reply(error))


@functools.cache  # every path of the fast lane keeps one, and orjson's bytes take 4 KB
def wrong_method(allowed: bytes) -> HttpReply:
    """405 with the Allow header that HTTP requires (row 1.4); `allowed` is its value."""
    verbs = [verb for verb in ("GET", "POST") if verb.encode() in allowed]
    message = f"Method Not Allowed: send a {' or '.join(verbs)}"
    return refusal(405, message, extra=((b"Allow", allowed),))


@functools.cache
def options_reply(allowed: bytes) -> HttpReply:
    """The response to OPTIONS on a path that exists: the methods it takes."""
    return HttpReply(204, ((b"Allow", allowed),), ())


SERVER_FAULT = internal(
    "the server failed to handle this request: it is not the request's fault. The server's log says why; please report it"
)


def server_fault() -> HttpReply:
    """The response after a bug of the server, which the caller has logged."""
    return error_reply(SERVER_FAULT)
