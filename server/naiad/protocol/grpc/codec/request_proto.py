"""ModelInferRequest bytes to InferRequest (rows 10.8-10.22). Pure.

A request is decoded in two steps, because the model it names is looked up between them (row 10.9): `read` finds the name of the
model, `Incoming.request` builds the whole request. What a client sends again and again (names, shapes, parameters) is parsed once and
remembered by its bytes; each request then costs a cut, a dictionary look-up and one view per tensor.
"""

import typing

import numpy as np
from google.protobuf.message import DecodeError

from naiad.core.messages import service_pb2
from naiad.core.record import Record
from naiad.core.request import LATEST, InferRequest
from naiad.core.tensor import Tensor
from naiad.errors import internal, invalid
from naiad.protocol.grpc.codec import request_parameters
from naiad.protocol.grpc.codec.request_plan import Plan, first_request, no_data, validated
from naiad.protocol.grpc.codec.request_split import Split, Template, split

_MAX_PARTS = 4096
"""Inputs, outputs or parameters of one request. No model has as many, and each would cost the loop microseconds."""

_NAME_TAG = 0x0A
_MAX_HEADS = 512
_MAX_HEAD_BYTES = 2048
"""Bytes of a head that is remembered; a head with values in it is longer."""

_MAX_VERSION_DIGITS = 19
_MAX_VERSION = 2**63 - 1


class _Head:
    """A parsed head; once `plan` is known, the message is dropped."""

    __slots__ = ("message", "model_name", "model_version", "plan")

    def __init__(self, message: typing.Any) -> None:
        self.model_name: str = message.model_name
        self.model_version = version_number(message.model_version)
        self.message = message
        self.plan: Plan | None = None


class Incoming(Record, frozen=True):
    """A request of which only the model is known so far."""

    model_name: str
    model_version: int
    head: _Head
    id: str
    body: bytes | memoryview
    raws: list[tuple[int, int]]

    def request(self) -> InferRequest:
        """The whole request.

        Returns:
            Inputs are views of the message in wire shape; one whose bytes do not fill its shape carries a `fault`.

        Raises:
            InferenceError: INVALID_ARG (rows 10.10 to 10.22).
        """
        head = self.head
        plan = head.plan
        if plan is None:
            return self._first()
        specs = plan.inputs
        raws = self.raws
        if len(raws) < len(specs):
            raise no_data(specs[len(raws)].name, head.model_name)
        body = self.body
        inputs: list[Tensor] = []
        for spec, (start, size) in zip(specs, raws, strict=False):  # surplus ones: row 10.11
            if size == spec.size:
                shape, datatype = spec.shape, spec.datatype
                array = np.ndarray(shape, datatype.dtype, body, start)
                inputs.append(Tensor(spec.name, datatype, shape, array))
            else:
                inputs.append(validated(spec, head.model_name, body, start, size))
        for at, tensor in plan.elsewhere:
            inputs.insert(at, tensor)
        return plan.parameters.request(
            self.model_name,
            self.model_version,
            self.id,
            inputs,
            plan.outputs.copy(),
            in_regions=plan.in_regions,
        )

    def _first(self) -> InferRequest:
        """The slow way, for the first request with a head."""
        head = self.head
        request, head.plan = first_request(head, self.id, self.body, self.raws)
        if head.plan is not None:
            head.message = None
        return request

    @property
    def empty_final(self) -> bool:
        """Whether a streamed request asks for the empty final response (row 10.30); once `request` has read it."""
        plan = self.head.plan
        if plan is not None:
            return plan.parameters.empty_final
        name = request_parameters.EMPTY_FINAL_RESPONSE
        sent = self.head.message.parameters
        return name in sent and bool(sent[name].bool_param)


def _name_field(message: bytes) -> bytes:
    """The field with the model's name, which protobuf writes first; empty for other messages, of which nothing is remembered by name."""
    if len(message) > 1 and message[0] == _NAME_TAG and message[1] < 0x80:  # noqa: PLR2004 - a length of one byte
        return message[: message[1] + 2]
    return b""


_Remembered = tuple[Template | None, _Head | None]
_NONE_BEFORE: _Remembered = (None, None)


