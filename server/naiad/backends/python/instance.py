"""One TritonPythonModel in a thread: batches in, what `execute` returned out (rows 15.6, 15.7, 15.10-15.14).

The hot path of the benchmark: a request costs the worker thread a few microseconds here, and whatever could be done once a
batch or once a load is done there.

Requests may also be answered apart from `execute`, through senders (rows 15.8, 15.9, 15.16, 15.17): a decoupled model answers all of
them so, an ordinary one those that it takes a sender of. Such answers go to whoever `answer_through` named.

An array that a model returns is sent while the model may already work on the next batch. So an array that the model, or
anybody else, can still reach (a buffer that it keeps, a slice of a larger result) is copied; one that nobody else holds
is not.
"""

import asyncio
import collections.abc
import concurrent.futures
import functools
import inspect
import logging
import pathlib
import sys
from typing import Any

import numpy as np

from naiad.backends import batch as batches
from naiad.backends.backend import Answer, Execution, Post
from naiad.backends.batch import Array
from naiad.backends.python.api import context, datatypes as codes
from naiad.backends.python.api.byte_tensors import elements_of
from naiad.backends.python.api.context import Running
from naiad.backends.python.api.errors import TritonError
from naiad.backends.python.api.request import InferenceRequest, receive, sender_of
from naiad.backends.python.api.response import InferenceResponse, contents_of
from naiad.backends.python.api.response_sender import InferenceResponseSender, close, has_sent
from naiad.backends.python.api.tensor import Tensor as ModelTensor, parts_of
from naiad.backends.python.coroutines import Coroutines
from naiad.backends.python.failures import describe
from naiad.config.model_config import ModelConfig
from naiad.core import datatypes
from naiad.core.clock import Clock
from naiad.core.datatypes import DataType
from naiad.core.flow import ANSWER_BYTES
from naiad.core.inference import Inference
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError

_DATATYPES: dict[int, DataType] = {
    number: datatypes.BY_DTYPE[dtype] for dtype, number in codes.CODES.items()
} | {codes.BF16: datatypes.BF16}


