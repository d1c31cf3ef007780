"""Live and ready, of the server and of models (rows 2.1, 2.2, 2.7, 2.8), on the fast lane: probes need no web framework."""

import asyncio
import collections.abc
import functools
import logging

from naiad.core.inference import Cancellable
from naiad.core.request import LATEST
from naiad.engine.api import Engine
from naiad.errors import InferenceError, invalid
from naiad.protocol.http.message import HttpReply, HttpRequest, OnReply
from naiad.protocol.http.replies import NOT_OK, OK, error_reply, server_fault

log = logging.getLogger(__name__)


class HealthRoutes:
    """The handlers of health paths.

    Args:
        engine: knows the state of the server and of its models.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
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

    async def _server_ready(self) -> HttpReply:
        return OK if await self._engine.server_ready() else NOT_OK

    async def _model_ready(self, model: str, version: int) -> HttpReply:
        if await self._engine.model_ready(model, version):
            return OK
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
