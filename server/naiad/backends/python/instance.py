"""One TritonPythonModel in a thread: batches in, what `execute` returned out (rows 15.6, 15.7, 15.10-15.14).

The hot path of the benchmark: a request costs the worker thread a few microseconds here, and whatever could be done once a
batch or once a load is done there. How the model is called is in `served_model.py`.

Requests may also be answered apart from `execute`, through senders (rows 15.8, 15.9, 15.16, 15.17): a decoupled model answers all of
them so, an ordinary one those that it takes a sender of. Such answers go to whoever `answer_through` named.

An array that a model returns is sent while the model may already work on the next batch. So an array that the model, or
anybody else, can still reach (a buffer that it keeps, a slice of a larger result) is copied; one that nobody else holds
is not.
"""

import collections.abc
import pathlib
import sys
from typing import Any

import numpy as np
from typing_extensions import override

from naiad.backends import batch as batches
from naiad.backends.backend import Answer, Execution, Post
from naiad.backends.batch import Array
from naiad.backends.python.api import datatypes as codes
from naiad.backends.python.api.byte_tensors import elements_of
from naiad.backends.python.api.context import Running
from naiad.backends.python.api.errors import TritonError
from naiad.backends.python.api.response import InferenceResponse, contents_of
from naiad.backends.python.api.tensor import Tensor as ModelTensor, parts_of
from naiad.backends.python.served_model import APART, ServedModel
from naiad.config.model_config import ModelConfig
from naiad.core import datatypes
from naiad.core.clock import Clock
from naiad.core.datatypes import DataType
from naiad.core.flow import RESPONSE_BYTES
from naiad.core.inference import Inference
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError

DATATYPES: dict[int, DataType] = {
    number: datatypes.BY_DTYPE[dtype] for dtype, number in codes.CODES.items()
} | {codes.BF16: datatypes.BF16}
"""By the numbers of `api/datatypes.py`."""


class PythonInstance(ServedModel):
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
        super().__init__(
            model,
            running=running,
            folder=folder,
            outputs=frozenset(spec.name for spec in config.outputs),
            decoupled=config.decoupled,
            now_ns=clock.monotonic_ns,
        )
        self._config = config
        self._version = version
        self._batched = config.max_batch_size > 0
        self._outputs = {spec.name: spec for spec in config.outputs}
        self._post: Post = _nobody_listens

    def execute(self, batch: collections.abc.Sequence[Inference]) -> Execution:
        """Call the model's `execute` with a batch.

        Raises:
            InferenceError: INTERNAL: it raised, or returned what is no list of one InferenceResponse for each request.
        """
        self._check_size(batch)
        returned, begun_ns, ended_ns = self._call(batch)
        responses = [
            None if answer is APART else self._response(inference, answer)
            for inference, answer in zip(batch, returned, strict=True)
        ]
        return Execution(responses, begun_ns, ended_ns)

    def answer_through(self, post: Post) -> None:
        """See `AnswersApart`."""
        self._post = post

    @override
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

    @override
    def pace(self, call: Inference) -> None:
        """See `Outlet`."""
        flow = call.flow
        # A coroutine would keep all others of its instance waiting, perhaps for the one that its client reads first.
        if flow is not None and flow.is_full() and not self._coroutines.is_this_thread():
            flow.wait()

    @override
    def _fail_apart(self, call: Inference, text: str, begun_ns: int) -> None:
        failure = batches.failure(call, batches.broken(text), version=self._version)
        self._post(Answer(call, failure, begun_ns))

    @override
    def _error(self, message: str) -> InferenceError:
        return batches.broken(message)

    def _response(
        self, inference: Inference, answer: Any, *, final: bool = True, kept: bool = False
    ) -> InferResponse:
        """A response as the server has it; `kept` when the model may go on with its arrays."""
        self._check_response(answer)
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
            self._outputs_of(tensors, request.output_names, kept=kept),
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
            outputs.append(Tensor(name, DATATYPES[code], array.shape, array))
        return outputs

    def _check_size(self, batch: collections.abc.Sequence[Inference]) -> None:
        if len(batch) > 1:
            size = sum([inference.batch_size for inference in batch])
            if size > self._config.max_batch_size:
                raise batches.broken(
                    f"batch size {size} for '{self._running.instance}', max allowed is {self._config.max_batch_size}"
                )


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


def _weight(response: InferResponse) -> int:
    """About how much memory a response takes."""
    weight = RESPONSE_BYTES
    for tensor in response.outputs:
        weight += tensor.array.nbytes
        if tensor.datatype is datatypes.BYTES:
            weight += sum(map(len, tensor.array.flat))
    return weight


def _nobody_listens(answer: Answer) -> None:
    """Until a host says where answers go."""


def _error_of(error: TritonError) -> InferenceError:
    return InferenceError(
        ErrorCode[error.code().name], error.message(), reason=FailureReason.BACKEND
    )
