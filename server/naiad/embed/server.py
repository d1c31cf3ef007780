"""`Server`: the server in threads of its own, for programs without an event loop, or with one that is not to matter.

A call of `infer` costs a hand-over to the server's event loop and back; the caller's thread makes the tensors and takes the outputs.
"""

import collections.abc
import concurrent.futures
import functools
import itertools
import pathlib
import threading
import types
import typing
from typing import Any, Self

from naiad.core.request import LATEST, InferRequest
from naiad.embed import exits
from naiad.embed.arguments import check, checked
from naiad.embed.async_server import LOCALHOST, AsyncServer, Json
from naiad.embed.calls import STOPPED, Calls
from naiad.embed.functions import FunctionModel
from naiad.embed.future_call import FutureCall
from naiad.embed.lone_caller import LOOK_S, LoneCaller
from naiad.embed.loop_thread import LoopThread
from naiad.embed.requests import (
    Inputs,
    RequestOptions,
    Result,
    all_arrays,
    make_request,
)
from naiad.embed.stream import Stream
from naiad.embed.sync_call import SyncCall
from naiad.errors import unavailable
from naiad.hosts.thread_queues import LoopQueue
from naiad.options.keywords import Values

_FORKED = "the server runs in the process that forked this one: start another one here"
_OF_PARENTS: list[object] = []
"""Kept: what they do when they are dropped would be done to what the parent has."""
_NUMBERS = itertools.count(1)
_NO_FILES: collections.abc.Mapping[str, bytes] = types.MappingProxyType({})

Call = collections.abc.Callable[[], object]
Returned = typing.TypeVar("Returned")


class Running:
    """The way from the program's threads to the loop of a running server.

    Args:
        loop: makes the calls.
        calls: of the server on it.

    Attributes:
        lone: binds the calls of a thread that calls alone.
    """

    def __init__(self, loop: LoopThread, calls: Calls) -> None:
        import asyncio  # noqa: PLC0415 - on the loop

        self.loop = loop
        self.calls = calls
        on = asyncio.get_running_loop()
        self._queue: LoopQueue[Call] = LoopQueue(on, _make)
        self._closed = False
        self.lone = LoneCaller(
            threading.get_native_id(),
            calls,
            later=lambda call: self.post(functools.partial(on.call_later, LOOK_S, call)),
        )

    def post(self, call: Call) -> bool:
        """Have the loop make a call, which must not raise; in any thread. Returns whether the loop still ran then: else it may never be made."""
        self._queue.put(call)
        return not self._closed

    def infer(self, request: InferRequest, seconds: float | None) -> Result:
        """Send a request and wait for its response; see `SyncCall.run`."""
        call = SyncCall(self.calls, request)
        return self.lone.run(functools.partial(call.run, self.post, seconds))

    def close(self) -> None:
        """Make the calls that are queued, and no more; on the loop, once the server has stopped."""
        self._closed = True
        self.lone.close()
        self._queue.flush()
        self._queue.close()


