"""A worker writes large outputs to clients' shared memory itself, and leaves to the server what it cannot write."""

import asyncio
import os
import pathlib
import unittest.mock
from typing import Any

import msgspec
import numpy as np
import pytest

from naiad.config.sequence_states import SequenceState
from naiad.core import datatypes, regions as module
from naiad.core.inference import Inference, RecordsInference
from naiad.core.regions import Place, Regions
from naiad.core.request import RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.tensor import PlacedTensor, Tensor
from naiad.hosts.host import BatchOutcome
from naiad.tensors.region_files import PLACED_FROM
from tests.server.backends.configs import inference, spec, tensor
from tests.server.hosts.process.workers import SAME, WAITS_FOR_A_FILE, Hosts, begun
from tests.support.waiting import until

WIDTH = PLACED_FROM // 4
BYTES = PLACED_FROM
WIDE: dict[str, Any] = {"outputs": [spec("OUT", datatypes.FP32, (-1,))]}


@pytest.fixture
def regions(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Regions:
    """Two regions, `a` and `b`, each of an object of this name with room for four outputs; that of `a` begins 64 bytes behind the object."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(module, "FOLDER", str(folder))
    found = Regions(allowed=True)
    for name, offset in (("a", 64), ("b", 0)):
        (folder / name).write_bytes(bytes(64 + 4 * BYTES))
        found.register(name, name, offset, 4 * BYTES)
    return found


def content(tmp_path: pathlib.Path, name: str) -> "np.ndarray[Any, Any]":
    return np.frombuffer((tmp_path / "shm" / name).read_bytes(), np.float32)


def objects_of(pid: int, folder: pathlib.Path) -> list[str]:
    """The clients' objects that a worker process has open."""
    files = [os.readlink(each) for each in pathlib.Path(f"/proc/{pid}/fd").iterdir()]  # noqa: PTH115 - of another process
    return sorted(pathlib.Path(each).name for each in files if each.startswith(str(folder / "shm")))


def to(value: float, place: Place | None, *, width: int = WIDTH) -> Inference:
    """A request whose output goes to this place."""
    made = inference(tensor("IN", np.full((1, width), value, np.float32)))
    wanted = [RequestedOutput("OUT", 0, place)]
    made.request = msgspec.structs.replace(made.request, requested_outputs=wanted)
    return made


def outputs(outcome: BatchOutcome) -> list[Tensor]:
    assert outcome.execution is not None, outcome.error
    responses: list[InferResponse | None] = list(outcome.execution.responses)
    return [response.outputs[0] for response in responses if response is not None]


async def test_outputs_of_a_batch_go_where_each_request_wants_them(
    hosts: Hosts, regions: Regions, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(SAME, **WIDE)
    for turn in range(3):  # the objects are sent once
        batch = [
            to(1 + turn, regions.bound(Place("a", 0, BYTES))),
            to(2 + turn, regions.bound(Place("a", 2 * BYTES, 2 * BYTES))),
            to(3 + turn, None),
            to(4 + turn, regions.bound(Place("b", 16, BYTES))),
        ]
        found = outputs(await hosted.run(*batch))
        assert [type(each) for each in found] == [PlacedTensor, PlacedTensor, Tensor, PlacedTensor]
        assert [each.shape for each in found] == [(1, WIDTH)] * 4
        assert (found[2].array == 3 + turn).all()
        a, b = content(tmp_path, "a"), content(tmp_path, "b")
        assert (a[16 : 16 + WIDTH] == 1 + turn).all()
        assert (a[16 + 2 * WIDTH : 16 + 3 * WIDTH] == 2 + turn).all()
        assert (b[4 : 4 + WIDTH] == 4 + turn).all()
        assert not a[:16].any()
        assert not a[16 + WIDTH : 16 + 2 * WIDTH].any()
        assert not a[16 + 3 * WIDTH :].any()
        assert not b[:4].any()
        assert not b[4 + WIDTH :].any()
    assert objects_of(hosted.worker.pid, tmp_path) == ["a", "b"]
    del batch
    regions.unregister("a")
    await until(lambda: objects_of(hosted.worker.pid, tmp_path) == ["b"])


async def test_what_cannot_be_written_there_comes_to_the_server(
    hosts: Hosts, regions: Regions, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(SAME, **WIDE)
    small = to(1, regions.bound(Place("a", 0, BYTES)), width=WIDTH - 1)
    no_room = to(2, regions.bound(Place("a", 0, BYTES)), width=WIDTH + 1)
    shrunk = to(4, regions.bound(Place("b", 0, BYTES)))
    os.truncate(tmp_path / "shm" / "b", BYTES - 1)
    for each in (small, no_room, shrunk):
        (found,) = outputs(await hosted.run(each))
        assert type(found) is Tensor
        assert (found.array == each.request.inputs[0].array).all()
    assert not content(tmp_path, "a").any()
    assert (tmp_path / "shm" / "b").read_bytes() == bytes(BYTES - 1)


async def test_the_server_writes_what_a_worker_has_no_descriptor_for(
    hosts: Hosts, regions: Regions
) -> None:
    hosted = await hosts.start(
        """
        turn = 0

        def execute(self, requests):
            self.turn += 1
            if self.turn == 2:
                import resource
                resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
            return same(requests)
        """,
        **WIDE,
    )
    # The first one needs a segment, the second one leaves no descriptor for the object of the third one.
    kinds = []
    for place in (None, regions.bound(Place("a", 0, BYTES)), regions.bound(Place("b", 0, BYTES))):
        (found,) = outputs(await hosted.run(to(1, place)))
        kinds.append(type(found))
    assert kinds == [Tensor, PlacedTensor, Tensor]
    assert (found.array == 1).all()


async def test_nothing_is_written_for_a_client_that_has_gone(
    hosts: Hosts, regions: Regions, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(WAITS_FOR_A_FILE, **WIDE)
    left = to(1, regions.bound(Place("a", 0, BYTES)))
    running = asyncio.ensure_future(hosted.run(left))
    await begun(tmp_path)
    left.cancel()
    await hosted.host.ready()  # by way of the thread that has read the cancellation before
    (tmp_path / "go").touch()
    await running
    assert not content(tmp_path, "a").any()


STATE = SequenceState(
    input_name="STATE",
    output_name="OUT",
    datatype=datatypes.FP32,
    dims=(-1,),
    is_output=True,
    initial_dims=(1,),
)


@pytest.mark.parametrize("reader", [{"response_cache": True}, {"states": (STATE,)}])
async def test_outputs_that_the_server_reads_as_well_come_to_it(
    hosts: Hosts, regions: Regions, tmp_path: pathlib.Path, reader: dict[str, Any]
) -> None:
    hosted = await hosts.start(SAME, **WIDE, **reader)
    (found,) = outputs(await hosted.run(to(1, regions.bound(Place("a", 0, BYTES)))))
    assert type(found) is Tensor
    assert not content(tmp_path, "a").any()


async def test_outputs_of_a_traced_request_come_to_the_server(
    hosts: Hosts, regions: Regions
) -> None:
    hosted = await hosts.start(SAME, **WIDE)
    batch = [
        to(value, regions.bound(Place(name, 0, BYTES))) for value, name in ((1, "a"), (2, "b"))
    ]
    batch[0].traced = unittest.mock.create_autospec(RecordsInference, context="")
    found = outputs(await hosted.run(*batch))
    assert [type(each) for each in found] == [Tensor, PlacedTensor]
    assert (found[0].array == 1).all()
