"""Messages of worker processes into the server's types: outcomes, responses, and the tensors of calls between models.

What the messages look like is said in `link/codec.py`. One copy out at most: small outputs are copied together, large ones stay where the worker put them and
are sent from there, and an output that is an input of its request is sent from where that lies.
"""

import math
from typing import Any

import numpy as np

from naiad.backends import batch as batches
from naiad.backends.instance import Execution
from naiad.config.model_config import ModelConfig
from naiad.config.sequence_tensors import model_outputs
from naiad.core import datatypes
from naiad.core.flow import RESPONSE_BYTES
from naiad.core.inference import Inference
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse, failure
from naiad.core.tensor import NO_VALUES, PlacedTensor, Tensor, check_packed, packed_strings
from naiad.errors import InferenceError
from naiad.hosts.alike import responses_alike
from naiad.hosts.device_tensors import DeviceTensors
from naiad.hosts.host import DeferredResponse
from naiad.hosts.link import codec
from naiad.hosts.link.codec import EXECUTED, RESPONSE
from naiad.hosts.link.layouts import Reader
from naiad.tensors.memory import HOST, Memory
from naiad.tensors.region_files import REGION
from naiad.tensors.shared_slots import PLACE_BYTES, SHARED, input_at, lease_of

COPIED = 1 << 18
"""Outputs of a batch up to this many bytes are copied out; more stay where they are."""

_CHECKED_BYTES = 1 << 18
"""BYTES of more bytes are not checked on the event loop: reading the elements checks them."""

_Resolved = tuple[str, datatypes.DataType, tuple[int, ...], tuple[int, ...], Memory]
"""Name, datatype, shape as it was sent, shape as clients see it, and where it lies."""


def tensors_of(
    base: Any, group: Any, lent: DeviceTensors | None = None, inference: Inference | None = None
) -> list[Tensor]:
    """The tensors of a group that was read with `resolved`.

    Args:
        base: where they are.
        group: the group.
        lent: those on a device are of this worker.
        inference: they are the outputs of it, some perhaps one of its inputs.

    Raises:
        ValueError: the bytes are not such tensors.
    """
    return [_tensor(base, each, at, size, lent, inference) for each, at, size in group[1]]


def resolved(name: str, kind: str, shape: tuple[int, ...], memory: Memory) -> _Resolved:
    """What a reader needs of tensors that are not the outputs of a model.

    Raises:
        ValueError: no tensor has such a shape.
    """
    if min(shape, default=0) < 0:
        raise ValueError(f"a tensor of shape {list(shape)}, expected dimensions of 0 and more")
    if memory in (SHARED, REGION):
        raise ValueError(
            f"tensor '{name}' is in memory of kind '{memory.kind}', which only the server refers to"
        )
    return name, datatypes.BY_NAME[kind], shape, shape, memory


def _tensor(  # noqa: PLR0917 - of every output
    base: Any,
    resolved: _Resolved,
    at: int,
    size: int,
    lent: DeviceTensors | None = None,
    inference: Inference | None = None,
) -> Tensor:
    name, datatype, given, shown, memory = resolved
    if memory is not HOST:
        if memory == REGION:
            return PlacedTensor(name, datatype, shown, NO_VALUES)
        if memory == SHARED and inference is not None:
            size = math.prod(shown) * datatype.size
            array = _input(inference, input_at(bytes(base[at : at + PLACE_BYTES])), size)
            return Tensor(name, datatype, shown, np.ndarray(shown, datatype.dtype, array))
        if lent is None:
            raise ValueError(f"tensor '{name}' is on a device, of which nothing was asked for")
        packed_descriptor = bytes(base[at : at + size])
        return lent.received(name, datatype, shown, memory, packed_descriptor)
    if datatype is datatypes.BYTES:
        packed: np.ndarray[Any, Any] = np.ndarray((size,), np.uint8, base, at)
        count = math.prod(given)
        if size <= _CHECKED_BYTES:
            check_packed(packed, count)
        return packed_strings(name, shown, packed)
    if size:
        array = np.ndarray(given, datatype.dtype, base, at)
    elif 0 in given:
        array = np.empty(given, datatype.dtype)
    else:
        raise ValueError(f"no bytes for a tensor of shape {list(given)}")
    return Tensor(name, datatype, shown, array if shown is given else array.reshape(shown))


def _input(inference: Inference, which: int, size: int) -> Any:
    """The values of an input, in a file that the worker has as well: it may have changed them, and says that it returns them.

    Raises:
        ValueError: there is no such input with so many bytes.
    """
    inputs = inference.request.inputs
    if which < len(inputs) and type(inputs[which]) is Tensor:
        array = inputs[which].array
        if array.nbytes == size and array.flags.c_contiguous and lease_of(array) is not None:
            return array
    raise ValueError(f"input {which} with {size} bytes as an output, which was not shared")


