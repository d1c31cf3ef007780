"""Writes outputs to clients' shared memory on their way out (rows 5.17 to 5.20)."""

import collections.abc
import math

import msgspec
from typing_extensions import override

from naiad.core.cuda_regions import CudaRegion
from naiad.core.datatypes import BYTES
from naiad.core.device_tensor import DeviceTensor
from naiad.core.inference import OnResponse
from naiad.core.regions import Place
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import (
    UNPACKED,
    PackedStrings,
    PlacedTensor,
    Tensor,
    octets,
    pack,
    placed_tensor,
)
from naiad.engine.forms.formed import FormedResponses, failed
from naiad.errors import InferenceError, internal

_LONG = 1 << 20
"""Bytes of outputs that are copied in a thread; fewer take a tenth of a millisecond."""

Places = collections.abc.Mapping[str, Place]
"""By the name of an output: where it goes."""


def placed(request: InferRequest) -> Places:
    """The outputs that a request wants in regions; empty if there are none."""
    return {
        output.name: output.place
        for output in request.requested_outputs
        if output.place is not None
    }


class PlacedResponses(FormedResponses):
    """Outputs in regions; of these, responses say name, datatype and shape only.

    Args:
        on_response: gets the responses.
        places: bound ones.
    """

    __slots__ = ("_places",)

    WHAT = "the outputs could not be written to shared memory"

    def __init__(self, on_response: OnResponse, places: Places) -> None:
        super().__init__(on_response)
        self._places = places

    @override
    def __call__(self, response: InferResponse) -> None:
        if not self._working and response.error is None:
            for tensor in response.outputs:
                if type(tensor) is not PlacedTensor:
                    break
            else:  # the model's worker process has written them all
                self._on_response(response)
                return
        super().__call__(response)

    @override
    def form(self, response: InferResponse) -> InferResponse:
        """See there. INTERNAL for an output that its place is too small for (row 5.19)."""
        places = self._places
        try:
            outputs = [
                _write(tensor, places[tensor.name]) if tensor.name in places else tensor
                for tensor in response.outputs
            ]
        except InferenceError as error:
            return failed(response, error)
        return msgspec.structs.replace(response, outputs=outputs)

    @override
    def takes_long(self, response: InferResponse) -> bool:
        total = 0
        for tensor in response.outputs:
            place = self._places.get(tensor.name)
            if place is None:
                continue
            if isinstance(tensor, PlacedTensor):
                continue
            if place.region is not None and place.region.on_gpu:
                return True
            if tensor.datatype is not BYTES:
                total += tensor.array.nbytes
            elif isinstance(tensor, PackedStrings):
                total += tensor.packed.nbytes
            elif math.prod(tensor.shape) > UNPACKED:
                return True
        return total > _LONG


def _write(tensor: Tensor, place: Place) -> PlacedTensor:
    assert place.region is not None, "not bound"
    if isinstance(tensor, PlacedTensor):  # by the model's worker process
        return tensor
    if isinstance(tensor, DeviceTensor):
        _require(place, tensor, math.prod(tensor.shape) * tensor.datatype.size)
        assert isinstance(place.region, CudaRegion), "it may stay on a GPU for such a region only"
        place.region.copy(tensor.descriptor, tensor.lease, place.offset)
        return placed_tensor(tensor)
    if tensor.datatype is not BYTES:
        raw = octets(tensor.array)
    elif isinstance(tensor, PackedStrings):
        raw = tensor.packed
    else:
        raw = pack(tensor.array)
    _require(place, tensor, raw.nbytes)
    place.region.write(raw.data, place.offset)
    return placed_tensor(tensor)


def _require(place: Place, tensor: Tensor, size: int) -> None:
    if size > place.size:
        raise internal(
            f"shared memory size specified with the request for output '{tensor.name}' ({place.size} bytes) should be at least "
            f"{size} bytes to hold the results"
        )
