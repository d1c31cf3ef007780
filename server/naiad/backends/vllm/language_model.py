"""A language model as a TritonPythonModel: requests go into one engine of vllm as they come, and its tokens to their clients as they are made.

One engine per instance batches all requests by itself, step by step (continuous batching), and runs in processes of its own; here is its client, in
the event loop of the instance's coroutines, with one task per request and no thread. Names, inputs and outputs are those of Triton's
vllm backend (triton-inference-server/vllm_backend, src/model.py).
"""

import asyncio
import contextlib
import json
import os
import pathlib
import sys
import threading
import time
import uuid
from typing import Any

from naiad.backends.python.api import context
from naiad.backends.python.api.errors import TritonError, TritonModelException
from naiad.backends.python.api.logger import model_logger
from naiad.backends.python.api.response import (
    TRITONSERVER_RESPONSE_COMPLETE_FINAL,
    InferenceResponse,
)
from naiad.backends.vllm import engine_arguments
from naiad.backends.vllm.answers import Answer
from naiad.backends.vllm.engine import Engine
from naiad.backends.vllm.prompts import Asked, read_request
from naiad.backends.vllm.sampling import WrongRequestError
from naiad.backends.vllm.token_metrics import Finished, TokenMetrics
from naiad.errors import InferenceError
from naiad.log_text import Lines

_HEALTH_CHECK = "ENABLE_VLLM_HEALTH_CHECK"
_METRICS = "REPORT_CUSTOM_METRICS"

_LOOK_S = 0.1
"""How long a client may be gone before its request is aborted, where the engine makes no token for it meanwhile."""

_MOST_CAUSES = 4
"""Errors of a chain that are shown."""

_ENGINE_DIED = 70
"""The exit status of a worker whose engine died."""


