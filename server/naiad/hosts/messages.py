"""The server's types in messages of worker processes: batches, outcomes, responses, and the tensors of calls between models.

What the messages look like is said in `worker/codec.py`, which reads and writes them on both sides. One copy in: each tensor is copied
once, from where the client's bytes lie into shared memory; none if they lie there already (`tensors/shared_slots.py`). One copy out at most: small outputs are copied together, large ones stay
where the worker put them and are sent from there. BYTES stay the bytes that they are on the wire: no objects are made of them here.
"""

import collections.abc
import math
from typing import Any

import numpy as np
import orjson

from naiad.backends import batch as batches
from naiad.backends.instance import Execution
from naiad.config.model_config import ModelConfig
from naiad.config.sequence_tensors import model_outputs
from naiad.core import datatypes
from naiad.core.device_tensor import DeviceTensor, OnDevice
from naiad.core.flow import RESPONSE_BYTES
from naiad.core.inference import Inference
from naiad.core.regions import Region
from naiad.core.request import RequestedOutput
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse, failure
from naiad.core.tensor import (
    NO_VALUES,
    PackedStrings,
    PlacedTensor,
    Tensor,
    UnreadTensor,
    check_packed,
    packed_strings,
)
from naiad.errors import InferenceError
from naiad.hosts.alike import pack_alike, responses_alike
from naiad.hosts.device_tensors import DeviceTensors
from naiad.hosts.host import DeferredResponse
from naiad.hosts.worker import codec
from naiad.hosts.worker.codec import EXECUTED, RESPONSE
from naiad.hosts.worker.gpu.exported import Exported
from naiad.hosts.worker.layouts import Reader
from naiad.hosts.worker.link import Link, LinkBrokenError
from naiad.hosts.worker.payload import Payload
from naiad.tensors.memory import HOST, Memory
from naiad.tensors.region_files import NOWHERE, PLACED_FROM, REGION
from naiad.tensors.shared_slots import SHARED, SHARED_FROM, Place

COPIED = 1 << 18
"""Outputs of a batch up to this many bytes are copied out; more stay where they are."""

_BYTES = datatypes.BYTES.name

_CHECKED_BYTES = 1 << 18
"""BYTES of more bytes are not checked on the event loop: reading the elements checks them."""

_Resolved = tuple[str, datatypes.DataType, tuple[int, ...], tuple[int, ...], Memory]
"""Name, datatype, shape as it was sent, shape as clients see it, and where it lies."""


def described(
    tensors: collections.abc.Iterable[Tensor],
    lent: DeviceTensors | None = None,
    link: Link | None = None,
) -> list[tuple[str, str, Any]]:
    """Tensors as `codec.write` takes them; `lent`: those on a device that are lent to the worker they go to; `link`: its link, if it reads clients' shared memory.

    Raises:
        InferenceError: UNSUPPORTED: one is on a device, and the receiver takes none.
    """
    return [(each.name, each.datatype.name, _values(each, lent, link)) for each in tensors]


def _values(tensor: Tensor, lent: DeviceTensors | None, link: Link | None) -> Any:
    if type(tensor) is PackedStrings:
        return tensor
    if type(tensor) is UnreadTensor:
        return _there(tensor, link)
    if lent is None or type(tensor) is not DeviceTensor:
        return tensor.array
    return Exported(tensor.shape, tensor.placed, lent.lend(tensor))


def tensors_of(base: Any, group: Any, lent: DeviceTensors | None = None) -> list[Tensor]:
    """The tensors of a group that was read with `resolved`; `lent`: those on a device are of this worker.

    Raises:
        ValueError: the bytes are not such tensors.
    """
    return [_tensor(base, each, at, size, lent) for each, at, size in group[1]]


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


def _tensor(
    base: Any, resolved: _Resolved, at: int, size: int, lent: DeviceTensors | None = None
) -> Tensor:
    name, datatype, given, shown, memory = resolved
    if memory is not HOST:
        if memory == REGION:
            return PlacedTensor(name, datatype, shown, NO_VALUES)
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


