"""A TritonPythonModel and the rules by which it is called, the same in a thread of the server and in a worker process.

What `execute` may return (rows 15.6-15.10), coroutines, deferred responses through senders (rows 15.16, 15.17),
`is_ready` (row 2.12) and `finalize` (row 15.33).

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

from naiad.backends.instance import Instance
from naiad.backends.python.api import context
from naiad.backends.python.api.context import Running
from naiad.backends.python.api.errors import TritonError
from naiad.backends.python.api.model_log import model_logger
from naiad.backends.python.api.request import (
    InferenceRequest,
    is_rescheduled,
    receive,
    sender_of,
)
from naiad.backends.python.api.response import InferenceResponse
from naiad.backends.python.api.response_sender import (
    InferenceResponseSender,
    close,
    has_sent,
    is_open,
)
from naiad.backends.python.coroutines import Coroutines
from naiad.backends.python.failures import describe, raised
from naiad.backends.python.leaked_senders import LeakedSenderCollector
from naiad.errors import ErrorCode, FailureReason, InferenceError

DEFERRED: Any = object()
"""Stands for responses that a sender sends."""


_NEEDS_ITERATIVE = "to see it again needs sequence_batching with iterative_sequence in the config, which is not supported yet in this server"
_RESCHEDULED = f"the model wants to see this request again (TRITONSERVER_REQUEST_RELEASE_RESCHEDULE); {_NEEDS_ITERATIVE}"


class ServedModel(Instance):
    """A model, called with batches; `PythonInstance` makes responses of what it returns.

    Args:
        model: the TritonPythonModel, initialised.
        running: says whose code runs.
        folder: the model's folder, whose lines come first in tracebacks.
        outputs: names of the config's outputs.
        max_batch_size: the config's.
        decoupled: whether it may answer a request any number of times.
        now_ns: the time (monotonic).
    """

    def __init__(
        self,
        model: Any,
        *,
        running: Running,
        folder: pathlib.Path,
        outputs: "frozenset[str]",
        max_batch_size: int,
        decoupled: bool,
        now_ns: "Callable[[], int]",
    ) -> None:
        self._model = model
        self.asks_model = hasattr(model, "is_ready")
        self._running = running
        self._folder = folder
        self._now_ns = now_ns
        self.all_outputs = outputs
        self._max_batch_size = max_batch_size
        self.decoupled = decoupled
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

    def _fail_deferred(self, call: Any, error: InferenceError, begun_ns: int) -> None:
        """Respond to a request in progress with an error of the model's, its last response. Safe in any thread."""
        raise NotImplementedError

    def lost(self, call: Any, begun_ns: int) -> None:
        """See `ResponseChannel`."""
        text = (
            f"[request id: {call.request.id or '<id_unknown>'}] model '{self._running.instance}' dropped this request's response sender "
            "and will not answer any more: it has to send pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL last. Perhaps the thread "
            "that held the sender ended with an exception; the server's log would show it"
        )
        self._fail_deferred(call, _error(text), begun_ns)

    def ping(  # type: ignore[explicit-override]  # `override` is in no standard library of 3.8
        self, pong: "Callable[[], None]"
    ) -> None:
        """See `Instance`."""
        self._coroutines.ping(pong)

    def ready(self) -> bool:  # type: ignore[explicit-override]  # as above
        """What the model's own `is_ready` says, if it has one (row 2.12)."""
        model = self._model
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
            self._log.error("is_ready failed: %s", describe(error, self._folder))
            return False
        if not isinstance(answer, bool):
            self._log.error("is_ready() must return a boolean value; it returned %r", answer)
            return False
        return answer

    @property
    def model(self) -> Any:
        """The TritonPythonModel; None at the end."""
        return self._model

    def close(self) -> None:  # type: ignore[explicit-override]  # as above
        """As `finalize`; what the model raises is only logged (row 15.33)."""
        try:
            self.finalize()
        except raised() as error:
            self._log.error("finalize failed: %s", describe(error, self._folder))

    def finalize(self) -> None:
        """Call the model's `finalize`, if it has one, and drop it. Idempotent.

        Raises:
            Exception: whatever the model raises.
        """
        self._coroutines.close()
        self._leaked.close()
        self._running.executes = False
        model, self._model = self._model, None
        if hasattr(model, "finalize"):
            context.current.set(self._running)
            model.finalize()

    def _call(self, calls: "Sequence[Any]") -> "tuple[list[Any], int, int]":
        """Call the model's `execute` with a batch.

        Returns:
            For each request what the model returned, or `DEFERRED`; when it began and when it ended.

        Raises:
            InferenceError: INTERNAL: it raised, or did not return a list with an element for each request.
        """
        if len(calls) > 1:
            self._check_size(calls)
        running = self._running
        if not running.thread:
            running.thread = threading.get_ident()
        context.current.set(running)
        if self.decoupled:
            return self._call_now(calls)
        running.batch = calls
        try:
            return self._call_now(calls)
        finally:
            # Or it would be kept in memory until the next one comes.
            running.batch = None

    def _call_now(self, calls: "Sequence[Any]") -> "tuple[list[Any], int, int]":
        channel: Any = self
        requests = [receive(call, channel) for call in calls]
        self.begun_ns = begun_ns = self._now_ns()
        if self.decoupled:
            return self._call_decoupled(calls, requests), begun_ns, self._now_ns()
        try:
            # The list is the model's: it may take requests out of it.
            returned = self._model.execute(requests[:])
            if inspect.iscoroutine(returned):
                returned = self._coroutines.run(returned)
        except raised() as error:
            _close(map(sender_of, requests))
            raise self._failed(describe(error, self._folder)) from error
        ended_ns = self._now_ns()
        if self.has_rescheduled:
            returned = self._without_rescheduled(requests, returned)
        if self.has_senders:
            returned = self._without_senders(requests, returned)
        if type(returned) is not list:
            raise self._failed(_not_a_list(returned))
        if len(returned) != len(calls):
            raise self._failed(_wrong_number(asked=len(calls), returned=len(returned)))
        return returned, begun_ns, ended_ns

    def _call_decoupled(
        self, calls: "Sequence[Any]", requests: "list[InferenceRequest]"
    ) -> "list[Any]":
        """A batch of a decoupled model: every response is sent through a sender (row 15.9)."""
        begun_ns = self.begun_ns
        # Made here, so that a request that the model forgets is noticed as well.
        senders = [request.get_response_sender() for request in requests]
        # A coroutine goes on when the batch has come back, and other models that it asks then are asked for this batch.
        context.current.set(self._running.at(calls))
        try:
            returned = self._model.execute(requests[:])
        except raised() as error:
            _close(senders)
            raise self._failed(describe(error, self._folder)) from error
        if self.has_rescheduled:
            self._refuse_rescheduled(calls, requests, senders, begun_ns)
        if inspect.iscoroutine(returned):
            self._coroutines.start(
                returned,
                functools.partial(self._coroutine_ended, calls, requests, senders, begun_ns),
            )
        elif returned is not None:
            _close(senders)
            raise self._failed(self._must_return_none(returned))
        self._leaked.watch(senders)
        return [DEFERRED] * len(calls)

    def _refuse_rescheduled(
        self,
        calls: "Sequence[Any]",
        requests: "list[InferenceRequest]",
        senders: "list[InferenceResponseSender]",
        begun_ns: int,
    ) -> None:
        for call, request, sender in zip(calls, requests, senders):  # noqa: B905 - 3.8 knows no strict; they are as long as each other
            if is_rescheduled(request) and is_open(sender):
                close(sender)
                error = InferenceError(
                    ErrorCode.UNSUPPORTED, _RESCHEDULED, reason=FailureReason.BACKEND
                )
                self._fail_deferred(call, error, begun_ns)

    def _coroutine_ended(
        self,
        calls: "Sequence[Any]",
        requests: "list[InferenceRequest]",
        senders: "list[InferenceResponseSender]",
        begun_ns: int,
        ended: Any,
    ) -> None:
        """A coroutine of a decoupled model is over: who has no answer yet gets its error."""
        if self.has_rescheduled:
            self._refuse_rescheduled(calls, requests, senders, begun_ns)
        if ended.cancelled():
            text = "its coroutine was cancelled"
        elif (error := ended.exception()) is not None:
            text = describe(error, self._folder)
        elif ended.result() is not None:
            text = self._must_return_none(ended.result())
        else:
            return
        _close(senders)
        message = self._failure(text)
        for call in calls:
            self._fail_deferred(call, _error(message), begun_ns)

    def _without_senders(self, requests: "list[InferenceRequest]", returned: Any) -> Any:
        """What an ordinary model returned, with a mark in place of what it leaves to a sender (row 15.17)."""
        senders = [sender_of(request) for request in requests]
        if returned is None and None not in senders:
            self._leaked.watch(senders)
            return [DEFERRED] * len(requests)
        if type(returned) is not list or len(returned) != len(requests):
            _close(senders)
            return returned
        marked: list[Any] = []
        for sender, answer in zip(senders, returned):  # noqa: B905 - 3.8 knows no strict; they are as long as each other
            if sender is None or answer is not None:
                if sender is not None and has_sent(sender):
                    _close(senders)
                    raise self._failed(
                        "Unable to send response. Non-decoupled model cannot send more than one response: execute returned one for a "
                        "request that its sender had answered; return None in its place"
                    )
                _close((sender,))
                marked.append(answer)
            else:
                marked.append(DEFERRED)
        self._leaked.watch(senders)
        return marked

    def _without_rescheduled(self, requests: "list[InferenceRequest]", returned: Any) -> Any:
        """What a model returned, with an error in place of the None that stands for a request it wants to see again (row 15.18)."""
        again = [is_rescheduled(request) for request in requests]
        if True not in again:
            return returned
        if returned is None:
            returned = [None] * len(requests)
        if type(returned) is not list or len(returned) != len(requests):
            return returned
        answers: list[Any] = []
        for rescheduled, answer in zip(again, returned):  # noqa: B905 - 3.8 knows no strict; they are as long as each other
            if not rescheduled:
                answers.append(answer)
                continue
            if answer is not None:
                _close(map(sender_of, requests))
                raise self._failed(
                    "Expected a None object in the execute function return list for reschduled request, found type "
                    f"'{type(answer)}'. A request is answered or seen again, not both; {_NEEDS_ITERATIVE}"
                )
            answers.append(
                InferenceResponse(error=TritonError(_RESCHEDULED, TritonError.UNSUPPORTED))
            )
        return answers

    def _must_return_none(self, returned: Any) -> str:
        return (
            f"Python model '{self._running.instance}' is using the decoupled mode and the execute function must return None. "
            f"It returned {type(returned)}: send responses with request.get_response_sender().send(response), and say when "
            "that was all with flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL"
        )

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

    def _check_response(self, answer: Any) -> None:
        if not isinstance(answer, InferenceResponse):
            raise self._failed(
                "Expected an 'InferenceResponse' object in the execute function return list, found type "
                f"'{type(answer)}'."
            )

    def _failed(self, text: str) -> InferenceError:
        return _error(self._failure(text))

    def _failure(self, text: str) -> str:
        message = f"Failed to process the request(s) for model '{self._running.instance}', message: {text}"
        self._log.error("%s", message)
        return message


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


def _close(senders: "Iterable[InferenceResponseSender | None]") -> None:
    for sender in senders:
        if sender is not None:
            close(sender)


def _not_a_list(returned: Any) -> str:
    return (
        f"Expected a list in the execute return, found type '{type(returned)}'. "
        "Return [pb_utils.InferenceResponse(...), ...], one for each request, in their order"
    )


def _wrong_number(*, asked: int, returned: int) -> str:
    return (
        "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
        f"InferenceRequest(s) size is:{asked}, and InferenceResponse(s) size is:{returned}\n"
    )
