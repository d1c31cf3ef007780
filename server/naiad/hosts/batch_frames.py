"""Batches as a worker's messages, on the server's side; what is in them is said in `worker/content.py`.

One copy in: each tensor is copied once, from where the client's bytes lie into shared memory. One copy out at most: small outputs
are copied together, large ones stay where the worker put them and are sent from there.
"""

import collections.abc
from typing import Any

import numpy as np
import orjson

from naiad.backends import batch as batches
from naiad.backends.backend import Execution
from naiad.backends.python.api.byte_tensors import (
    deserialize_bytes_tensor,
    serialize_byte_tensor,
)
from naiad.config.model_config import ModelConfig
from naiad.core import datatypes
from naiad.core.inference import Inference
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.worker.link import Parcel

COPIED = 1 << 18
"""Outputs of a batch up to this many bytes are copied out; more stay where they are."""


def pack(batch: collections.abc.Sequence[Inference]) -> tuple[bytes, Parcel]:
    """The header and the tensors of a batch."""
    parcel = Parcel()
    requests: list[Any] = []
    for inference in batch:
        request = inference.request
        inputs: list[Any] = []
        for tensor in request.inputs:
            array = tensor.array
            flat = tensor.datatype is datatypes.BYTES
            at, size = parcel.add(serialize_byte_tensor(array) or b"" if flat else array)
            inputs.append((tensor.name, tensor.datatype.name, array.shape, at, size))
        requests.append(
            (
                request.id, request.correlation_id, request.flags, request.timeout_us, request.parameters,
                request.requested_outputs, inference.cancelled, inputs,
            )
        )  # fmt: skip
    return orjson.dumps(requests), parcel


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

    def unpack(self, base: Any, header: bytes, batch: list[Inference]) -> Execution:
        """What came of a batch.

        Args:
            base: the segment with its tensors.
            header: the outcome's.
            batch: the inferences.

        Raises:
            InferenceError: the whole batch failed.
            Exception: it is no outcome of such a batch.
        """
        found = orjson.loads(header)
        whole = found.get("error")
        if whole is not None:
            raise _error_of(whole)
        answers = found["answers"]
        if len(answers) != len(batch):
            raise ValueError(f"{len(answers)} answers to {len(batch)} requests")
        size = sum([output[4] for answer in answers for output in answer[2]])
        if size <= COPIED:
            # A segment holds the tensors first: this is all of them, and a little padding.
            end = max([output[3] + output[4] for each in answers for output in each[2]], default=0)
            base = np.frombuffer(base[:end].tobytes(), np.uint8)
        version = self._version
        responses: list[InferResponse] = []
        for inference, (error, parameters, outputs) in zip(batch, answers, strict=True):
            if error is not None:
                responses.append(batches.failure(inference, _error_of(error), version=version))
                continue
            request = inference.request
            responses.append(
                InferResponse(
                    request.model_name,
                    version,
                    request.id,
                    [self._tensor(base, output) for output in outputs],
                    parameters or NO_PARAMETERS,
                )
            )
        return Execution(responses, *found["times"])

    def _tensor(self, base: Any, output: collections.abc.Sequence[Any]) -> Tensor:
        name, kind, shape, at, size = output
        datatype = datatypes.BY_NAME[kind]
        if datatype is datatypes.BYTES:
            array = deserialize_bytes_tensor(base[at : at + size].tobytes()).reshape(shape)
        elif size:
            array = np.ndarray(shape, datatype.dtype, base, at)
        else:
            array = np.empty(shape, datatype.dtype)
        spec = self._outputs[name]
        if spec.reshape is not None:
            array = array.reshape(batches.client_shape(spec, array.shape, batched=self._batched))
        return Tensor(name, datatype, array.shape, array)


def _error_of(found: list[str]) -> InferenceError:
    code, message = found
    return InferenceError(ErrorCode[code], message, reason=FailureReason.BACKEND)
