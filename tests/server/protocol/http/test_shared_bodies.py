"""A body in shared memory means what the same bytes mean, and its numbers are read where they lie."""

import json
import typing

import numpy as np
import pytest

from naiad.core.request import LATEST
from naiad.core.tensor import packed_bytes
from naiad.protocol.http.inference import InferenceLimits, InferRoute
from naiad.protocol.http.message import HttpRequest
from tests.server.protocol.http.scripted_engine import Replies, ScriptedEngine, body_of


def strings(count: int) -> bytes:
    elements = np.empty(count, object)
    elements[:] = [b"%d" % number for number in range(count)]
    return packed_bytes(elements)


def body(
    datatype: str, shape: list[int], tensor: bytes, **members: typing.Any
) -> tuple[int, bytes]:
    """The length of the JSON, and the body."""
    size = {"binary_data_size": len(tensor)}
    entry = {"name": "INPUT0", "datatype": datatype, "shape": shape, "parameters": size}
    head = json.dumps({"inputs": [entry], **members}).encode()
    return len(head), head + tensor


def ask(body: bytes, header_length: int, *, shared: bool) -> tuple[ScriptedEngine, Replies]:
    engine, replies = ScriptedEngine(), Replies()
    route = InferRoute(
        engine, InferenceLimits(max_input_size=1 << 20, forwarded=None), model="m", version=LATEST
    )
    headers = {b"inference-header-content-length": b"%d" % header_length}
    view = memoryview(bytearray(body)).toreadonly() if shared else None
    path = "/v2/models/m/infer"
    route(HttpRequest(b"POST", path, headers, b"" if shared else body, None, view), replies)
    return engine, replies


@pytest.mark.parametrize(
    "sent",
    [
        body("FP32", [1, 4], bytes(range(16))),
        body("FP32", [1, 4], bytes(range(16)), id="r", outputs=[{"name": "OUT"}]),
        body("INT64", [0], b""),
        body("BYTES", [3], strings(3)),
        body("BYTES", [100], strings(100)),
        body("BYTES", [5000], strings(5000)),
        body("BYTES", [3], strings(100)),
        body("BYTES", [101], strings(100)),
        body("BYTES", [3], strings(3)[:-1]),
        body("FP32", [1, 5], bytes(16)),
        body("FP32", [1, 4], bytes(16), inputs=7),
        body("FP32", [1, 4], bytes(16), parameters={"sequence_id": 7}),
        (10, b'{"inputs":' + bytes(16)),
        (200, bytes(16)),
        (16, b'{"inputs":[   ]}'),
    ],
)
def test_it_is_read_as_the_same_bytes_are(sent: tuple[int, bytes]) -> None:
    header_length, whole = sent
    plain, plain_replies = ask(whole, header_length, shared=False)
    shared, shared_replies = ask(whole, header_length, shared=True)
    assert [body_of(each) for each in shared_replies.all] == [
        body_of(each) for each in plain_replies.all
    ]
    assert len(shared.requests) == len(plain.requests)
    for mine, other in zip(shared.requests, plain.requests, strict=True):
        assert (mine.id, mine.parameters, mine.requested_outputs) == (
            other.id, other.parameters, other.requested_outputs,
        )  # fmt: skip
        for tensor, expected in zip(mine.inputs, other.inputs, strict=True):
            assert (tensor.shape, tensor.datatype, tensor.fault) == (
                expected.shape, expected.datatype, expected.fault,
            )  # fmt: skip
            if tensor.fault is None:
                assert tensor.array.tolist() == expected.array.tolist()


def test_numbers_are_not_copied() -> None:
    header_length, whole = body("FP32", [1, 4], bytes(range(16)))
    engine, _ = ask(whole, header_length, shared=True)
    array = engine.request.inputs[0].array
    assert not array.flags.owndata
    assert not array.flags.writeable