class LanguageModel:
    """See the module's docstring. Its methods are those of any TritonPythonModel."""

    def initialize(self, args: "dict[str, str]") -> None:
        """Start the engine.

        Raises:
            TritonModelException: a file of the model is wrong, or vllm is not installed.
            Exception: whatever vllm raises when it cannot start.
        """
        self._name = args["model_name"]
        self._log = model_logger(self._name)
        config = json.loads(args["model_config"])
        parameters = {
            key: value["string_value"].lower() for key, value in config["parameters"].items()
        }
        self._checks_health = parameters.get(_HEALTH_CHECK) == "true"
        running = context.running()
        assert running is not None
        folder = pathlib.Path(running.directory)
        try:
            arguments = engine_arguments.read_arguments(self._name, folder)
            engine_arguments.check_devices(self._name, arguments, args["model_instance_kind"])
            self._engine = Engine(self._name, folder, arguments)
        except InferenceError as error:
            raise TritonModelException(error.message) from None
        self._adapters = arguments.adapters
        self._metrics: TokenMetrics | None = None
        if parameters.get(_METRICS) == "true" and not arguments.values.get("disable_log_stats"):
            self._metrics = self._make_metrics(args["model_version"])
        self._running: dict[str, tuple[Any, asyncio.Task[Any]]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._death = ""
        self._dying = threading.Lock()

    async def execute(self, requests: "list[Any]") -> None:
        """Answer requests: returns when all of them have their last response, while further ones are executed."""
        await asyncio.gather(*map(self._answer, requests))

    def is_ready(self) -> bool:
        """Whether the engine lives; a worker whose engine died while it had nothing to do ends, to be replaced."""
        if not self._death and not self._engine.is_dead():
            return True
        self._note_death(None)
        self._end_if_idle()
        return False

    def finalize(self) -> None:
        """Stop the engine."""
        self._engine.shutdown()
        if self._metrics is not None:
            self._metrics.close()

    def _make_metrics(self, version: str) -> "TokenMetrics | None":
        try:
            return TokenMetrics(model=self._name, version=version, longest=self._engine.longest())
        except TritonModelException as error:
            self._log.warning("its metrics are not reported: %s", error)
            return None

    async def _answer(self, request: Any) -> None:
        sender = request.get_response_sender()
        number = uuid.uuid4().hex
        task = asyncio.current_task()
        assert task is not None
        self._running[number] = (sender, task)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(self._abort_abandoned())
        try:
            failure = await self._failure_of(request, sender, number)
        finally:
            del self._running[number]
        if failure is not None:
            self._send(sender, InferenceResponse(error=failure), final=True)
        self._end_if_idle()

    async def _failure_of(self, request: Any, sender: Any, number: str) -> "TritonError | None":
        """Run a request; why it failed, unless it has its last response."""
        try:
            asked = read_request(request, self._adapters)
            params = self._engine.params(asked.sampling)
            if self._death:
                return TritonError(self._death, TritonError.UNAVAILABLE)
            if self._checks_health:
                await self._check_health()
            await self._generate(asked, params, sender, number)
        except asyncio.CancelledError:
            if sender.is_cancelled():
                return TritonError("Request was cancelled", TritonError.CANCELLED)
            return TritonError("the model is being unloaded", TritonError.UNAVAILABLE)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is this request's error
            return self._failure(error)
        return None

    def _failure(self, error: Exception) -> TritonError:
        if isinstance(error, WrongRequestError):
            return TritonError(str(error), TritonError.INVALID_ARG)
        if self._death or self._engine.is_dead(error):
            return TritonError(self._note_death(error), TritonError.UNAVAILABLE)
        if self._engine.is_refusal(error):
            return TritonError(str(error), TritonError.INVALID_ARG)
        self._log.error("a request failed: %s", _described(error), exc_info=error)
        return TritonError(f"Error generating stream: {_described(error)}")

    async def _generate(self, asked: Asked, params: Any, sender: Any, number: str) -> None:
        """Ask the engine, and send what it makes.

        Raises:
            Exception: whatever the engine raises.
        """
        answer = Answer(asked, params.n)
        begun = latest = time.monotonic()
        outputs = self._engine.generate(
            asked.prompt,
            params,
            number,
            adapter=asked.sampling.adapter,
            adapters=self._adapters,
        )
        finished = False
        async with contextlib.aclosing(outputs):
            async for output in outputs:
                if sender.is_cancelled():
                    raise asyncio.CancelledError
                now = time.monotonic()
                before = answer.tokens
                new = answer.add(output)
                if self._metrics is not None and new:
                    self._count(answer, before, new, now - (latest if before else begun))
                if new:
                    latest = now
                finished = output.finished
                if asked.stream or finished:
                    self._send(sender, answer.response(), final=finished)
                # Not left by `break` after the last one: closed there, vllm's generator would abort the request that it has finished.
        if not finished:
            raise RuntimeError("the engine ended the request without its last output")
        if self._metrics is not None:
            self._metrics.finished(
                Finished(time.monotonic() - begun, answer.prompt_tokens, answer.tokens, params.n)
            )

    async def _check_health(self) -> None:
        try:
            await self._engine.check_health()
        except Exception as error:
            self._note_death(error)
            raise

    def _count(self, answer: Answer, before: int, new: int, seconds: float) -> None:
        assert self._metrics is not None
        self._metrics.made(new)
        if before:
            self._metrics.further_tokens(new, seconds)
        else:
            self._metrics.first_token(seconds, answer.prompt_tokens)

    async def _abort_abandoned(self) -> None:
        """While requests run, abort those whose client has gone: an engine with much to do says nothing of them for a long time."""
        while self._running:
            for sender, task in tuple(self._running.values()):
                if sender.is_cancelled():
                    task.cancel()
            await asyncio.sleep(_LOOK_S)

    def _send(self, sender: Any, response: InferenceResponse, *, final: bool) -> None:
        sender.send(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL if final else 0)

    def _note_death(self, error: "BaseException | None") -> str:
        """The engine died: why, for all requests; logged once."""
        with self._dying:
            if not self._death:
                why = _described(error or self._engine.dead_error())
                self._death = f"the engine of model '{self._name}' died: {why}"
                self._log.error("%s", Lines(self._death))
        return self._death

    def _end_if_idle(self) -> None:
        """End a worker whose engine died, once no request waits for its error: the server starts another. A thread of the server stays as it is, not ready."""
        if not self._death or self._running or not context.in_worker:
            return
        self._log.error("the worker ends, because its engine died")
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(_ENGINE_DIED)


def _described(error: BaseException) -> str:
    """An error with what caused it, on one line."""
    texts: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(texts) < _MOST_CAUSES:
        text = str(seen)
        texts.append(f"{type(seen).__name__}: {text}" if text else type(seen).__name__)
        seen = seen.__cause__
    return ", because of ".join(texts)
