"""Outputs on their way to clients' shared memory."""

import asyncio
import pathlib
import typing

import numpy as np
import pytest

from naiad.core import regions as module
from naiad.core.datatypes import ALL, BYTES, FP32, UINT8
from naiad.core.regions import Place, Regions
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import PlacedTensor, Tensor, object_array, packed_strings
from naiad.engine.forms.placed import PlacedResponses, Places
from naiad.errors import ErrorCode, invalid


@pytest.fixture
def shared(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(module, "FOLDER", str(tmp_path))
    (tmp_path / "o").write_bytes(bytes(3 << 20))
    return tmp_path / "o"


def places(**places: tuple[int, int]) -> Places:
    regions = Regions(allowed=True)
    regions.register("r", "o", 0, 3 << 20)
    return {
        name: regions.bound(Place("r", offset, size)) for name, (offset, size) in places.items()
    }


def response(*outputs: Tensor, final: bool = True) -> InferResponse:
    return InferResponse("m", 1, "", list(outputs), NO_PARAMETERS, final=final)


@pytest.mark.parametrize("datatype", ALL)
def test_every_datatype_is_written_as_it_is_on_the_wire(
    datatype: typing.Any, shared: pathlib.Path
) -> None:
    if datatype is BYTES:
        array, raw = object_array([b"ab", b""]), b"\x02\0\0\0ab\0\0\0\0"
    else:
        array = np.array([0, 1, 1, 1]).astype(datatype.dtype)[::2]  # not in one piece
        raw = array.tobytes()
    found: list[InferResponse] = []
    other = Tensor("z", UINT8, (1,), np.array([7], np.uint8))
    given = response(Tensor("y", datatype, (2,), array), other)
    PlacedResponses(found.append, places(y=(5, 64)))(given)
    there, kept = found[0].outputs
    assert isinstance(there, PlacedTensor)
    assert (there.name, there.datatype, there.shape) == ("y", datatype, (2,))
    assert kept is other
    assert shared.read_bytes()[:80] == (bytes(5) + raw).ljust(80, b"\0")


def test_an_output_that_does_not_fit_writes_nothing_and_is_an_error(shared: pathlib.Path) -> None:
    found: list[InferResponse] = []
    given = response(Tensor("y", FP32, (2,), np.ones(2, np.float32)))
    PlacedResponses(found.append, places(y=(0, 7)))(given)
    error = found[0].error
    assert error is not None
    assert error.code is ErrorCode.INTERNAL
    assert "output 'y' (7 bytes) should be at least 8 bytes to hold the results" in error.message
    assert not found[0].outputs
    assert not any(shared.read_bytes()[:8])


def test_errors_and_empty_responses_pass(shared: pathlib.Path) -> None:
    found: list[InferResponse] = []
    given = [
        InferResponse("m", 1, "", [], NO_PARAMETERS, invalid("no")),
        InferResponse("m", 1, "", [], NO_PARAMETERS, empty=True),
    ]
    responses = PlacedResponses(found.append, places(y=(0, 7)))
    for each in given:
        responses(each)
    assert found == given


async def test_large_outputs_leave_the_loop_and_those_behind_them_keep_their_order(
    shared: pathlib.Path,
) -> None:
    found: list[InferResponse] = []
    done = asyncio.Event()

    def take(response: InferResponse) -> None:
        found.append(response)
        if response.final:
            done.set()

    responses = PlacedResponses(take, places(y=(0, 3 << 20)))
    large = packed_strings("y", (2,), np.full(2 << 20, 65, np.uint8))
    responses(response(large, final=False))
    assert not found
    responses(response(Tensor("y", UINT8, (1,), np.array([66], np.uint8))))
    await asyncio.wait_for(done.wait(), 30)
    assert [each.outputs[0].shape for each in found] == [(2,), (1,)]
    content = await asyncio.to_thread(shared.read_bytes)
    assert content[: 2 << 20] == b"B" + b"A" * ((2 << 20) - 1)
    assert not any(content[2 << 20 :])
