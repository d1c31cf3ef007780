"""`AsyncServer`: the server on the event loop of the program that has it.

A request of a task costs no hand-over between threads, and cancelling the task cancels the request. `naiad.Server` runs one of these on a loop of its own.
"""

import asyncio
import collections.abc
import contextlib
import json
import pathlib
import types
import typing
from typing import Any, Self

import msgspec

from naiad.config.config_json import to_json
from naiad.core.clock import SystemClock
from naiad.core.request import LATEST, InferRequest
from naiad.embed.arguments import check, checked
from naiad.embed.async_calls import AsyncCall, AsyncStream
from naiad.embed.bound_functions import BoundFunctions
from naiad.embed.calls import STOPPED, Calls
from naiad.embed.functions import FunctionModel
from naiad.embed.requests import (
    Datatypes,
    Inputs,
    RequestOptions,
    Result,
    all_arrays,
    make_request,
)
from naiad.embed.run import Run
from naiad.engine.api import Engine
from naiad.errors import InferenceError, unavailable
from naiad.metrics.exposition import pieces
from naiad.options.keywords import LOGGING, Values, keyword_options, repositories
from naiad.protocol.http.admin import models
from naiad.repository.requests.overrides import CONFIG, FILE, Value
from naiad.serve.embedded import Embedded, embedded

Json = dict[str, Any]

LOCALHOST = "127.0.0.1"

_OF_PARENTS: list[object] = []

_NO_FILES: collections.abc.Mapping[str, bytes] = types.MappingProxyType({})


_REFUSED = {
    **LOGGING,
    "models": "there is no such option: functions of the program are given as functions=[…], folders of models as model_repository, and load_model says which of their models are loaded",
}


