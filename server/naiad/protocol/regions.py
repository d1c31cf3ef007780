"""Brings a request's tensors out of clients' shared memory before a model gets it (rows 5.17, 5.18); the same for both protocols.

Regions are looked up on the event loop; what is large, or on a GPU, is copied on a thread. What its model takes on that GPU is not copied here. The engine writes outputs (`engine.placed`).
"""

import collections.abc
import functools
import math
import typing

import msgspec
import numpy as np

from naiad.core.cuda_regions import CudaRegion
from naiad.core.datatypes import BYTES
from naiad.core.device_tensor import DeviceTensor, OnDevice
from naiad.core.inference import Cancellable
from naiad.core.regions import Place, Region, Regions
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.tensor import NO_VALUES, UNPACKED, RegionTensor, Tensor, UnreadTensor, unread_tensor
from naiad.engine.api import Engine, ModelTraits
from naiad.errors import InferenceError
from naiad.protocol import raw_tensors
from naiad.protocol.codec.packed_strings import check
from naiad.protocol.codec.pool import Codec
from naiad.protocol.offload import OffloadedCall
from naiad.protocol.raw_tensors import InputSpec
from naiad.tensors.descriptor import Descriptor
from naiad.tensors.memory import Memory

_COPIED_HERE = 1 << 20
"""Bytes of numbers that are copied on the event loop, in a tenth of a millisecond."""

_LARGE = 1 << 16
"""Bytes of numbers from which new memory costs more than the copy."""

_STRINGS_HERE = 4 * UNPACKED
"""Bytes of strings that are looked through there."""

Array = np.ndarray[typing.Any, typing.Any]
Memories = collections.abc.Sequence[Array | None]

Proceed = collections.abc.Callable[[InferRequest], Cancellable | None]
Fail = collections.abc.Callable[[InferenceError], None]
Work = collections.abc.Callable[[], InferRequest]
Offload = collections.abc.Callable[[Work, Proceed], Cancellable | None]


def bring(
    engine: Engine,
    codec: Codec | None,
    request: InferRequest,
    proceed: Proceed,
    offload: Offload,
) -> Cancellable | None:
    """Go on with a request whose inputs are ordinary tensors and whose outputs know their regions.

    Args:
        engine: has the regions, and knows which models take tensors on a GPU.
        request: one with `in_regions`.
        codec: looks through strings; None: the thread does.
        proceed: called with the request, on the loop, perhaps before this returns.
        offload: does slow work on a thread, and gives the result to `proceed`.

    Raises:
        InferenceError: NOT_FOUND for a region that is not registered, INVALID_ARG for a place outside of it or an object that is too small, and
            the errors of `Engine.look_up`.
    """
    traits = engine.look_up(request.model_name, request.model_version).traits
    found = left_there(engine.regions, request, traits)
    if found is not None:
        return proceed(found)
    return bring_some(engine, codec, request, traits, proceed, offload)


def bring_some(  # noqa: PLR0917 - as of `bring`
    engine: Engine,
    codec: Codec | None,
    request: InferRequest,
    traits: ModelTraits,
    proceed: Proceed,
    offload: Offload,
) -> Cancellable | None:
    """As `bring`, of a request for a model with these traits that is not left where it is as a whole: `left_there` gave None."""
    bound = bind(engine.regions, request)
    if any(place.region is not None and place.region.on_gpu for place in _places(bound)):
        bound = on_gpu(bound, traits)
    elif traits.reads_regions:
        bound = unread(bound)
    memory = _memory(engine.regions, bound)
    if takes_long(bound):
        return offload(functools.partial(_read_and_check, codec, bound, memory), proceed)
    return proceed(read(bound, memory))


def offloaded(codec: Codec | None, fail: Fail) -> Offload:
    """An `Offload` whose errors go to `fail`."""

    def offload(work: Work, proceed: Proceed) -> Cancellable | None:
        return OffloadedCall(codec, work, proceed=proceed, fail=fail)

    return offload


def left_there(regions: Regions, request: InferRequest, traits: ModelTraits) -> InferRequest | None:
    """What `bind`, `unread` and `read` make of a request whose tensors in regions all stay there, in one go; None for another one.

    Args:
        regions: those of the server.
        request: one with `in_regions`.
        traits: of its model.

    Raises:
        InferenceError: as `bring`.
    """
    if not traits.reads_regions:
        return None
    inputs: list[Tensor] = []
    for tensor in request.inputs:
        if type(tensor) is not RegionTensor:
            inputs.append(tensor)
            continue
        left = _left_there(tensor, regions.bound(tensor.place))
        if left is None:
            return None
        inputs.append(left)
    outputs: list[RequestedOutput] = []
    for wanted in request.requested_outputs:
        output = wanted
        if output.place is not None:
            place = regions.bound(output.place)
            if type(place.region) is not Region:
                return None
            output = RequestedOutput(output.name, output.classes, place)
        outputs.append(output)
    return msgspec.structs.replace(
        request, inputs=inputs, requested_outputs=outputs, in_regions=False
    )


def bind(regions: Regions, request: InferRequest) -> InferRequest:
    """The request with the region of each place; on the event loop.

    Raises:
        InferenceError: as `bring`.
    """
    inputs = [
        msgspec.structs.replace(each, place=regions.bound(each.place))
        if isinstance(each, RegionTensor)
        else each
        for each in request.inputs
    ]
    outputs = [
        each
        if each.place is None
        else msgspec.structs.replace(each, place=regions.bound(each.place))
        for each in request.requested_outputs
    ]
    return msgspec.structs.replace(request, inputs=inputs, requested_outputs=outputs)


