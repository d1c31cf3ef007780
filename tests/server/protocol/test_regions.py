"""Requests with tensors in clients' shared memory become ordinary ones."""

import os
import pathlib
import types
from typing import Any, cast

import numpy as np
import orjson
import pytest

from naiad.core import regions as module
from naiad.core.datatypes import BF16, BYTES, FP32, DataType
from naiad.core.regions import Place, Regions
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.tensor import Tensor, UnreadTensor, region_tensor
from naiad.engine.api import Engine
from naiad.errors import InferenceError
from naiad.protocol import regions as protocol_regions
from naiad.protocol.codec.pool import Codec
from naiad.protocol.http.codec import large_bodies
from naiad.protocol.http.codec.infer_json import Target
from naiad.tensors.shared_pool import Lease


@pytest.fixture
def known(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Regions:
    """A region "r" of 4 MB: the numbers from 0 as uint32."""
    monkeypatch.setattr(module, "FOLDER", str(tmp_path))
    (tmp_path / "o").write_bytes(np.arange(1 << 20, dtype=np.uint32).tobytes())
    regions = Regions(allowed=True)
    regions.register("r", "o", 0, 4 << 20)
    return regions


def request_of(*inputs: Tensor, outputs: list[RequestedOutput] | None = None) -> InferRequest:
    return InferRequest("m", -1, "", list(inputs), outputs or [], {}, in_regions=True)


def engine_of(known: Regions, *, reads: bool) -> Any:
    """An engine whose models' worker processes read regions themselves, or do not."""
    traits = types.SimpleNamespace(reads_regions=reads)
    model = types.SimpleNamespace(traits=traits)
    return types.SimpleNamespace(regions=known, look_up=lambda _name, _version: model)


def bring(
    known: Regions, request: InferRequest, codec: Codec | None = None, *, reads: bool = False
) -> tuple[InferRequest | None, list[protocol_regions.Work]]:
    """The request that goes on at once, if it does, and the work that would run on a thread."""
    gone: list[InferRequest] = []
    work: list[protocol_regions.Work] = []

    def proceed(one: InferRequest) -> None:
        gone.append(one)

    def offload(each: protocol_regions.Work, _proceed: protocol_regions.Proceed) -> None:
        work.append(each)

    protocol_regions.bring(
        cast("Engine", engine_of(known, reads=reads)), codec, request, proceed, offload
    )
    return (gone[0] if gone else None), work


def there(
    size: int, *, offset: int = 0, datatype: DataType = FP32, shape: tuple[int, ...] = (2,)
) -> Tensor:
    return region_tensor("x", datatype, shape, Place("r", offset, size))


async def test_inputs_are_copied_and_others_stay(known: Regions) -> None:
    plain = Tensor("p", FP32, (1,), np.ones(1, np.float32))
    brought, work = bring(known, request_of(plain, there(8, offset=4)))
    assert brought is not None
    assert not work
    assert not brought.in_regions
    assert brought.inputs[0] is plain
    array = brought.inputs[1].array
    assert array.view(np.uint32).tolist() == [1, 2]
    assert array.flags.aligned


async def test_large_inputs_are_plain_arrays_in_shared_memory(known: Regions) -> None:
    brought, _ = bring(known, request_of(there(1 << 17, shape=(1 << 15,)), there(8)))
    assert brought is not None
    large, small = (each.array for each in brought.inputs)
    assert (large.view(np.uint32) == np.arange(1 << 15)).all()
    bases: list[Any] = [large]
    while isinstance(bases[-1], np.ndarray) and bases[-1].base is not None:
        bases.append(bases[-1].base)
    assert {type(each) for each in bases[:-1]} == {np.ndarray, Lease}
    assert (type(large), type(small)) == (np.ndarray, np.ndarray)


async def test_what_a_worker_reads_itself_is_left_there(
    known: Regions, tmp_path: pathlib.Path
) -> None:
    large = there(1 << 17, shape=(1 << 15,))
    wrong = there(1 << 17, shape=(1,))
    brought, _ = bring(known, request_of(large, there(8), wrong), reads=True)
    assert brought is not None
    assert [type(each) for each in brought.inputs] == [UnreadTensor, Tensor, Tensor]
    assert not brought.in_regions
    assert (brought.inputs[0].array.view(np.uint32) == np.arange(1 << 15)).all()
    os.truncate(tmp_path / "o", 1 << 16)
    with pytest.raises(InferenceError, match="byte 131072 of the object is gone"):
        bring(known, request_of(large), reads=True)


async def test_strings_are_not_left_for_a_worker(known: Regions) -> None:
    strings = there(1 << 17, datatype=BYTES, shape=(1,))
    brought, work = bring(known, request_of(strings), reads=True)
    assert brought is None
    assert len(work) == 1


async def test_bfloat16_is_read(known: Regions) -> None:
    brought, _ = bring(known, request_of(there(4, datatype=BF16)))
    assert brought is not None
    assert brought.inputs[0].array.dtype == BF16.dtype


async def test_outputs_know_their_regions(known: Regions) -> None:
    outputs = [RequestedOutput("y", place=Place("r", 0, 8)), RequestedOutput("z")]
    brought, _ = bring(known, request_of(outputs=outputs))
    assert brought is not None
    place = brought.requested_outputs[0].place
    assert place is not None
    assert place.region is known.system("r")[0]
    known.unregister()
    with pytest.raises(InferenceError, match="Unable to find"):
        bring(known, request_of(outputs=outputs))


@pytest.mark.parametrize(
    ("tensor", "fault"),
    [
        (there(12), "input byte size mismatch for input 'x' for model 'm'. Expected 8, got 12"),
        (there(8, datatype=BYTES, shape=(1,)), "input 'x' for model 'm'"),
        (there(4, datatype=BYTES, shape=(100,)), "expected 100 string elements for inference input 'x'"),
    ],
)  # fmt: skip
async def test_bytes_that_do_not_fill_the_shape_are_a_fault(
    known: Regions, tensor: Tensor, fault: str
) -> None:
    brought, _ = bring(known, request_of(tensor))
    assert brought is not None
    assert fault in str(brought.inputs[0].fault)


@pytest.mark.parametrize(
    "tensor",
    [
        there((1 << 20) + 4, shape=((1 << 18) + 1,)),
        there(1 << 20, datatype=BYTES, shape=(1 << 18,)),
    ],
)
async def test_what_takes_long_is_done_on_a_thread(known: Regions, tensor: Tensor) -> None:
    brought, work = bring(known, request_of(tensor))
    assert brought is None
    [only] = work
    found = only().inputs[0]
    if tensor.datatype is BYTES:  # looked through there: 1 is a length, and what follows is not one
        assert found.fault is not None
    else:
        assert found.array.view(np.uint32)[-1] == 1 << 18


async def test_a_large_body_that_a_codec_process_decodes_is_brought_here(known: Regions) -> None:
    codec = Codec()
    long = {"name": "p", "datatype": "FP32", "shape": [200_000], "data": [1.5] * 200_000}
    at = {"shared_memory_region": "r", "shared_memory_offset": 4, "shared_memory_byte_size": 8}
    inputs = [long, {"name": "x", "datatype": "FP32", "shape": [2], "parameters": at}]
    body = orjson.dumps({"inputs": inputs, "outputs": [{"name": "y", "parameters": at}]})
    try:
        decoded = large_bodies.decode_infer(codec, body, len(body), Target("m", -1, 1 << 30))
    finally:
        codec.close()
    brought, work = bring(known, decoded.request)
    assert brought is not None
    assert not work
    assert brought.inputs[0].array.size == 200_000
    assert brought.inputs[1].array.view(np.uint32).tolist() == [1, 2]
    assert brought.requested_outputs[0].place == known.bound(Place("r", 4, 8))
