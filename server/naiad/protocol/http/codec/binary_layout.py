"""What the JSON in front of binary tensors says, remembered by its bytes.

A client that sends binary tensors repeats the same JSON with every request: names, shapes, sizes. Reading it costs more than
everything else about a small binary request, so its content is kept and only the tensors are cut out again. Kept are short ones
without a request id and without tensors of a few strings, a bounded number for each model; whatever differs by one byte is read as ever.
"""

import math

from naiad.core.datatypes import BYTES, DataType
from naiad.core.record import Record
from naiad.core.request import InferRequest
from naiad.core.tensor import PackedStrings
from naiad.protocol import raw_tensors
from naiad.protocol.http.codec import infer_json
from naiad.protocol.http.codec.infer_json import Decoded, ReplyForm

LONGEST = 2_048
"""Bytes of JSON that are kept at most; one with so many inputs that it is longer belongs to tensors that dwarf it."""

MOST = 64
"""Layouts that are kept for a model; when full it is cleared, because a hit must cost one lookup."""


class _TensorSlice(Record, frozen=True):
    """The bytes of one input behind the JSON; `start` counts from the JSON's end."""

    name: str
    datatype: DataType
    shape: tuple[int, ...]
    count: int
    start: int
    size: int


class _Layout(Record, frozen=True):
    """The content of one JSON. `request` has no inputs and is never handed out."""

    request: InferRequest
    form: ReplyForm
    places: tuple[_TensorSlice, ...]
    size: int


class BinaryLayouts:
    """Decodes infer requests of one model version, with a memory for binary ones; answers and refuses as `infer_json.decode`."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, _Layout] = {}

    def decode(
        self, body: bytes, header_length: int, *, model: str, version: int, max_input_size: int
    ) -> Decoded:
        """Read a request; arguments and errors are those of `infer_json.decode`."""
        size = len(body) - header_length
        if not size or header_length > LONGEST:
            return infer_json.decode(
                body, header_length, model=model, version=version, max_input_size=max_input_size
            )
        document = body[:header_length]
        layout = self._known.get(document)
        if layout is not None and layout.size == size:
            return _cut(layout, body, header_length)
        decoded = infer_json.decode(
            body, header_length, model=model, version=version, max_input_size=max_input_size
        )
        layout = _layout_of(decoded, size)
        if layout is not None:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[document] = layout
        return decoded


def _cut(layout: _Layout, body: bytes, header_length: int) -> Decoded:
    known = layout.request
    model = known.model_name
    inputs = [
        raw_tensors.read(
            body,
            header_length + place.start,
            place.size,
            model=model,
            name=place.name,
            datatype=place.datatype,
            shape=place.shape,
            count=place.count,
        )
        for place in layout.places
    ]
    request = InferRequest(
        model,
        known.model_version,
        "",
        inputs,
        known.requested_outputs,
        dict(known.parameters),
        known.priority,
        known.timeout_us,
        known.correlation_id,
        known.flags,
    )
    return Decoded(request, layout.form)


def _layout_of(decoded: Decoded, size: int) -> _Layout | None:
    """What to remember of a request; None for one whose JSON does not say everything but the bytes.

    An input that came as JSON takes no bytes behind it, so then the sizes of all do not add up to what came; an empty one takes
    none either way.
    """
    request = decoded.request
    if request.id:
        return None
    places: list[_TensorSlice] = []
    start = 0
    for tensor in request.inputs:
        if tensor.fault is not None:
            return None
        if type(tensor) is PackedStrings:
            count, length = math.prod(tensor.shape), tensor.packed.size
        elif tensor.datatype is BYTES:
            return None  # its bytes are not at hand
        else:
            count, length = tensor.array.size, tensor.array.nbytes
        places.append(
            _TensorSlice(tensor.name, tensor.datatype, tensor.shape, count, start, length)
        )
        start += length
    if start != size:
        return None
    template = InferRequest(
        request.model_name,
        request.model_version,
        "",
        [],
        request.requested_outputs,
        dict(request.parameters),
        request.priority,
        request.timeout_us,
        request.correlation_id,
        request.flags,
    )
    return _Layout(template, decoded.form, tuple(places), size)