def on_gpu(request: InferRequest, traits: ModelTraits) -> InferRequest:
    """The request with what its model can take and leave on a GPU, where it is in regions there: its worker opens them itself.

    Args:
        request: as `bind` returns it.
        traits: of the model.
    """
    inputs = [
        tensor if (tensor := _opened_there(each, traits.input_device)) is not None else each
        for each in request.inputs
    ]
    names: set[str] = set()
    device = -1
    if traits.outputs_may_stay:
        for output in request.requested_outputs:
            place = output.place
            region = None if place is None else place.region
            if isinstance(region, CudaRegion) and device in (-1, region.opened.device):
                device = region.opened.device
                names.add(output.name)
    stays = OnDevice(device, frozenset(names)) if names else None
    return msgspec.structs.replace(request, inputs=inputs, on_device=stays)


def unread(request: InferRequest) -> InferRequest:
    """The request with its large inputs in regions in the host's memory left there: its worker process reads them.

    Args:
        request: as `bind` returns it.

    Raises:
        InferenceError: INVALID_ARG for an object that has become too small.
    """
    inputs = [
        (_left_there(each, each.place) or each) if isinstance(each, RegionTensor) else each
        for each in request.inputs
    ]
    return msgspec.structs.replace(request, inputs=inputs)


def _left_there(tensor: RegionTensor, place: Place) -> UnreadTensor | None:
    """An input of numbers in a region in the host's memory, whole and not a small one, for its worker process to read; None of any other, of which `read` says what is wrong."""
    region, size, shape = place.region, place.size, tensor.shape
    if (
        type(region) is not Region
        or tensor.datatype is BYTES
        or size < _LARGE
        or size != math.prod(shape) * tensor.datatype.size
        or min(shape, default=0) < 0
    ):
        return None
    region.require(place.offset, size)
    return unread_tensor(tensor, place)


def _opened_there(tensor: Tensor, device: int | None) -> DeviceTensor | None:
    """An input that is in a region on this GPU, whole; None of any other."""
    if not isinstance(tensor, RegionTensor) or tensor.datatype is BYTES:
        return None
    place, region = tensor.place, tensor.place.region
    if not isinstance(region, CudaRegion) or region.opened.device != device:
        return None
    opened = region.opened
    if not place.size or place.size != math.prod(tensor.shape) * tensor.datatype.size:
        return None
    placed = Memory("cuda", opened.device)
    packed = Descriptor(
        opened.handle, opened.uuid, place.offset, place.size, opened.owner, 0
    ).packed()
    return DeviceTensor(
        tensor.name, tensor.datatype, tensor.shape, NO_VALUES, None, placed, packed, opened.lease
    )


def _places(request: InferRequest) -> collections.abc.Iterator[Place]:
    for tensor in request.inputs:
        if isinstance(tensor, RegionTensor):
            yield tensor.place
    for output in request.requested_outputs:
        if output.place is not None:
            yield output.place


def takes_long(request: InferRequest) -> bool:
    """Whether `read` would keep the event loop for long."""
    numbers = strings = 0
    for each in request.inputs:
        if isinstance(each, RegionTensor):
            if each.place.region is not None and each.place.region.on_gpu:
                return True
            if each.datatype is BYTES:
                strings += each.place.size
            else:
                numbers += each.place.size
    return numbers > _COPIED_HERE or strings > _STRINGS_HERE


def _memory(regions: Regions, request: InferRequest) -> Memories:
    """Shared memory for the large inputs that are copied; on the event loop."""
    return [
        regions.memory(each.place.size, request.model_name)
        if isinstance(each, RegionTensor)
        and each.place.size >= _LARGE
        and each.datatype is not BYTES
        and not (each.place.region is not None and each.place.region.on_gpu)
        else None
        for each in request.inputs
    ]


def read(request: InferRequest, memory: Memories) -> InferRequest:
    """The request with the values of its inputs, of which those in regions are copied; they may be faulty. Any thread.

    Args:
        request: as `bind` returns it.
        memory: for each input where it is copied to; None: new memory.

    Raises:
        InferenceError: INVALID_ARG for an object that has become too small.
    """
    inputs = [
        _read(each, request.model_name, into) if isinstance(each, RegionTensor) else each
        for each, into in zip(request.inputs, memory, strict=True)
    ]
    return msgspec.structs.replace(request, inputs=inputs, in_regions=False)


def _read(tensor: RegionTensor, model: str, into: Array | None) -> Tensor:
    place, datatype, shape = tensor.place, tensor.datatype, tensor.shape
    assert place.region is not None, "not bound"
    spec = InputSpec(tensor.name, datatype, shape, math.prod(shape))
    if datatype is BYTES:
        body = place.region.values(place.offset, place.size).tobytes()
        return raw_tensors.read(body, 0, place.size, spec, model=model)
    if place.size != spec.count * datatype.size:
        return raw_tensors.wrong_size(spec, place.size, model=model)
    # Octets: bfloat16 knows no buffer protocol.
    octets = place.region.values(place.offset, place.size, into)
    return Tensor(tensor.name, datatype, shape, octets.view(datatype.dtype).reshape(shape))


def _read_and_check(codec: Codec | None, request: InferRequest, memory: Memories) -> InferRequest:
    return check(codec, read(request, memory))