class Server:
    """Serves a model repository to the program that it is a part of; use it in a `with`, or call `start` and `stop`.

        with naiad.Server("models") as server:
            result = server.infer("add", {"INPUT0": array})
            result["OUTPUT0"]

    Every method may be called in any thread, also while an event loop runs in it (Jupyter), which waits meanwhile: in coroutines take `AsyncServer`.
    A program may have several servers. One that was not stopped is stopped with the program.

    Args:
        model_repository: see `AsyncServer`.
        functions: see `AsyncServer`.
        options: see `AsyncServer`.

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
        self._server = AsyncServer(model_repository, functions=functions, **options)
        self._loop: LoopThread | None = None
        self._running: Running | None = None
        self._why_not = STOPPED
        self._starting = threading.Lock()

    def start(self) -> Self:
        """Load the models and serve; waits for them. After `stop` it may be started again.

        Raises:
            StartError: a model does not load (`exit_on_error=False` serves the others), or an option cannot be used.
            RuntimeError: it runs already.
        """
        with self._starting:
            if self._loop is not None:
                raise RuntimeError("the server runs already")
            loop = self._loop = LoopThread(
                f"naiad-{next(_NUMBERS)}", self._server, begun=self._begun, ended=self._ended
            )
            exits.add(self)
        try:
            loop.start()
        except BaseException:
            self._ended_loop(loop)
            raise
        return self

    def stop(self) -> None:
        """Refuse new requests, finish those in progress and unload the models, within `exit_timeout_secs`. Idempotent."""
        loop = self._loop
        if loop is None:
            return
        if loop.is_current():
            raise RuntimeError("stop() was called on the server's own event loop")
        loop.stop()
        self._ended_loop(loop)

    def bind(self, function: FunctionModel) -> None:
        """See `AsyncServer.bind`."""
        if self._running is None:
            self._server.add(function)
        else:
            self._call(self._server.bind(function))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stop()

    def infer(
        self,
        model: str,
        inputs: Inputs,
        *,
        timeout: float | None = None,
        **options: typing.Unpack[RequestOptions],
    ) -> Result:
        """Send a request that has one response, and wait for it.

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
        running = self._now()
        seconds = check(model, inputs, timeout)
        request = self._request(model, inputs, options)
        return running.infer(request, seconds)

    def submit(
        self, model: str, inputs: Inputs, **options: typing.Unpack[RequestOptions]
    ) -> "concurrent.futures.Future[Result]":
        """Send a request that has one response, and do not wait for it: several from one thread can be one batch.

        Args:
            model: as in `infer`, as are `inputs` and `options`.
            inputs: see above.
            options: see above.

        Returns:
            A future of the outputs by name, for `concurrent.futures.wait`, `as_completed` and `asyncio.wrap_future`. It fails with what `infer` raises.
            Cancelling it cancels the request, also while it is in execution. Its callbacks are called on the server's event loop: they must not wait,
            nor call the server.

        Raises:
            InferenceError: UNAVAILABLE: the server does not run; INVALID_ARG: values that no tensor can hold.
            TypeError: an option does not exist.
        """
        running = self._now()
        check(model, inputs, None)
        request = self._request(model, inputs, options)
        return FutureCall(running.calls, request, running.post).future

    def stream(
        self,
        model: str,
        inputs: Inputs,
        *,
        timeout: float | None = None,
        **options: typing.Unpack[RequestOptions],
    ) -> Stream:
        """Send a request that has any number of responses: to a decoupled model; from any other one comes one response.

        The model pauses while 64 responses wait. `close`, the end of a `with`, or dropping the iterator cancels the request.

        Args:
            model: as in `infer`, as are `inputs` and `options`.
            inputs: see above.
            timeout: seconds to wait for each response; then the request is cancelled.
            options: see above.

        Returns:
            An iterator over the outputs of each response, which raises what `infer` raises.
        """
        running = self._now()
        seconds = check(model, inputs, timeout)
        request = self._request(model, inputs, options)
        return Stream(running.post, running.calls, request, seconds)

    def live(self) -> bool:
        """Whether it runs (row 2.1)."""
        return self._running is not None

    def ready(self) -> bool:
        """Whether it runs, and its models are ready (rows 2.2, 2.4)."""
        return self._running is not None and self._call(self._server.ready())

    def model_ready(self, model: str, version: int = LATEST) -> bool:
        """See `AsyncServer.model_ready`."""
        return self._call(self._server.model_ready(model, version))

    def metadata(self) -> Json:
        """See `AsyncServer.metadata`."""
        return self._on_loop(self._server.metadata)

    def model_metadata(self, model: str, version: int = LATEST) -> Json:
        """See `AsyncServer.model_metadata`."""
        return self._on_loop(lambda: self._server.model_metadata(model, version))

    def model_config(self, model: str, version: int = LATEST) -> Json:
        """See `AsyncServer.model_config`."""
        return self._on_loop(lambda: self._server.model_config(model, version))

    def statistics(self, model: str = "", version: int = LATEST) -> list[Json]:
        """See `AsyncServer.statistics`."""
        return self._on_loop(lambda: self._server.statistics(model, version))

    def index(self, *, ready: bool = False) -> list[Json]:
        """See `AsyncServer.index`."""
        return self._call(self._server.index(ready=ready))

    def load(
        self,
        model: str,
        *,
        config: str | collections.abc.Mapping[str, Any] | None = None,
        files: collections.abc.Mapping[str, bytes] = _NO_FILES,
    ) -> None:
        """See `AsyncServer.load`."""
        self._call(self._server.load(model, config=config, files=files))

    def unload(self, model: str, *, unload_dependents: bool = False) -> None:
        """See `AsyncServer.unload`."""
        self._call(self._server.unload(model, unload_dependents=unload_dependents))

    def metrics(self) -> str:
        """See `AsyncServer.metrics`."""
        return self._call(self._server.metrics())

    def serve_http(self, port: int = 8000, *, address: str = LOCALHOST) -> str:
        """See `AsyncServer.serve_http`."""
        return self._call(self._server.serve_http(port, address=address))

    def serve_grpc(self, port: int = 8001, *, address: str = LOCALHOST) -> str:
        """See `AsyncServer.serve_grpc`."""
        return self._call(self._server.serve_grpc(port, address=address))

    def serve_metrics(self, port: int = 8002, *, address: str = LOCALHOST) -> str:
        """See `AsyncServer.serve_metrics`."""
        return self._call(self._server.serve_metrics(port, address=address))

    def forget(self) -> None:
        """This process was forked: the server is the parent's."""
        _OF_PARENTS.append((self._loop, self._running))
        self._loop = self._running = None
        self._starting = threading.Lock()  # a thread that is not in this process may hold the other
        self._server.forget()
        self._why_not = _FORKED

    def _begun(self) -> None:
        assert self._loop is not None, "it starts"
        self._running = Running(self._loop, self._server.calls())
        self._why_not = STOPPED

    def _ended_loop(self, loop: LoopThread) -> None:
        with self._starting:
            if (
                self._loop is loop
            ):  # else another thread has noted it, and perhaps started the server again
                self._loop = None
                exits.remove(self)

    def _ended(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.close()

    def _now(self) -> Running:
        running = self._running
        if running is None:
            raise unavailable(self._why_not)
        if running.loop.is_current():
            raise RuntimeError(
                "this is the server's own event loop, which would wait for itself: call the server in a thread"
            )
        return running

    def _call(self, work: collections.abc.Coroutine[Any, Any, Returned]) -> Returned:
        try:
            running = self._now()
        except BaseException:
            work.close()
            raise
        return running.loop.call(work)

    def _on_loop(self, work: collections.abc.Callable[[], Returned]) -> Returned:
        async def call() -> Returned:
            return work()

        return self._call(call())

    def _request(self, model: str, inputs: Inputs, options: RequestOptions) -> InferRequest:
        options = typing.cast(RequestOptions, checked(options))
        if all_arrays(inputs):
            return make_request(model, inputs, options, {})
        version = options.get("version", LATEST)
        datatypes = self._on_loop(lambda: self._server.datatypes(model, version))
        return make_request(model, inputs, options, datatypes)


def _make(call: Call) -> None:
    call()