class RequestReader:
    """Reads requests, and remembers the heads it has seen (bounded: at most 512 of 2 KiB), and for each model the one that came last."""

    def __init__(self) -> None:
        self._heads: dict[bytes, _Head] = {}
        self._last: dict[bytes, _Remembered] = {}
        self._latest = _NONE_BEFORE  # of any model: mostly that of the next request, too

    def read(self, body: bytes | memoryview) -> Incoming:
        """Read which model a request is for.

        A view is copied if it is not as `values_in` takes it to be: then its memory may have been lent for another model.

        Raises:
            InferenceError: INTERNAL for bytes that are not a ModelInferRequest, as in grpc; INVALID_ARG for a
                version that is not a number (row 10.8) and for absurd numbers of inputs, outputs or parameters.
        """
        if type(body) is not bytes:
            parts = split(body)
            if parts is None or parts.is_mixed:
                return self.read(bytes(body))
            return self._found(parts, body, _name_field(parts.head))
        template, last = self._latest
        if template is not None and last is not None:
            found = template.match(body)
            if found is not None:
                return Incoming(last.model_name, last.model_version, last, found[0], body, found[1])
        name = _name_field(body)
        remembered = self._last.get(name, _NONE_BEFORE)
        template, last = remembered
        if template is not None and last is not None and remembered is not self._latest:
            found = template.match(body)
            if found is not None:
                self._latest = remembered
                return Incoming(last.model_name, last.model_version, last, found[0], body, found[1])
        parts = split(body)
        if parts is None:
            message = _parse(body)
            raws, body = _concatenated(message)
            head = _Head(message)
            return Incoming(head.model_name, head.model_version, head, message.id, body, raws)
        return self._found(parts, body, name)

    def _found(self, parts: Split, body: bytes | memoryview, name: bytes) -> Incoming:
        """A request that was cut; remember its head."""
        known = self._heads.get(parts.head)
        if known is None:
            known = _Head(_parse(parts.head))
            if len(parts.head) <= _MAX_HEAD_BYTES:
                if len(self._heads) >= _MAX_HEADS:
                    self._heads.clear()
                    self._last.clear()
                    self._latest = _NONE_BEFORE
                self._heads[parts.head] = known
        if len(parts.head) <= _MAX_HEAD_BYTES:
            # A template is made for the second one in a row: heads that take turns are found as they are.
            self._last[name] = (
                Template(parts) if known is self._last.get(name, _NONE_BEFORE)[1] else None,
                known,
            )
        return Incoming(known.model_name, known.model_version, known, parts.id, body, parts.raws)

    def id_of(self, body: bytes | memoryview) -> str:
        """The id of a request that `read` refused; "" if it has none, or if it is unreadable."""
        parts = split(body)
        if parts is not None:
            return parts.id
        try:
            return str(service_pb2.ModelInferRequest.FromString(bytes(body)).id)
        except DecodeError:
            return ""


def version_number(text: str) -> int:
    """A version as RPCs name it (row 10.8): "" means LATEST.

    Raises:
        InferenceError: INVALID_ARG.
    """
    if not text:
        return LATEST
    if text.isascii() and text.isdecimal() and len(text.lstrip("0")) <= _MAX_VERSION_DIGITS:
        number = int(text)
        if number <= _MAX_VERSION:
            return number
    raise invalid(
        f"failed to get model version from specified version string '{text}', version should be an integral value > 0; "
        "leave it empty for the newest one that is ready"
    )


def parse(message_class: typing.Any, data: bytes) -> typing.Any:
    """The parsed request of any RPC; bytes that are not one are INTERNAL, as in grpc."""
    try:
        return message_class.FromString(data)
    except DecodeError as error:
        raise internal(
            f"Unable to parse request: the message is not a {message_class.DESCRIPTOR.name} ({error}); "
            "generate the client from Triton's grpc_service.proto"
        ) from None


def _parse(data: bytes) -> typing.Any:
    message = parse(service_pb2.ModelInferRequest, data)
    for field in ("inputs", "outputs", "parameters"):
        count = len(getattr(message, field))
        if count > _MAX_PARTS:
            raise invalid(f"the request has {count} {field}; at most {_MAX_PARTS} are accepted")
    return message


def _concatenated(message: typing.Any) -> tuple[list[tuple[int, int]], bytes]:
    """The raw tensors that the inputs need, one after the other, and where each begins."""
    raws: list[tuple[int, int]] = []
    wanted: list[bytes] = message.raw_input_contents[: max(1, len(message.inputs))]
    at = 0
    for raw in wanted:
        raws.append((at, len(raw)))
        at += len(raw)
    return raws, b"".join(wanted)
