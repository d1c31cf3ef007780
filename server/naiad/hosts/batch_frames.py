"""Batches as a worker's messages, on the server's side; what is in them is said in `worker/content.py`.

One copy in: each tensor is copied once, from where the client's bytes lie into shared memory. One copy out at most: small outputs
are copied together, large ones stay where the worker put them and are sent from there.
"""

import collections.abc
from typing import Any

import orjson

from naiad.backends import batch as batches
from naiad.backends.instance import Execution
from naiad.config.model_config import ModelConfig
from naiad.core import datatypes
from naiad.core.flow import RESPONSE_BYTES
from naiad.core.inference import Inference
from naiad.core.request import Parameters
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse, failure
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.host import DeferredResponse
from naiad.hosts.tensor_frames import framed, tensor_at
from naiad.hosts.worker.content import TIMES
from naiad.hosts.worker.link import ALIGNED, Payload

COPIED = 1 << 18
"""Outputs of a batch up to this many bytes are copied out; more stay where they are."""

_KNOWN = 256
_KNOWN_BYTES = 4096

_Output = tuple[str, datatypes.DataType, tuple[int, ...], tuple[int, ...], int, int]
"""Name, datatype, shape as the model gave it, shape as clients see it, where it lies, bytes."""

_Answer = tuple[list[str] | None, Parameters, list[_Output]]
"""Error (code and message), parameters, outputs."""


def pack(batch: collections.abc.Sequence[Inference]) -> tuple[bytes, Payload]:
    """The header and the tensors of a batch."""
    payload = Payload()
    requests: list[Any] = []
    for inference in batch:
        request = inference.request
        inputs = [framed(tensor, payload) for tensor in request.inputs]
        requests.append(
            (
                request.id, request.correlation_id, request.flags, request.timeout_us, request.parameters,
                request.output_names, inference.cancelled, inference.batch_size, inputs,
            )
        )  # fmt: skip
    return orjson.dumps(requests), payload


class Answers:
    """Reads outcomes of one model version.

    Args:
        config: the model's config.
        version: the version that answers.
    """

    def __init__(self, config: ModelConfig, version: int) -> None:
        self._model = config.name
        self._version = version
        self._batched = config.max_batch_size > 0
        self._outputs = {spec.name: spec for spec in config.outputs}
        self._known: dict[bytes, list[_Answer | None]] = {}

    def unpack(
        self, base: Any, header: bytes | bytearray, batch: list[Inference]
    ) -> Execution[InferResponse]:
        """What came of a batch.

        Args:
            base: where its tensors are.
            header: the outcome's.
            batch: the inferences.

        Raises:
            InferenceError: the whole batch failed.
            Exception: it is no outcome of such a batch.
        """
        text = bytes(header[: -TIMES.size])
        answers = self._known.get(text)
        if answers is None:
            answers = self._read(text)
        if len(answers) != len(batch):
            raise ValueError(f"{len(answers)} answers to {len(batch)} requests")
        if type(base) is not bytearray:
            sizes = [output[5] for answer in answers if answer is not None for output in answer[2]]
            if sum(sizes) <= COPIED:
                # A segment holds the tensors first: this is all of them, and a little padding.
                end = sum([(size + ALIGNED - 1) & -ALIGNED for size in sizes])
                base = base[:end].tobytes()
        responses: list[InferResponse | None] = []
        for inference, answer in zip(batch, answers, strict=True):
            responses.append(None if answer is None else self._response(base, inference, answer))
        return Execution(responses, *TIMES.unpack_from(header, len(text)))

    def _read(self, text: bytes) -> "list[_Answer | None]":
        """What an outcome's JSON says, remembered when it is short and says nothing but where tensors lie."""
        found = orjson.loads(text)
        if type(found) is dict:
            raise _error_of(found["error"])
        answers = [None if answer is None else self._resolved(answer) for answer in found]
        if len(text) <= _KNOWN_BYTES and all(
            answer is not None and answer[0] is None and not answer[1] for answer in answers
        ):
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[text] = answers
        return answers

    def response_of(
        self, base: Any, header: bytes | bytearray, inference: Inference
    ) -> DeferredResponse:
        """A response that came apart from its batch; `base` is its own."""
        final, begun_ns, answer = orjson.loads(header)
        if answer is not None:
            response = self._response(base, inference, self._resolved(answer), final=bool(final))
        else:
            request = inference.request
            response = InferResponse(
                request.model_name, self._version, request.id, NO_OUTPUTS, NO_PARAMETERS, empty=True
            )
        if inference.flow is None:
            return DeferredResponse(inference, response, begun_ns)
        weight = RESPONSE_BYTES + len(base)
        inference.flow.sent(weight)
        return DeferredResponse(inference, response, begun_ns, weight)

    def failure(self, inference: Inference, error: InferenceError) -> InferResponse:
        """The final response to a request that gets no other."""
        return failure(inference.request, error, version=self._version)

    def _resolved(self, answer: collections.abc.Sequence[Any]) -> _Answer:
        """An answer's error, parameters and outputs, each of these with its types and with the shape that clients see."""
        error, parameters, outputs = answer
        return error, parameters or NO_PARAMETERS, [self._layout(*each) for each in outputs]

    def _layout(self, name: str, kind: str, shape: list[int], at: int, size: int) -> _Output:
        spec, given = self._outputs[name], tuple(shape)
        shown = batches.client_shape(spec, given, batched=self._batched)
        return name, datatypes.BY_NAME[kind], given, shown, at, size

    def _response(
        self, base: Any, inference: Inference, answer: _Answer, *, final: bool = True
    ) -> InferResponse:
        error, parameters, outputs = answer
        request = inference.request
        return InferResponse(
            request.model_name,
            self._version,
            request.id,
            NO_OUTPUTS if error is not None else [tensor_at(base, *each) for each in outputs],
            parameters,
            None if error is None else _error_of(error),
            final,
        )


def _error_of(found: list[str]) -> InferenceError:
    code, message = found
    return InferenceError(ErrorCode[code], message, reason=FailureReason.BACKEND)