def pack(
    batch: collections.abc.Sequence[Inference],
    lent: DeviceTensors | None = None,
    link: Link | None = None,
    placing: Link | None = None,
) -> tuple[bytes, Payload]:
    """The header and the tensors of a batch; `lent`: see `described`.

    `link`: that of the worker, if tensors in shared files need not be copied. Those of another model's request are copied: it may use them
    again, and the model that gets them may change them.
    `placing`: the same, if the worker writes outputs to clients' shared memory.
    """
    alike = pack_alike(batch, _rest, places=placing is not None)
    if alike is not None:
        return alike
    groups: list[Any] = []
    plain = True
    places: list[list[_OutputPlace]] | None = None
    before: list[RequestedOutput] = []
    names: tuple[str, ...] = ()
    for inference in batch:
        request = inference.request
        wanted = request.requested_outputs
        if wanted is not before:
            before, names = wanted, tuple(request.output_names)
            if placing is not None and places is None and any(each.place for each in wanted):
                places = _places(batch, placing)
                plain = False
        extra: tuple[Any, ...] = (inference.batch_size, names)
        if request.on_device is not None:
            extra += _on_device(request.on_device)
        inputs = request.inputs
        if len(inputs) == 1 and type(tensor := inputs[0]) is Tensor:
            # The usual case, which `described` describes in the same way.
            tensors = [(tensor.name, tensor.datatype.name, tensor.array)]
        else:
            tensors = described(inputs, lent, placing)
        if link is not None and not inference.called:
            _share(tensors, link)
        groups.append((extra, tensors))
        plain = plain and not (
            request.id
            or request.parameters
            or request.correlation_id
            or request.flags
            or request.timeout_us
            or inference.cancelled
            or (inference.traced is not None and inference.traced.context)
        )
    if plain:
        return codec.write(groups)
    return codec.write(groups, _rest(batch, places))


def _rest(
    batch: collections.abc.Sequence[Inference], places: "list[list[_OutputPlace]] | None" = None
) -> bytes:
    """The rest of the header of a batch: what differs from request to request."""
    fields = [
        _row(inference, None if places is None else places[index])
        for index, inference in enumerate(batch)
    ]
    return _to_json(fields)


def _row(inference: Inference, places: "list[_OutputPlace] | None") -> tuple[Any, ...]:
    """The fields of a request that differ from request to request."""
    request = inference.request
    row: tuple[Any, ...] = (
        request.id, request.correlation_id, request.flags, request.timeout_us, request.parameters, inference.cancelled,
    )  # fmt: skip
    if context := inference.trace_context:
        return *row, places or (), context
    return row if places is None else (*row, places)


def _share(tensors: list[tuple[str, str, Any]], link: Link) -> None:
    """Replace the tensors that lie in shared files by their places there."""
    for at, (name, datatype, values) in enumerate(tensors):
        if type(values) is np.ndarray and datatype != _BYTES and values.nbytes >= SHARED_FROM:
            try:
                place = link.shared.place(values, link.share)
            except (OSError, LinkBrokenError):
                return  # they are copied, and the message itself says what is wrong
            if place is not None:
                tensors[at] = name, datatype, place


def _there(tensor: UnreadTensor, link: Link | None) -> Any:
    """An input in a client's shared memory: its place, for the worker to read it; its values if the worker cannot have the object, `NOWHERE` if they are gone as well."""
    place, region = tensor.place, tensor.place.region
    if link is not None and isinstance(region, Region):
        try:
            number = link.lent.number(region, link.share)
        except (OSError, LinkBrokenError):
            try:
                return tensor.array
            except InferenceError:  # what is wrong with one must not fail the others of its batch
                number = NOWHERE
        return Place(tensor.shape, number, region.offset + place.offset)
    return tensor.array


_OutputPlace = tuple[str, int, int, int]
"""Of an output that a worker writes: its name, the number of the object, offset there, bytes."""


def _places(batch: collections.abc.Sequence[Inference], link: Link) -> list[list[_OutputPlace]]:
    """For each request the outputs that the worker is to write; the objects are sent."""
    found: list[list[_OutputPlace]] = []
    for inference in batch:
        there: list[_OutputPlace] = []
        found.append(there)
        if inference.traced is not None:
            continue  # a trace may have the values
        for output in inference.request.requested_outputs:
            place = output.place
            if place is None or place.size < PLACED_FROM:
                continue
            region = place.region
            if not isinstance(region, Region):
                continue
            try:
                number = link.lent.number(region, link.share)
            except (OSError, LinkBrokenError):
                continue  # the server writes it
            there.append((output.name, number, region.offset + place.offset, place.size))
    return found


def _on_device(wanted: OnDevice) -> tuple[Any, ...]:
    return wanted.device, None if wanted.names is None else tuple(sorted(wanted.names))


def _to_json(fields: list[Any]) -> bytes:
    """As `codec.to_json`, in a third of the time. None of the fields is None."""
    try:
        text = orjson.dumps(fields)
    except TypeError:  # half a surrogate pair, a subclass of float
        text = b"null"
    # What orjson writes in place of NaN and infinity.
    return codec.to_json(fields).encode() if b"null" in text else text


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
            outputs = [_tensor(base, each, at, size, lent) for each, at, size in group[1]]
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
        _, datatype, given, _, _ = resolved(name, kind, shape, HOST if memory == REGION else memory)
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
            else _require_places(tensors_of(base, group, lent), inference),
            parameters or NO_PARAMETERS,
            codec.error_of(error),
            final,
        )
