"""Batches, and the tensors of calls between models, into messages for worker processes: the server's types as `link/codec.py` writes them.

One copy in: each tensor is copied once, from where the client's bytes lie into shared memory; none if they lie there already (`tensors/shared_slots.py`). BYTES
stay the bytes that they are on the wire: no objects are made of them here.
"""

import collections.abc
from typing import Any

import numpy as np
import orjson

from naiad.core import datatypes
from naiad.core.cuda_regions import CudaRegion
from naiad.core.device_tensor import DeviceTensor, OnDevice
from naiad.core.inference import Inference
from naiad.core.regions import Region
from naiad.core.request import RequestedOutput
from naiad.core.tensor import NO_VALUES, PackedStrings, Tensor, UnreadTensor
from naiad.errors import InferenceError
from naiad.hosts.alike import pack_alike
from naiad.hosts.device_tensors import DeviceTensors
from naiad.hosts.link import codec
from naiad.hosts.link.exported import Exported
from naiad.hosts.link.link import Link, LinkBrokenError
from naiad.hosts.link.payload import Payload
from naiad.tensors.descriptor import Descriptor
from naiad.tensors.memory import Memory
from naiad.tensors.region_files import NOWHERE, PLACED_FROM
from naiad.tensors.shared_slots import SHARED_FROM, Place

_BYTES = datatypes.BYTES.name


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
        if request.on_device is not None and lent is not None and placing is not None:
            there = _places_on_device(inference, lent)
            tensors += there
            extra += (len(there),)
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
    fields: list[tuple[Any, ...]] = []
    for inference in batch:
        request, traced = inference.request, inference.traced
        row: tuple[Any, ...] = (
            request.id, request.correlation_id, request.flags, request.timeout_us, request.parameters, inference.cancelled,
        )  # fmt: skip
        if traced is not None and traced.context:
            row = *row, () if places is None else places[len(fields)], traced.context
        elif places is not None:
            row = *row, places[len(fields)]
        fields.append(row)
    return _to_json(fields)


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
            number = link.lent.number(region, place.size, link.share)
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
                number = link.lent.number(region, place.size, link.share)
            except (OSError, LinkBrokenError):
                continue  # the server writes it
            there.append((output.name, number, region.offset + place.offset, place.size))
    return found


def _places_on_device(inference: Inference, lent: DeviceTensors) -> list[tuple[str, str, Any]]:
    """The places of outputs in clients' memory on the GPU on which they may stay, for the worker to write them there: as tensors of bytes, which are lent to it."""
    wanted = inference.request.on_device
    found: list[tuple[str, str, Any]] = []
    if wanted is None or wanted.names is None or inference.traced is not None:
        return found  # a trace may have the values
    for output in inference.request.requested_outputs:
        place = output.place
        region = None if place is None else place.region
        if place is None or not isinstance(region, CudaRegion) or output.name not in wanted.names:
            continue
        opened, shape = region.opened, (place.size,)
        packed = Descriptor(
            opened.handle, opened.uuid, place.offset, place.size, opened.owner, 0
        ).packed()
        placed = Memory("cuda", opened.device)
        tensor = DeviceTensor(
            output.name, datatypes.UINT8, shape, NO_VALUES, None, placed, packed, opened.lease
        )
        found.append((output.name, "UINT8", Exported(shape, placed, lent.lend(tensor))))
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
