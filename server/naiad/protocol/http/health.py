"""Whether the server and its models are live and ready, and KServe's list of models: probes need no web framework."""

import asyncio
import collections.abc
import functools
import logging
import re

from naiad.core.inference import Cancellable
from naiad.core.request import LATEST
from naiad.engine.api import Engine
from naiad.errors import ErrorCode, InferenceError, invalid
from naiad.protocol.http.message import HttpReply, HttpRequest, OnReply
from naiad.protocol.http.replies import (
    NOT_OK,
    OK,
    error_reply,
    json_reply,
    refusal,
    server_fault,
)

log = logging.getLogger(__name__)


class HealthRoutes:
    """Live and ready, of the server and of models (rows 2.1, 2.2, 2.7, 2.8): probes need no web framework.

    Args:
        names_models: whether an error says which models there are and what state they are in; not where the calls that tell that need a token or a header.
    """

    def __init__(self, engine: Engine, *, names_models: bool = True) -> None:
        self._engine = engine
        self._names_models = names_models
        # The loop keeps only weak references to tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    def live(self, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
        """GET /v2/health/live: 200 while the process serves, 503 at the end of a shutdown (row 2.1)."""
        try:
            reply = OK if self._engine.server_live() else NOT_OK
        except InferenceError as error:
            reply = error_reply(error)
        on_reply(reply)
        return None

    def ready(self, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
        """GET /v2/health/ready: 200, or 400 with an empty body (row 2.2)."""
        self._begin(self._server_ready, on_reply)
        return None

    def model_ready(
        self, model: str, version: int, request: HttpRequest, on_reply: OnReply
    ) -> Cancellable | None:
        """GET /v2/models/MODEL[/versions/N]/ready: 200 with an empty body, or why not (rows 2.7, 2.8)."""
        self._begin(functools.partial(self._model_ready, model, version), on_reply)
        return None

    def v1_model_ready(
        self, model: str, version: int, request: HttpRequest, on_reply: OnReply
    ) -> Cancellable | None:
        """GET /v1/models/MODEL[/versions/N]: 200 and `{"name": …, "ready": true}`; 404 for an unknown model, 503 for one that is not ready, as KServe's server."""
        self._begin(functools.partial(self._v1_model_ready, model, version), on_reply)
        return None

    def v1_models(self, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
        """GET /v1/models: `{"models": [names of the models that are ready]}`."""
        self._begin(self._v1_models, on_reply)
        return None

    async def _v1_model_ready(self, model: str, version: int) -> HttpReply:
        try:
            await self._model_ready(model, version)
        except InferenceError as error:
            status = 404 if error.code is ErrorCode.NOT_FOUND else 503
            return refusal(status, error.message)
        return json_reply({"name": model, "ready": True})

    async def _v1_models(self) -> HttpReply:
        entries = await self._engine.index(ready_only=True)
        return json_reply({"models": list(dict.fromkeys(entry.name for entry in entries))})

    async def _server_ready(self) -> HttpReply:
        return OK if await self._engine.server_ready() else NOT_OK

    async def _model_ready(self, model: str, version: int) -> HttpReply:
        try:
            if await self._engine.model_ready(model, version):
                return OK
        except InferenceError as error:
            if self._names_models:
                raise
            raise InferenceError(error.code, _without_details(error.message, model)) from None
        of = "" if version == LATEST else f" version {version}"
        raise invalid(
            f"Model version not ready: an instance of '{model}'{of} responds with an error; ask again, or see the server's log"
        )

    def _begin(
        self,
        check: collections.abc.Callable[[], collections.abc.Coroutine[None, None, HttpReply]],
        on_reply: OnReply,
    ) -> None:
        task = asyncio.get_running_loop().create_task(_respond(check, on_reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _without_details(message: str, model: str) -> str:
    """An error message up to what it says beyond the request: Triton's words."""
    name = f"'{model}'"
    before, _, after = message.partition(name)
    return before + name + re.split("[;:]", after, maxsplit=1)[0]


async def _respond(
    check: collections.abc.Callable[[], collections.abc.Coroutine[None, None, HttpReply]],
    on_reply: OnReply,
) -> None:
    try:
        reply = await check()
    except InferenceError as error:
        reply = error_reply(error)
    except Exception:  # a probe gets a response whatever happens
        log.exception("a health check failed")
        reply = server_fault()
    on_reply(reply)
