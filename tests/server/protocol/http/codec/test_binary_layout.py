"""Binary requests whose JSON is known: the result equals a full decode, and only when nothing but the bytes can differ."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from naiad.core.request import LATEST, InferRequest
from naiad.errors import InferenceError
from naiad.protocol.http.codec import infer_json
from naiad.protocol.http.codec.binary_layout import LONGEST, MOST, BinaryLayouts
from naiad.protocol.http.codec.infer_json import Decoded

_read_json = infer_json.decode


def binary(name: str, datatype: str, shape: list[int], size: int) -> dict[str, Any]:
    return {
        "name": name,
        "datatype": datatype,
        "shape": shape,
        "parameters": {"binary_data_size": size},
    }


def message(raw: bytes, *inputs: dict[str, Any], **members: Any) -> tuple[bytes, int]:
    document = json.dumps({**members, "inputs": list(inputs)}).encode()
    return document + raw, len(document)


def read(layouts: BinaryLayouts, body: bytes, header_length: int) -> Decoded:
    return layouts.decode(body, header_length, model="m", version=LATEST, max_input_size=1 << 20)


def said(request: InferRequest) -> dict[str, Any]:
    """All of a request, its inputs without their values."""
    inputs = [(tensor.name, tensor.datatype, tensor.shape) for tensor in request.inputs]
    return {**msgspec.structs.asdict(request), "inputs": inputs}


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the JSON texts that were read."""
    lengths: list[int] = []

    def counted(body: bytes, header_length: int, **rest: Any) -> Decoded:
        lengths.append(header_length)
        return _read_json(body, header_length, **rest)

    monkeypatch.setattr(infer_json, "decode", counted)
    return lengths


def test_json_that_is_known_is_not_read_again_and_the_tensors_are_the_new_ones(
    parses: list[int],
) -> None:
    layouts = BinaryLayouts()
    entries = (binary("a", "FP32", [1, 2], 8), binary("b", "INT16", [3], 6))
    members: dict[str, Any] = {
        "parameters": {"priority": 2, "timeout": 7, "mine": "x", "binary_data_output": True},
        "outputs": [{"name": "y", "parameters": {"binary_data": False}}],
    }
    for start in (0, 5):
        a = np.array([[start, 1]], np.float32)
        b = np.array([start, 2, 3], np.int16)
        body, header_length = message(a.tobytes() + b.tobytes(), *entries, **members)
        decoded = read(layouts, body, header_length)
        anew = _read_json(body, header_length, model="m", version=LATEST, max_input_size=1 << 20)
        assert said(decoded.request) == said(anew.request)
        assert (decoded.form.binary, decoded.form.listed) == (True, {"y": False})
        assert decoded.request.inputs[0].array.tolist() == a.tolist()
        assert decoded.request.inputs[1].array.tolist() == b.tolist()
    assert len(parses) == 1


def test_parameters_that_are_added_to_one_request_are_not_in_the_next() -> None:
    layouts = BinaryLayouts()
    body, header_length = message(bytes(4), binary("a", "FP32", [1], 4))
    for _ in range(3):
        request = read(layouts, body, header_length).request
        assert request.parameters == {}
        request.parameters["forwarded"] = "header"


@pytest.mark.parametrize("length", [0, 3, 5, 400])
def test_known_json_with_other_bytes_behind_it_is_validated_as_ever(length: int) -> None:
    layouts = BinaryLayouts()
    body, header_length = message(bytes(4), binary("a", "FP32", [1], 4))
    read(layouts, body, header_length)
    body = body[:header_length] + bytes(length)
    with pytest.raises(InferenceError) as caught:
        read(layouts, body, header_length)
    with pytest.raises(InferenceError) as expected:
        read(BinaryLayouts(), body, header_length)
    assert caught.value.message == expected.value.message


@pytest.mark.parametrize(
    ("raw", "inputs", "members"),
    [
        (bytes(4), [binary("a", "FP32", [1], 4)], {"id": "7"}),
        (b"\x01\0\0\0x", [binary("a", "BYTES", [1], 5)], {}),
        (bytes(4), [binary("a", "FP32", [2], 4)], {}),
        (
            bytes(4),
            [binary("a", "FP32", [1], 4), {"name": "b", "datatype": "INT8", "shape": [1], "data": [1]}],
            {},
        ),
        (bytes(4), [binary("a", "FP32", [1], 4)], {"filler": "x" * LONGEST}),
    ],
    ids=["a request id", "strings", "a fault", "json beside binary", "long"],
)  # fmt: skip
def test_what_is_not_kept_is_read_each_time(
    parses: list[int], raw: bytes, inputs: list[dict[str, Any]], members: dict[str, Any]
) -> None:
    layouts = BinaryLayouts()
    body, header_length = message(raw, *inputs, **members)
    for _ in range(3):
        read(layouts, body, header_length)
    assert len(parses) == 3


def test_the_json_in_front_of_many_strings_is_kept(parses: list[int]) -> None:
    layouts = BinaryLayouts()
    for text in (b"abc", b"xyz"):
        raw = (b"\3\0\0\0" + text) * 20
        body, header_length = message(raw, binary("a", "BYTES", [20], len(raw)))
        (tensor,) = read(layouts, body, header_length).request.inputs
        assert tensor.array.tolist() == [text] * 20
    assert len(parses) == 1
    broken = body[:-7] + b"\4\0\0\0xyz"
    (tensor,) = read(layouts, broken, header_length).request.inputs
    assert tensor.fault is not None


def test_layouts_are_bounded(parses: list[int]) -> None:
    layouts = BinaryLayouts()
    for number in range(10 * MOST):
        read(layouts, *message(bytes(4), binary(f"a{number}", "FP32", [1], 4)))
    assert len(layouts._known) <= MOST
    assert len(parses) == 10 * MOST
