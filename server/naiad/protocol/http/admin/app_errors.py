"""Errors of the control plane as responses: the router's own 404 and 405, the engine's failures, bugs. JSON always (rows 1.2, 1.4)."""

import functools
from http import HTTPStatus

import fastapi
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from naiad.engine.api import Engine
from naiad.errors import InferenceError
from naiad.protocol.http.admin.not_found import not_found
from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.replies import refusal, server_fault
from naiad.protocol.status import http_status


def add_error_replies(app: fastapi.FastAPI, engine: Engine) -> None:
    """Turn exceptions of an application into responses.

    Args:
        app: the application.
        engine: knows the models, for the message of an unknown path.
    """
    app.add_exception_handler(HTTPException, functools.partial(_refused, engine))
    app.add_exception_handler(InferenceError, _failed)
    app.add_exception_handler(Exception, _broken)


def response_of(reply: HttpReply, body: bytes | None = None) -> Response:
    """A response as the framework takes it; `body` in place of its own."""
    whole = b"".join(reply.body) if body is None else body
    response = Response(whole, status_code=reply.status)
    response.raw_headers.extend((name.lower(), value) for name, value in reply.headers)
    return response


async def _refused(engine: Engine, request: fastapi.Request, error: Exception) -> Response:
    """The router's own errors: 404 and 405, with a JSON body (row 1.4); OPTIONS gets the methods of the path."""
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get("Allow")
    if error.status_code == HTTPStatus.NOT_FOUND:
        ready = {entry.name for entry in await engine.index(ready_only=True)}
        return response_of(refusal(404, not_found(request.scope["path"], ready)))
    if allowed is None:
        return response_of(refusal(error.status_code, error.detail))
    verbs = set(allowed.replace(" ", "").split(",")) | {"OPTIONS"}
    if "GET" in verbs:
        verbs.add("HEAD")
    allow = ", ".join(sorted(verbs))
    if request.method == "OPTIONS":
        return Response(status_code=204, headers={"Allow": allow})
    return response_of(
        refusal(error.status_code, error.detail, extra=((b"Allow", allow.encode()),))
    )


async def _failed(request: fastapi.Request, error: Exception) -> Response:
    assert isinstance(error, InferenceError)
    # Without Retry-After: a change that is refused, e.g. a load without explicit control, is refused again.
    return response_of(refusal(http_status(error.code), error.message))


async def _broken(request: fastapi.Request, error: Exception) -> Response:
    """A bug of ours; the framework raises it again after the response, so that the bridge logs it."""
    return response_of(server_fault())