class AsyncServer:
    """Serves a model repository to the program that it is a part of, on the event loop of `start`; use it in an `async with`.

    All methods are called on that loop, from any number of tasks. It may be started again after it has stopped. A program may have several.

    Args:
        model_repository: a folder or an address of an object store, or several; none for a server of models that are loaded from their files.
        functions: functions of the program that it serves as models, declared by `naiad.model`; `bind` adds others.
        options: those of `naiad serve`, with underscores; a list for one that may be given several times. Ports are closed by default: `allow_http=True`,
            `allow_grpc=True` and `allow_metrics=True` open them at the start.

    Raises:
        ValueError: an option is unknown, has a wrong value, or is one of the log, which the program configures.
    """

    def __init__(
        self,
        model_repository: str | pathlib.Path | collections.abc.Sequence[str | pathlib.Path] = (),
        *,
        functions: collections.abc.Iterable[FunctionModel] = (),
        **options: Values,
    ) -> None:
        self._options = keyword_options(
            repositories(model_repository), options, refused=_REFUSED, needs_repository=False
        )
        self._functions = BoundFunctions(functions)
        self._run: Run | None = None
        self._running: Embedded | None = None
        self._calls: Calls | None = None

    async def start(self) -> Self:
        """Load the models and serve. A cancel ends what has begun of it, and is raised then.

        Raises:
            StartError: a model does not load (`exit_on_error=False` serves the others), an option cannot be used, or it was stopped meanwhile.
            RuntimeError: it runs already, or its stop has not ended.
        """
        if self._run is not None:
            raise RuntimeError("the server runs already")
        self._run = run = Run(
            self._serving(), begun=self._on_begin, lost=self._on_loss, ended=self._on_end
        )
        await run.begin()
        return self

    async def stop(self) -> None:
        """Refuse new requests, finish those in progress and unload the models, within `exit_timeout_secs`. Idempotent.

        A cancel ends the stop as if this time were over, and is raised then.
        """
        if self._run is not None:
            await self._run.stop()

    @contextlib.asynccontextmanager
    async def _serving(self) -> collections.abc.AsyncIterator[Embedded]:
        with self._functions.written() as folder:
            options = msgspec.structs.replace(
                self._options, model_repository=(*self._options.model_repository, *folder)
            )
            async with embedded(
                options,
                clock=SystemClock(),
                also=self._functions.names(),
                loads=bool(self._options.model_repository or self._functions.names()),
            ) as running:
                yield running

    def _on_begin(self, running: Embedded) -> None:
        self._running, self._calls = running, Calls(running.assembly.engine)
        running.on_late.append(self._calls.close)

    def _on_loss(self) -> None:
        if self._calls is not None:
            self._calls.close()

    def _on_end(self) -> None:
        self._on_loss()
        self._run = self._running = self._calls = None

    def forget(self) -> None:
        """This process was forked: what runs is the parent's, and stays as it is. This one may start."""
        # Kept: what they do when they are dropped would be done to the parent's files, descriptors and loop.
        _OF_PARENTS.append((self._run, self._running, self._calls))
        self._run = self._running = self._calls = None
        self._functions.forget()

    async def bind(self, function: FunctionModel) -> None:
        """Serve another function, declared by `naiad.model`; while the server runs, it is loaded at once.

        Raises:
            ValueError: there is a function of this name.
            InferenceError: INVALID_ARG: it cannot be loaded.
        """
        self.add(function)
        if self._running is None:
            return
        try:
            await self.running().assembly.repository.load(function.name)
        except BaseException:
            self._functions.remove(function.name)
            raise

    def add(self, function: FunctionModel) -> None:
        """Have the next start serve a function, too. Raises ValueError as `bind`."""
        self._functions.add(function)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        await self.stop()

    async def infer(
        self,
        model: str,
        inputs: Inputs,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the name of it in every client
        **options: typing.Unpack[RequestOptions],
    ) -> Result:
        """Send a request that has one response.

        Args:
            model: its name.
            inputs: arrays, or nested lists, by name, in the shapes of the model's metadata: with the batch dimension where the model has one.
                Arrays are not copied: do not change them before the response has come.
            timeout: seconds to wait; then the request is cancelled.
            options: see `RequestOptions`.

        Returns:
            The outputs by name.

        Raises:
            InferenceError: the request does not fit the model (INVALID_ARG), there is no such model (NOT_FOUND), it cannot serve now (UNAVAILABLE), or it failed.
            TimeoutError: there is no response in time.
            TypeError: an option does not exist.
        """
        calls = self.calls()
        seconds = check(model, inputs, timeout)
        request = self._request(model, inputs, options)
        call = AsyncCall()
        return await call.run(calls, request, seconds)

    def stream(
        self,
        model: str,
        inputs: Inputs,
        *,
        timeout: float | None = None,
        **options: typing.Unpack[RequestOptions],
    ) -> AsyncStream:
        """Send a request that has any number of responses: to a decoupled model; from any other one comes one response.

        The model pauses while 64 responses wait. Leave the loop over it by `break` inside an `async with`, or call `aclose`, to cancel the request.

        Args:
            model: as in `infer`, as are `inputs` and `options`.
            inputs: see above.
            timeout: seconds to wait for each response; then the request is cancelled.
            options: see above.

        Returns:
            An asynchronous iterator over the outputs of each response, which raises what `infer` raises.
        """
        calls = self.calls()
        seconds = check(model, inputs, timeout)
        request = self._request(model, inputs, options)
        return AsyncStream(calls, request, seconds)

    def live(self) -> bool:
        """Whether it runs (row 2.1)."""
        return self._running is not None

    async def ready(self) -> bool:
        """Whether it runs, and its models are ready (rows 2.2, 2.4)."""
        return self._running is not None and await self._running.assembly.engine.server_ready()

    async def model_ready(self, model: str, version: int = LATEST) -> bool:
        """Whether a model is ready, by default its newest version; an unknown one is not (row 2.7)."""
        try:
            return await self.engine().model_ready(model, version)
        except InferenceError:
            return False

    def metadata(self) -> Json:
        """Name, version and extensions of the server, as `GET /v2` shows them (row 2.13)."""
        return models.server_metadata(self.engine().server_metadata())

    def model_metadata(self, model: str, version: int = LATEST) -> Json:
        """Versions, platform, inputs and outputs of a model, as `GET /v2/models/MODEL` shows them (row 2.15); a dimension of -1 may have any size.

        Raises:
            InferenceError: NOT_FOUND: there is no such model; UNAVAILABLE: it is not ready.
        """
        return models.model_metadata(self.engine().model_metadata(model, version))

    def model_config(self, model: str, version: int = LATEST) -> Json:
        """The completed config of a model, as `GET /v2/models/MODEL/config` shows it (row 2.19).

        Raises:
            InferenceError: as `model_metadata`.
        """
        return to_json(self.engine().model_config(model, version))

    def statistics(self, model: str = "", version: int = LATEST) -> list[Json]:
        """Counters of a model, or of all of them, by version, as `GET /v2/models/MODEL/stats` shows them; durations in nanoseconds (row 8.1).

        Raises:
            InferenceError: INVALID_ARG: the model is not ready.
        """
        entries: list[Json] = models.statistics(self.engine().statistics(model, version))[
            "model_stats"
        ]
        return entries

    async def index(self, *, ready: bool = False) -> list[Json]:
        """The models with their versions, states and reasons, or only those that are `ready` (row 7.2).

        Raises:
            InferenceError: a repository cannot be read.
        """
        return models.index(await self.engine().index(ready_only=ready), memory=False)

    async def load(
        self,
        model: str,
        *,
        config: str | collections.abc.Mapping[str, Any] | None = None,
        files: collections.abc.Mapping[str, bytes] = _NO_FILES,
    ) -> None:
        """Load a model, or load it again if it has changed; needs `model_control_mode="explicit"` (rows 7.8, 7.15, 7.16).

        Args:
            model: its name.
            config: in place of its config.pbtxt: JSON, or what becomes JSON.
            files: in place of the model's folder: contents by path, e.g. {"1/model.onnx": …}; they need a config.

        Raises:
            InferenceError: UNAVAILABLE: in another control mode; INVALID_ARG or INTERNAL: it cannot be loaded, and what served before goes on serving.
        """
        parameters: dict[str, Value] = {f"{FILE}{path}": content for path, content in files.items()}
        if config is not None:
            parameters[CONFIG] = config if isinstance(config, str) else json.dumps(dict(config))
        await self.engine().load_model(model, parameters)

    async def unload(self, model: str, *, unload_dependents: bool = False) -> None:
        """Unload a model, after its requests in progress; needs `model_control_mode="explicit"` (rows 7.9, 7.26).

        Args:
            model: its name.
            unload_dependents: also unload the models that were loaded only because it needs them.

        Raises:
            InferenceError: UNAVAILABLE: in another control mode.
        """
        await self.engine().unload_model(model, unload_dependents=unload_dependents)

    async def metrics(self) -> str:
        """The metrics page, as Prometheus reads it (row 8.12)."""
        parts: list[bytes] = []
        for family in self.running().ports[0].series():
            for piece in pieces(family):
                parts.append(piece)
                await asyncio.sleep(0)
        return b"".join(parts).decode()

    async def serve_http(self, port: int = 8000, *, address: str = LOCALHOST) -> str:
        """Open a port for HTTP, until the server stops: the same models, for clients outside of this process.

        Args:
            port: 0 for any that is free.
            address: of the interface; "0.0.0.0" for all of them: every client that reaches it may send requests, unless `auth_token_file` is set.

        Returns:
            The address as HOST:PORT, as tritonclient takes it.

        Raises:
            StartError: the port cannot be used.
        """
        return await self._open(0, allow_http=True, http_port=port, http_address=address)

    async def serve_grpc(self, port: int = 8001, *, address: str = LOCALHOST) -> str:
        """Open a port for gRPC; as `serve_http`."""
        return await self._open(0, allow_grpc=True, grpc_port=port, grpc_address=address)

    async def serve_metrics(self, port: int = 8002, *, address: str = LOCALHOST) -> str:
        """Open a port for Prometheus and `/status`; as `serve_http`."""
        return await self._open(0, allow_metrics=True, metrics_port=port, metrics_address=address)

    def engine(self) -> Engine:
        """The engine of the running server, for code of Naiad itself.

        Raises:
            InferenceError: UNAVAILABLE: the server does not run.
        """
        return self.running().assembly.engine

    def running(self) -> Embedded:
        """Its parts. Raises InferenceError as `engine`."""
        if self._running is None:
            raise unavailable(STOPPED)
        return self._running

    def calls(self) -> Calls:
        """Its requests in progress. Raises InferenceError as `engine`."""
        if self._calls is None:
            raise unavailable(STOPPED)
        return self._calls

    def datatypes(self, model: str, version: int = LATEST) -> Datatypes:
        """The datatypes of a model's inputs; empty for an unknown one, which refuses the request later."""
        try:
            traits = self.engine().look_up(model, version).traits
        except InferenceError:
            return {}
        return {tensor.name: tensor.datatype for tensor in traits.inputs}

    def _request(self, model: str, inputs: Inputs, options: RequestOptions) -> InferRequest:
        options = typing.cast(RequestOptions, checked(options))
        datatypes: Datatypes = {}
        if not all_arrays(inputs):
            datatypes = self.datatypes(model, options.get("version", LATEST))
        return make_request(model, inputs, options, datatypes)

    async def _open(self, which: int, **ports: Any) -> str:
        closed = {"allow_http": False, "allow_grpc": False, "allow_metrics": False}
        options = msgspec.structs.replace(self._options, **{**closed, **ports})
        opened = await self.running().open(options)
        return opened.addresses()[which].bound
