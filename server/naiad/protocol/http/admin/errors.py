"""Errors of the control plane as responses: the router's own 404 and 405, the engine's failures, bugs. JSON always (rows 1.2, 1.4)."""

import collections.abc
import difflib
import functools
import heapq
import re
from http import HTTPStatus

import fastapi
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from naiad.errors import InferenceError
from naiad.protocol.http.asgi.middleware import RefusedError
from naiad.protocol.http.asgi.services import LateServices
from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.paths import API, BASE_PATH, find, is_v1
from naiad.protocol.http.replies import refusal, server_fault, wrong_method
from naiad.protocol.status import http_status

_MODEL_PATH = re.compile(r"/v2/models/([^/]+)(/versions/[^/]+)?(?:/(.*))?", re.DOTALL)
_V1_VERB = re.compile(r"(/v1/models/[^/:]+(?:/versions/[0-9]+)?):(\w*)")
_PREFIXED = re.compile(r"((?:/[A-Za-z0-9._~-]+)+)(/v[12](?:/.*)?)")
"""A path of the API with something before it: a gateway did not remove its prefix."""
_VERSION = re.compile(r"/versions/[0-9]+")
_PATHS = tuple(path.template for path in API if "{" not in path.template)
_ACTIONS = tuple(
    path.segments[-1] for path in API if path.segments[:-1] == ("", "v2", "models", "{model}")
)
_MAX_MODELS = 10
_MAX_LENGTH = 200
"""Characters of a path that are repeated; for a longer path no similar one is looked for."""
_MAX_COMPARED = 16
"""Names that are compared letter by letter, which takes 0.1 ms each, on the event loop."""


def add_error_replies(app: fastapi.FastAPI, services: LateServices) -> None:
    """Turn exceptions of an application into responses; the engine of the services knows the models, for the message of an unknown path."""
    app.add_exception_handler(HTTPException, functools.partial(_refused, services))
    app.add_exception_handler(InferenceError, _failed)
    app.add_exception_handler(RefusedError, _refused_body)
    app.add_exception_handler(Exception, _broken)


def response_of(reply: HttpReply, body: bytes | None = None) -> Response:
    """A response as the framework takes it; `body` in place of its own."""
    whole = b"".join(reply.body) if body is None else body
    response = Response(whole, status_code=reply.status)
    response.raw_headers.extend((name.lower(), value) for name, value in reply.headers)
    return response


async def _refused(services: LateServices, request: fastapi.Request, error: Exception) -> Response:
    """The router's own errors: 404 and 405, with a JSON body (row 1.4); OPTIONS gets the methods of the path."""
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get("Allow")
    if error.status_code == HTTPStatus.NOT_FOUND:
        base = request.scope.get(BASE_PATH, "")
        ready = {entry.name for entry in await services.now.engine.index(ready_only=True)}
        return response_of(refusal(404, not_found(request.scope["path"], ready, base=base)))
    if allowed is None:
        return response_of(refusal(error.status_code, error.detail))
    verbs = set(allowed.replace(" ", "").split(",")) | {"OPTIONS"}
    if "GET" in verbs:
        verbs.add("HEAD")
    allow = ", ".join(sorted(verbs))
    if request.method == "OPTIONS":
        return Response(status_code=204, headers={"Allow": allow})
    return response_of(wrong_method(allow.encode()))


async def _failed(request: fastapi.Request, error: Exception) -> Response:
    assert isinstance(error, InferenceError)
    # Without Retry-After: a change that is refused, e.g. a load without explicit control, is refused again.
    return response_of(refusal(http_status(error.code), error.message))


async def _refused_body(request: fastapi.Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return response_of(error.reply)


async def _broken(request: fastapi.Request, error: Exception) -> Response:
    """A bug of ours; the framework raises it again after the response, so that the bridge logs it."""
    return response_of(server_fault())


def not_found(path: str, models: collections.abc.Collection[str], *, base: str = "") -> str:
    """The error message of a path that does not exist: the path that was probably meant, the models that are loaded, and where all paths stand.

    It begins with Triton's "Not Found". Models are named only below `/v2`, where a restriction requires its header first. Pure.

    Args:
        path: without the base path.
        models: the names of the loaded models.
        base: the base path with which the request came.
    """
    below = path == "/v2" or path.startswith("/v2/")
    known = sorted(models) if below else []
    parts = [f"Not Found: this server has no path {(base + path)[:_MAX_LENGTH]}"]
    if (declared := find(path)) and is_v1(declared[0]):
        parts.append("KServe's v1 is turned off here (--allow-kserve-v1=false)")
    elif path.rstrip("/") == "/v2/models":
        parts.append(
            f"POST {base}/v2/repository/index lists the models, GET {base}/v2/models/MODEL describes one"
        )
    elif len(path) <= _MAX_LENGTH and (prefixed := _PREFIXED.fullmatch(path)) and find(prefixed[2]):
        parts.append(
            f"did you mean {prefixed[2]}? --http-base-path={prefixed[1]} serves it here, too"
        )
    elif len(path) <= _MAX_LENGTH and (meant := _meant(path, known)):
        parts.append(f"did you mean {base}{meant}?")
    if known:
        more = f" and {len(known) - _MAX_MODELS} more" if len(known) > _MAX_MODELS else ""
        parts.append(f"models: {', '.join(known[:_MAX_MODELS])}{more}")
    parts.append(f"GET {base}/docs shows every path")
    return "; ".join(parts)


def _meant(path: str, models: list[str]) -> str:
    """The path that a client probably meant; "" when none is similar."""
    if path != "/" and path.endswith("/"):
        path = path.rstrip("/")
        if path in _PATHS:
            return path
    if verb := _V1_VERB.fullmatch(path):
        return f"{verb[1]}:{_closest(verb[2], ('predict', 'explain')) or 'predict'}"
    match = _MODEL_PATH.fullmatch(path)
    if match is None:
        return _closest(path, _PATHS)
    model, version, action = match.groups("")
    name = model if model in models else _closest(model, models)
    if version and not _VERSION.fullmatch(version):
        version = "/versions/1"
    if action and action not in _ACTIONS:
        action = _closest(action, _ACTIONS)
        if not action:
            return ""
    meant = f"/v2/models/{name}{version}" + (f"/{action}" if action else "")
    return meant if name else ""


def _closest(word: str, words: collections.abc.Sequence[str]) -> str:
    if len(words) > _MAX_COMPARED:
        words = heapq.nlargest(_MAX_COMPARED, words, key=functools.partial(_same_ends, word))
    return next(iter(difflib.get_close_matches(word, words, n=1)), "")


def _same_ends(word: str, other: str) -> int:
    """How many characters two names share at the beginning and at the end."""
    begin = _same_beginning(word, other)
    return begin + _same_beginning(word[begin:][::-1], other[begin:][::-1])


def _same_beginning(word: str, other: str) -> int:
    for at, (one, two) in enumerate(zip(word, other, strict=False)):
        if one != two:
            return at
    return min(len(word), len(other))
