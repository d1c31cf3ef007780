"""One TritonPythonModel as an `Instance`, the same in a thread of the server and in a worker process.

The hot path of the benchmark: a request costs the instance's thread a few microseconds here, and whatever could be done once per
batch or once per load is done there. What `execute` may return is in `returned.py`.

Responses may also be deferred, through senders (rows 15.8, 15.9, 15.16, 15.17): a decoupled model defers all of
them, an ordinary one those of the requests whose sender it takes. They go through the host's `Responder`.

Limits: those of `backends/instance.py`: standard library and numpy, Python 3.8.
"""

import concurrent.futures
import functools
import importlib
import inspect
import pathlib
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from naiad.backends.device_errors import DeviceError, unrecoverable
from naiad.backends.instance import Call, Execution, Instance, Output, Responder, Response
from naiad.backends.python.api import context, datatypes
from naiad.backends.python.api.context import Running
from naiad.backends.python.api.logger import model_logger
from naiad.backends.python.api.request import (
    InferenceRequest,
    is_rescheduled,
    receive,
    sender_of,
)
from naiad.backends.python.api.response import (
    InferenceResponse,
    InferenceResponseSender,
    close,
    contents_of,
    is_open,
)
from naiad.backends.python.api.tensor import parts_of
from naiad.backends.python.coroutines import Coroutines
from naiad.backends.python.failures import describe, raised
from naiad.backends.python.leaked_senders import LeakedSenderCollector
from naiad.backends.python.returned import (
    AGAIN,
    DEFERRED,
    RESCHEDULED,
    TOO_LATE,
    must_return_none,
    with_deferred,
    with_rescheduled,
    wrong_list,
)
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.log_text import Lines