def _require_places(outputs: list[Tensor], inference: Inference) -> list[Tensor]:
    """The outputs of a response.

    Raises:
        ValueError: the worker says that it has written one that was to go elsewhere.
    """
    for tensor in outputs:
        if type(tensor) is PlacedTensor and not any(
            each.name == tensor.name and each.place is not None
            for each in inference.request.requested_outputs
        ):
            raise ValueError(
                f"output '{tensor.name}' was not to be written to a client's shared memory"
            )
    return outputs


class ResponseReader:
    """Reads outcomes and responses of one model version.

    Args:
        config: the model's config.
        version: the version that answers.
    """

    def __init__(self, config: ModelConfig, version: int) -> None:
        self._version = version
        self._batched = config.max_batch_size > 0
        self._outputs = {spec.name: spec for spec in model_outputs(config)}
        self._reader = Reader(self._resolve)

    def outcome(
        self,
        base: Any,
        header: bytes | bytearray,
        batch: list[Inference],
        lent: DeviceTensors | None = None,
    ) -> Execution[InferResponse]:
        """What came of a batch.

        Args:
            base: where its tensors are.
            header: the outcome's.
            batch: the inferences.
            lent: those of the worker.

        Raises:
            InferenceError: the whole batch failed, or its tensors are where the server cannot read them.
            Exception: it is no outcome of such a batch.
        """
        layout, rest = self._reader.read(header, len(batch))
        input_end_ns, output_start_ns, padding_rows = EXECUTED.unpack_from(rest)
        groups = layout.groups
        more = codec.read_json(rest[EXECUTED.size :]) if len(rest) > EXECUTED.size else ()
        if not groups:
            error = codec.error_of(more)
            if error is not None:
                raise error
        if len(groups) != len(batch):
            raise ValueError(f"{len(groups)} responses to {len(batch)} requests")
        if layout.size <= COPIED:
            # As bytes, so that no reader can change them, and ensembles need no view of each.
            packed = type(base) is bytearray
            base = bytes(base) if packed else base[: layout.size].tobytes()
        version = self._version
        alike = layout.alike
        if alike is not None and not more:
            found = responses_alike(base, alike, batch, version)
            return Execution(found, input_end_ns, output_start_ns, padding_rows)
        responses: list[InferResponse | None] = []
        for inference, group in zip(batch, groups, strict=True):
            if group is None:
                responses.append(None)
                continue
            request = inference.request
            outputs = tensors_of(base, group, lent, inference)
            _require_places(outputs, inference)
            responses.append(
                InferResponse(request.model_name, version, request.id, outputs, NO_PARAMETERS)
            )
        rescheduled: list[int] = []
        for index, error, parameters in more:
            if error is None and parameters is None:
                rescheduled.append(index)
                continue
            responses[index] = self._response(
                base, batch[index], groups[index], error=error, parameters=parameters, lent=lent
            )
        return Execution(responses, input_end_ns, output_start_ns, padding_rows, rescheduled)

    def deferred(
        self,
        base: Any,
        header: bytes | bytearray,
        inference: Inference,
        lent: DeviceTensors | None = None,
    ) -> DeferredResponse:
        """A deferred response; `base` is its own.

        Raises:
            InferenceError: its tensors are where the server cannot read them.
            Exception: it is not a response.
        """
        layout, rest = self._reader.read(header)
        final, begun_ns = RESPONSE.unpack_from(rest)
        (group,) = layout.groups
        error, parameters = None, NO_PARAMETERS
        if len(rest) > RESPONSE.size:
            error, parameters = codec.read_json(rest[RESPONSE.size :])
        if group is None and error is None:
            request = inference.request
            response = InferResponse(
                request.model_name, self._version, request.id, NO_OUTPUTS, NO_PARAMETERS, empty=True
            )
        else:
            response = self._response(
                base, inference, group, error=error, parameters=parameters, final=final, lent=lent
            )
        if inference.flow is None:
            return DeferredResponse(inference, response, begun_ns)
        weight = RESPONSE_BYTES + len(base)
        inference.flow.sent(weight)
        return DeferredResponse(inference, response, begun_ns, weight)

    def failed(self, inference: Inference, error: InferenceError, now_ns: int) -> DeferredResponse:
        """The final response to a request that gets no other."""
        response = failure(inference.request, error, version=self._version)
        return DeferredResponse(inference, response, now_ns)

    def _resolve(self, name: str, kind: str, shape: tuple[int, ...], memory: Memory) -> _Resolved:
        shown = batches.client_shape(self._outputs[name], shape, batched=self._batched)
        _, datatype, given, _, _ = resolved(
            name, kind, shape, HOST if memory in (REGION, SHARED) else memory
        )
        return name, datatype, given, shown, memory

    def _response(
        self,
        base: Any,
        inference: Inference,
        group: Any,
        *,
        error: Any = None,
        parameters: dict[str, Any] = NO_PARAMETERS,
        final: bool = True,
        lent: DeviceTensors | None = None,
    ) -> InferResponse:
        request = inference.request
        return InferResponse(
            request.model_name,
            self._version,
            request.id,
            NO_OUTPUTS
            if error is not None
            else _require_places(tensors_of(base, group, lent, inference), inference),
            parameters or NO_PARAMETERS,
            codec.error_of(error),
            final,
        )