class PythonInstance:
    """An instance.

    Args:
        model: the TritonPythonModel, initialised.
        config: the model's config.
        version: the model's version.
        running: says whose code runs.
        folder: the model's folder, whose lines come first in tracebacks.
        clock: for the moments that an `Execution` carries.
    """

    holds_interpreter = True

    def __init__(
        self,
        model: Any,
        config: ModelConfig,
        *,
        version: int,
        running: Running,
        folder: pathlib.Path,
        clock: Clock,
    ) -> None:
        self._model = model
        self._config = config
        self._version = version
        self._running = running
        self._folder = folder
        self._now_ns = clock.monotonic_ns
        self._batched = config.max_batch_size > 0
        self._outputs = {spec.name: spec for spec in config.outputs}
        self.all_outputs = frozenset(self._outputs)
        self.decoupled = config.decoupled
        self.begun_ns = 0
        self.has_senders = False
        self._post: Post = _nobody_listens
        self._coroutines = Coroutines(running.instance)
        self._dropped: set[str] = set()
        self._log = logging.getLogger(f"naiad.models.{config.name}")

    def execute(self, batch: collections.abc.Sequence[Inference]) -> Execution:
        """Call the model's `execute` with a batch.

        Raises:
            InferenceError: INTERNAL: it raised, or returned what is no list of one InferenceResponse for each request.
        """
        self._check_size(batch)
        requests = [receive(inference, self) for inference in batch]
        context.current.set(self._running)
        self.begun_ns = input_end_ns = self._now_ns()
        if self.decoupled:
            return self._execute_decoupled(batch, requests)
        try:
            returned = self._model.execute(requests)
            if inspect.iscoroutine(returned):
                returned = self._coroutines.run(returned)
        except (Exception, SystemExit) as error:
            _close(map(sender_of, requests))
            raise self._failed(describe(error, self._folder)) from error
        output_start_ns = self._now_ns()
        if self.has_senders:
            returned = self._without_senders(requests, returned)
        # The wrappers of the inputs end here, so that what the model handed through is held by nobody else.
        del requests
        if type(returned) is not list:
            raise self._failed(_not_a_list(returned))
        if len(returned) != len(batch):
            raise self._failed(_wrong_number(asked=len(batch), returned=len(returned)))
        responses = [
            None if answer is _APART else self._response(inference, answer)
            for inference, answer in zip(batch, returned, strict=True)
        ]
        return Execution(responses, input_end_ns, output_start_ns)

    def answer_through(self, post: Post) -> None:
        """See `AnswersApart`."""
        self._post = post

    def send(
        self, call: Inference, response: InferenceResponse | None, *, final: bool, begun_ns: int
    ) -> None:
        """See `Outlet`."""
        if response is None:
            request = call.request
            answer = InferResponse(
                request.model_name, self._version, request.id, NO_OUTPUTS, NO_PARAMETERS, empty=True
            )
        else:
            answer = self._response(call, response, final=final, kept=True)
        flow = call.flow
        if flow is None:
            self._post(Answer(call, answer, begun_ns))
            return
        weight = _weight(answer)
        flow.sent(weight)
        self._post(Answer(call, answer, begun_ns, weight))

    def pace(self, call: Inference) -> None:
        """See `Outlet`."""
        flow = call.flow
        # A coroutine would keep all others of its instance waiting, perhaps for the one that its client reads first.
        if flow is not None and flow.is_full() and not self._coroutines.is_this_thread():
            flow.wait()

    def lost(self, call: Inference, begun_ns: int) -> None:
        """See `Outlet`."""
        error = batches.broken(
            f"{call.request.label}model '{self._running.instance}' let go of this request's response sender and will not answer any "
            "more: it has to send pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL last. Perhaps the thread that held the sender "
            "ended with an exception; the server's log would show it"
        )
        self._post(Answer(call, batches.failure(call, error, version=self._version), begun_ns))

    def ready(self) -> bool:
        """What the model's own `is_ready` says, if it has one (row 2.12)."""
        model = self._model
        if model is None:
            return False
        if not hasattr(model, "is_ready"):
            return True
        context.current.set(self._running)
        try:
            answer = model.is_ready()
            if inspect.iscoroutine(answer):
                answer = asyncio.run(answer)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a hook may raise anything: then it is not ready
            self._log.error("is_ready failed: %s", describe(error, self._folder))
            return False
        if not isinstance(answer, bool):
            self._log.error("is_ready() must return a boolean value; it returned %r", answer)
            return False
        return answer

    def close(self) -> None:
        """Call the model's `finalize`, if it has one, and let go of it (row 15.33)."""
        self._coroutines.close()
        model, self._model = self._model, None
        if not hasattr(model, "finalize"):
            return
        context.current.set(self._running)
        try:
            model.finalize()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the model goes all the same, whatever it raises
            self._log.error("finalize failed: %s", describe(error, self._folder))

    def _execute_decoupled(
        self, batch: collections.abc.Sequence[Inference], requests: list[InferenceRequest]
    ) -> Execution:
        """A batch of a decoupled model: everybody is answered through a sender (row 15.9)."""
        started_ns = self.begun_ns
        # Made here, so that a request that the model forgets is noticed as well.
        senders = [request.get_response_sender() for request in requests]
        try:
            returned = self._model.execute(requests)
        except (Exception, SystemExit) as error:
            _close(senders)
            raise self._failed(describe(error, self._folder)) from error
        if inspect.iscoroutine(returned):
            self._coroutines.start(
                returned, functools.partial(self._coroutine_ended, batch, senders)
            )
        elif returned is not None:
            _close(senders)
            raise self._failed(self._must_return_none(returned))
        return Execution([None] * len(batch), started_ns, self._now_ns())

    def _coroutine_ended(
        self,
        batch: collections.abc.Sequence[Inference],
        senders: list[InferenceResponseSender],
        ended: "concurrent.futures.Future[Any]",
    ) -> None:
        """A coroutine of a decoupled model is over: who has no answer yet gets its error."""
        if ended.cancelled():
            text = "its coroutine was cancelled"
        elif (error := ended.exception()) is not None:
            text = describe(error, self._folder)
        elif ended.result() is not None:
            text = self._must_return_none(ended.result())
        else:
            return
        _close(senders)
        failure = self._failed(text)
        for inference in batch:
            response = batches.failure(inference, failure, version=self._version)
            self._post(Answer(inference, response, self.begun_ns))

    def _must_return_none(self, returned: Any) -> str:
        return (
            f"Python model '{self._running.instance}' is using the decoupled mode and the execute function must return None. "
            f"It returned {type(returned)}: send responses with request.get_response_sender().send(response), and say when "
            "that was all with flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL"
        )

    def _without_senders(self, requests: list[InferenceRequest], returned: Any) -> Any:
        """What an ordinary model returned, with a mark in place of what it leaves to a sender (row 15.17)."""
        senders = [sender_of(request) for request in requests]
        if returned is None and None not in senders:
            return [_APART] * len(requests)
        if type(returned) is not list or len(returned) != len(requests):
            _close(senders)
            return returned
        marked: list[Any] = []
        for sender, answer in zip(senders, returned, strict=True):
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
                marked.append(_APART)
        return marked

    def _response(
        self, inference: Inference, answer: Any, *, final: bool = True, kept: bool = False
    ) -> InferResponse:
        """A response as the server has it; `kept` when the model may go on with its arrays."""
        if not isinstance(answer, InferenceResponse):
            raise self._failed(
                "Expected an 'InferenceResponse' object in the execute function return list, found type "
                f"'{type(answer)}'."
            )
        tensors, own_error, parameters = contents_of(answer)
        request = inference.request
        if own_error is not None:
            return InferResponse(
                request.model_name,
                self._version,
                request.id,
                NO_OUTPUTS,
                NO_PARAMETERS,
                _error_of(own_error),
                final,
            )
        return InferResponse(
            request.model_name,
            self._version,
            request.id,
            self._outputs_of(tensors, request.requested_outputs, kept=kept),
            parameters or NO_PARAMETERS,
            None,
            final,
        )

    def _outputs_of(
        self, tensors: collections.abc.Sequence[ModelTensor], names: list[str], *, kept: bool
    ) -> list[Tensor]:
        """What a request gets of what the model returned: what it asked for, in the model's order."""
        specs = self._outputs
        outputs: list[Tensor] = []
        for tensor in tensors:
            name, array, code = parts_of(tensor)
            spec = specs.get(name)
            if spec is None:
                self._note_dropped(name)
                continue
            if names and name not in names:
                continue
            if code == codes.BYTES:
                array = _objects(array)
            elif kept or array.base is not None or sys.getrefcount(array) > _LONE:
                array = array.copy()
            if code == codes.BF16:
                array = array.view(datatypes.BF16.dtype)
            if spec.reshape is not None:
                array = array.reshape(
                    batches.client_shape(spec, array.shape, batched=self._batched)
                )
            outputs.append(Tensor(name, _DATATYPES[code], array.shape, array))
        return outputs

    def _check_size(self, batch: collections.abc.Sequence[Inference]) -> None:
        if len(batch) > 1:
            size = sum([inference.batch_size for inference in batch])
            if size > self._config.max_batch_size:
                raise batches.broken(
                    f"batch size {size} for '{self._running.instance}', max allowed is {self._config.max_batch_size}"
                )

    def _note_dropped(self, name: str) -> None:
        if name not in self._dropped:
            self._dropped.add(name)
            self._log.warning(
                "the model returns an output '%s' that its config does not list (it lists %s): left out",
                name,
                ", ".join(sorted(self._outputs)) or "none",
            )

    def _failed(self, text: str) -> InferenceError:
        error = batches.broken(
            f"Failed to process the request(s) for model '{self._running.instance}', message: {text}"
        )
        self._log.error("%s", error.message)
        return error


def _lone_count() -> int:
    """What `sys.getrefcount` says, where `_outputs_of` asks, of an array that only its tensor holds."""
    tensor = ModelTensor("x", np.zeros(1))
    _, array, _ = parts_of(tensor)
    return sys.getrefcount(array)


_LONE = _lone_count()


def _objects(array: Array) -> Array:
    """BYTES as the server has them: an object array of bytes."""
    elements = np.empty(array.size, dtype=object)
    elements[:] = elements_of(array)
    return elements.reshape(array.shape)


_APART: Any = object()
"""Stands for a response that a sender sends."""


def _weight(response: InferResponse) -> int:
    """About how much memory a response takes."""
    weight = ANSWER_BYTES
    for tensor in response.outputs:
        weight += tensor.array.nbytes
        if tensor.datatype is datatypes.BYTES:
            weight += sum(map(len, tensor.array.flat))
    return weight


def _nobody_listens(answer: Answer) -> None:
    """Until a host says where answers go."""


def _close(
    senders: collections.abc.Iterable[InferenceResponseSender | None],
) -> None:
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


def _error_of(error: TritonError) -> InferenceError:
    return InferenceError(
        ErrorCode[error.code().name], error.message(), reason=FailureReason.BACKEND
    )