class PythonInstance(Instance):
    """Implements `Instance`, and `ResponseChannel` for its senders."""

    holds_interpreter = True
    defers = True
    gathers_inputs = False
    keeps_arrays = True

    _responder: Responder

    def __init__(
        self,
        model: Any,
        *,
        running: Running,
        folder: pathlib.Path,
        outputs: "frozenset[str]",
        max_batch_size: int,
        decoupled: bool,
        iterative: bool = False,
        now_ns: "Callable[[], int]",
    ) -> None:
        self.model = model
        self.asks_model = hasattr(model, "is_ready")
        self._running = running
        self._folder = folder
        self._now_ns = now_ns
        self.all_outputs = outputs
        self._max_batch_size = max_batch_size
        self.decoupled = decoupled
        self._iterative = iterative
        self.begun_ns = 0
        self.has_senders = False
        self.has_rescheduled = False
        running.loads = False
        running.executes = True
        if inspect.iscoroutinefunction(getattr(model, "execute", None)):
            importlib.import_module("asyncio")  # its first request does not wait for it
        self._coroutines = Coroutines(running.instance)
        self._leaked = LeakedSenderCollector(running.instance)
        self._dropped: set[str] = set()
        self._log = model_logger(running.model)

    def execute(  # type: ignore[explicit-override]  # `override` is in no standard library of 3.8
        self, batch: "Sequence[Call]"
    ) -> "Execution[Response]":
        """Call the model's `execute` with a batch.

        Raises:
            InferenceError: INTERNAL: it raised, or did not return a list of one InferenceResponse for each request.
        """
        if len(batch) > 1:
            self._check_size(batch)
        running = self._running
        if not running.thread:
            running.thread = threading.get_ident()
        context.current.set(running)
        if self.decoupled:
            returned, begun_ns, ended_ns = self._call_decoupled(batch)
        else:
            running.batch = batch
            try:
                returned, begun_ns, ended_ns = self._call(batch)
            finally:
                # Or it would be kept in memory until the next one comes.
                running.batch = None
        # A loop, because a comprehension is a call and a function of its own.
        responses: list[Response | None] = []
        all_outputs, wire_names = self.all_outputs, datatypes.WIRE_NAMES
        asked: Any = None  # the list of outputs of the request before, which named `asked_name`: requests share lists
        asked_name = ""
        for item, call in zip(returned, batch):  # noqa: B905 - 3.8 knows no strict; they are as long as each other
            if type(item) is InferenceResponse:
                tensors, error, parameters = contents_of(item)
                if error is None and len(tensors) == 1:
                    # The usual case, of which `_response` makes the same.
                    name, array, code = parts_of(tensors[0])
                    request = call.request
                    wanted = request.requested_outputs
                    if name in all_outputs and (
                        not wanted
                        or (wanted is asked and name == asked_name)
                        or name in request.output_names
                    ):
                        asked, asked_name = wanted, name
                        output: Output = (name, wire_names[code], array)
                        responses.append(Response([output], parameters))
                        continue
            responses.append(
                None if item is DEFERRED or item is AGAIN else self._response(item, call.request)
            )
        if not self.has_rescheduled:
            return Execution(responses, begun_ns, ended_ns)
        again = [index for index, item in enumerate(returned) if item is AGAIN]
        return Execution(responses, begun_ns, ended_ns, rescheduled=again)

    def respond_through(  # type: ignore[explicit-override]  # as above
        self, responder: Responder
    ) -> None:
        """See `Instance`."""
        self._responder = responder

    def send(
        self, call: Any, response: "InferenceResponse | None", *, final: bool, begun_ns: int
    ) -> None:
        """See `ResponseChannel`."""
        converted = None if response is None else self._response(response, call.request)
        self._responder.send(call, converted, final=final, begun_ns=begun_ns)

    def pace(self, call: Any) -> None:
        """See `ResponseChannel`."""
        # A coroutine would keep all others of its instance waiting, perhaps for the one that its client reads first.
        if not self._coroutines.is_this_thread():
            self._responder.wait_for_capacity(call)

    def lost(self, call: Any, begun_ns: int) -> None:
        """See `ResponseChannel`."""
        text = (
            f"[request id: {call.request.id or '<id_unknown>'}] model '{self._running.instance}' dropped this request's response sender "
            "and will not answer any more: it has to send pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL last. Perhaps the thread "
            "that held the sender ended with an exception; the server's log would show it"
        )
        self._fail_deferred(call, _error(text), begun_ns)

    def ping(  # type: ignore[explicit-override]  # as above
        self, pong: "Callable[[], None]"
    ) -> None:
        """See `Instance`."""
        self._coroutines.ping(pong)

    def ready(self) -> bool:  # type: ignore[explicit-override]  # as above
        """What the model's own `is_ready` says, if it has one (row 2.12)."""
        model = self.model
        if model is None:
            return False
        if not self.asks_model:
            return True
        context.current.set(self._running)
        try:
            answer = model.is_ready()
            if inspect.iscoroutine(answer):
                answer = _run(answer)
        except raised() as error:
            self._log.error("is_ready failed: %s", Lines(describe(error, self._folder)))
            return False
        if not isinstance(answer, bool):
            self._log.error("is_ready() must return a boolean value; it returned %r", answer)
            return False
        return answer

    def close(self) -> None:  # type: ignore[explicit-override]  # as above
        """As `finalize`; what the model raises is only logged (row 15.33)."""
        try:
            self.finalize()
        except raised() as error:
            self._log.error("finalize failed: %s", Lines(describe(error, self._folder)))

    def finalize(self) -> None:
        """Call the model's `finalize`, if it has one, and drop it. Idempotent.

        Raises:
            Exception: whatever the model raises.
        """
        self._coroutines.close()
        self._leaked.close()
        self._running.executes = False
        model, self.model = self.model, None
        if hasattr(model, "finalize"):
            context.current.set(self._running)
            model.finalize()

    def _call(self, calls: "Sequence[Any]") -> "tuple[list[Any], int, int]":
        """Call an ordinary model's `execute`.

        Returns:
            For each request what the model returned, or `DEFERRED`; when it began and when it ended.

        Raises:
            InferenceError: INTERNAL: it raised, or did not return a list with an element for each request.
        """
        channel: Any = self
        requests = receive(calls, channel)
        self.begun_ns = begun_ns = self._now_ns()
        try:
            # The list is the model's: it may take requests out of it.
            returned = self.model.execute(requests[:])
            if inspect.iscoroutine(returned):
                returned = self._coroutines.run(returned)
        except raised() as error:
            _close(map(sender_of, requests))
            raise self._failed(describe(error, self._folder)) from error
        ended_ns = self._now_ns()
        try:
            if self.has_rescheduled:
                returned = with_rescheduled(requests, returned, iterative=self._iterative)
            if self.has_senders:
                returned = with_deferred(requests, returned)
        except ValueError as error:
            _close(map(sender_of, requests))
            raise self._failed(str(error)) from None
        if type(returned) is not list or len(returned) != len(calls):
            _close(map(sender_of, requests))
            raise self._failed(wrong_list(returned, len(calls)))
        if self.has_senders:
            self._leaked.watch(map(sender_of, requests))
        return returned, begun_ns, ended_ns

    def _call_decoupled(self, calls: "Sequence[Any]") -> "tuple[list[Any], int, int]":
        """The same for a decoupled model: every response is sent through a sender (row 15.9)."""
        channel: Any = self
        requests = receive(calls, channel)
        self.begun_ns = begun_ns = self._now_ns()
        # Made here, so that a request that the model forgets is noticed as well.
        senders = [request.get_response_sender() for request in requests]
        # A coroutine goes on when the batch has come back, and other models that it asks then are asked for this batch.
        context.current.set(self._running.at(calls))
        try:
            returned = self.model.execute(requests[:])
        except raised() as error:
            _close(senders)
            raise self._failed(describe(error, self._folder)) from error
        answers = [DEFERRED] * len(calls)
        if self.has_rescheduled:
            if self._iterative:
                answers = _seen_again(requests)
            else:
                self._refuse_rescheduled(calls, requests, begun_ns, RESCHEDULED)
        if inspect.iscoroutine(returned):
            self._coroutines.start(
                returned, functools.partial(self._coroutine_ended, calls, requests, begun_ns)
            )
        elif returned is not None:
            _close(senders)
            raise self._failed(must_return_none(returned, self._running.instance))
        self._leaked.watch(senders)
        return answers, begun_ns, self._now_ns()

    def _refuse_rescheduled(
        self, calls: "Sequence[Any]", requests: "list[InferenceRequest]", begun_ns: int, why: str
    ) -> None:
        """Refuse those requests of a decoupled model that it wants to see again (row 15.18)."""
        for call, request in zip(calls, requests):  # noqa: B905 - 3.8 knows no strict; they are as long as each other
            sender = request.get_response_sender()
            if is_rescheduled(request) and is_open(sender):
                close(sender)
                error = InferenceError(ErrorCode.UNSUPPORTED, why, reason=FailureReason.BACKEND)
                self._fail_deferred(call, error, begun_ns)

    def _coroutine_ended(
        self,
        calls: "Sequence[Any]",
        requests: "list[InferenceRequest]",
        begun_ns: int,
        ended: Any,
    ) -> None:
        """A coroutine of a decoupled model is over: who has no answer yet gets its error."""
        lost: DeviceError | None = None
        if self.has_rescheduled:
            why = TOO_LATE if self._iterative else RESCHEDULED
            self._refuse_rescheduled(calls, requests, begun_ns, why)
        if ended.cancelled():
            text = "its coroutine was cancelled"
        elif (error := ended.exception()) is not None:
            text = describe(error, self._folder)
            lost = unrecoverable(error)
        elif ended.result() is not None:
            text = must_return_none(ended.result(), self._running.instance)
        else:
            return
        _close(map(sender_of, requests))
        message = self._failed(text).message
        for call in calls:
            failure = _error(message)
            failure.lost_device = lost
            self._fail_deferred(call, failure, begun_ns)

    def _fail_deferred(self, call: Any, error: InferenceError, begun_ns: int) -> None:
        """Respond to a request in progress with an error of the model's, its last response. Safe in any thread."""
        self._responder.send(call, Response([], {}, error.bare()), final=True, begun_ns=begun_ns)

    def _response(self, returned: Any, request: Any) -> Response:
        """A response of the model's, with what the request asks for, in the model's order."""
        if not isinstance(returned, InferenceResponse):
            raise self._failed(
                "Expected an 'InferenceResponse' object in the execute function return list, found type "
                f"'{type(returned)}'."
            )
        tensors, error, parameters = contents_of(returned)
        if error is not None:
            error_code = ErrorCode[error.code().name]
            failure = InferenceError(error_code, error.message(), reason=FailureReason.BACKEND)
            return Response([], {}, failure)
        names = self.all_outputs
        wanted = request.requested_outputs and request.output_names
        outputs: list[Output] = []
        for tensor in tensors:
            name, array, code = parts_of(tensor)
            if name not in names:
                self._note_dropped(name)
            elif not wanted or name in wanted:
                outputs.append((name, datatypes.WIRE_NAMES[code], array))
        return Response(outputs, parameters)

    def _note_dropped(self, name: str) -> None:
        if name not in self._dropped:
            self._dropped.add(name)
            self._log.warning(
                "the model returns an output '%s' that its config does not list (it lists %s): left out",
                name,
                ", ".join(sorted(self.all_outputs)) or "none",
            )

    def _check_size(self, calls: "Sequence[Any]") -> None:
        size = sum([call.batch_size for call in calls])
        if size > self._max_batch_size:
            raise _error(
                f"batch size {size} for '{self._running.instance}', max allowed is {self._max_batch_size}"
            )

    def _failed(self, text: str) -> InferenceError:
        message = f"Failed to process the request(s) for model '{self._running.instance}', message: {text}"
        self._log.error("%s", Lines(message))
        return _error(message)


def _run(coroutine: "Coroutine[Any, Any, Any]") -> Any:
    """Run a coroutine to its end, also in the thread of a running loop, as a test that is a coroutine itself has it."""
    import asyncio  # noqa: PLC0415 - 36 ms and 6 MB of a worker, for models with coroutines only

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, coroutine).result()


def _error(message: str) -> InferenceError:
    return InferenceError(ErrorCode.INTERNAL, message, reason=FailureReason.BACKEND)


def _seen_again(requests: "list[InferenceRequest]") -> "list[Any]":
    """What a decoupled model leaves of its requests: those that it wants to see again have a sender of their own then."""
    answers: list[Any] = []
    for request in requests:
        if is_rescheduled(request):
            close(request.get_response_sender())
        answers.append(AGAIN if is_rescheduled(request) else DEFERRED)
    return answers


def _close(senders: "Iterable[InferenceResponseSender | None]") -> None:
    for sender in senders:
        if sender is not None:
            close(sender)
