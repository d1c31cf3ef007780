"""A worker reads large inputs from clients' shared memory itself, where the server needs none of their values."""

import errno
import os
import pathlib
from typing import Any

import msgspec
import numpy as np
import pytest

from naiad.core import datatypes, regions as module
from naiad.core.inference import Inference
from naiad.core.regions import Place, Regions
from naiad.core.tensor import NO_VALUES, UnreadTensor, region_tensor, unread_tensor
from naiad.errors import ErrorCode
from naiad.hosts.host import BatchOutcome
from naiad.hosts.link.link import Link
from tests.server.backends.configs import inference, spec, tensor
from tests.server.hosts.process.workers import SAME, Hosted, Hosts
from tests.support.waiting import until

WIDTH = 1 << 14
BYTES = 4 * WIDTH
WIDE: dict[str, Any] = {"outputs": [spec("OUT", datatypes.FP32, (-1,))]}
KEEPS = """
kept = []

def execute(self, requests):
    for each in requests:
        array = pb_utils.get_input_tensor_by_name(each, "IN").as_numpy()
        self.kept.append(array)
        if len(self.kept) > 1:
            self.kept.pop(0)[:] = -1
    return same(requests)
"""
"""It refers to each input until the next one has come, and writes over it then."""


@pytest.fixture
def regions(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Regions:
    """A region `a` with room for four tensors, which begins 64 bytes behind its object: numbers from 0."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(module, "FOLDER", str(folder))
    (folder / "a").write_bytes(bytes(64) + np.arange(4 * WIDTH, dtype=np.float32).tobytes())
    found = Regions(allowed=True)
    found.register("a", "a", 64, 4 * BYTES)
    return found


def unread(regions: Regions, index: int) -> Inference:
    """A request whose input is the tensor of this number in the region."""
    made = inference(tensor("IN", np.zeros((1, 1), np.float32)))
    place = regions.bound(Place("a", index * BYTES, BYTES))
    there = unread_tensor(region_tensor("IN", datatypes.FP32, (1, WIDTH), place), place)
    made.request = msgspec.structs.replace(made.request, inputs=[there])
    return made


def wanted(index: int) -> "np.ndarray[Any, Any]":
    return np.arange(index * WIDTH, (index + 1) * WIDTH, dtype=np.float32)


def results(outcome: BatchOutcome) -> list[Any]:
    """The values of each response, or its error."""
    assert outcome.execution is not None, outcome.error
    return [
        each.error or each.outputs[0].array.copy()
        for each in outcome.execution.responses
        if each is not None
    ]


def objects_of(hosted: Hosted) -> int:
    """How many clients' objects the worker process has open."""
    folder = pathlib.Path(f"/proc/{hosted.worker.pid}/fd")
    return sum(os.readlink(each).endswith("/shm/a") for each in folder.iterdir())  # noqa: PTH115 - of another process


async def test_inputs_are_read_where_each_request_has_them(hosts: Hosts, regions: Regions) -> None:
    hosted = await hosts.start(SAME, **WIDE)
    plain = inference(tensor("IN", np.full((1, WIDTH), 7, np.float32)))
    for _ in range(3):
        found = results(
            await hosted.run(unread(regions, 2), plain, unread(regions, 0), unread(regions, 2))
        )
        assert (found[0] == wanted(2)).all()
        assert (found[1] == 7).all()
        assert (found[2] == wanted(0)).all()
        assert (found[3] == wanted(2)).all()
    assert objects_of(hosted) == 1
    regions.unregister()
    await until(lambda: objects_of(hosted) == 0)


async def test_memory_to_which_a_model_refers_is_not_used_again(
    hosts: Hosts, regions: Regions
) -> None:
    hosted = await hosts.start(KEEPS, **WIDE)
    for turn in range(6):
        (found,) = results(await hosted.run(unread(regions, turn % 4)))
        assert (found == wanted(turn % 4)).all()
    assert (regions.system("a")[0].values(0, 4 * BYTES).view(np.float32)[:2] == [0, 1]).all()


async def test_an_object_that_has_become_smaller_fails_its_request_alone(
    hosts: Hosts, regions: Regions, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(SAME, **WIDE)
    os.truncate(tmp_path / "shm" / "a", 64 + 2 * BYTES)
    for _ in range(2):
        first, lost, second = results(
            await hosted.run(unread(regions, 0), unread(regions, 2), unread(regions, 1))
        )
        assert (first == wanted(0)).all()
        assert (second == wanted(1)).all()
        assert lost.code is ErrorCode.INVALID_ARG
        assert lost.message == (
            "shared memory region 'a' (key 'a') was made smaller than the tensor in it needs: "
            f"byte {64 + 3 * BYTES} of the object is gone; register the region again with its size"
        )
        (alone,) = results(await hosted.run(unread(regions, 3)))
        assert alone.code is ErrorCode.INVALID_ARG


async def test_an_object_for_which_the_worker_had_no_descriptor_is_sent_again(
    hosts: Hosts, regions: Regions
) -> None:
    hosted = await hosts.start(
        """
        import resource
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        turn = 0

        def execute(self, requests):
            self.turn += 1
            low = (3, self.limits[1]) if self.turn == 1 else self.limits
            self.resource.setrlimit(self.resource.RLIMIT_NOFILE, low)
            return same(requests)
        """,
        **WIDE,
    )
    plain = inference(tensor("IN", np.full((1, 1), 7, np.float32)))
    await hosted.run(plain)
    lost, first = results(await hosted.run(unread(regions, 0), plain))
    assert lost.code is ErrorCode.UNAVAILABLE
    assert "no file descriptor left" in lost.message
    assert (first == 7).all()
    (found,) = results(await hosted.run(unread(regions, 0)))
    assert (found == wanted(0)).all()


async def test_objects_do_not_gather_in_the_worker_of_a_model_that_says_it_is_unavailable(
    hosts: Hosts, regions: Regions
) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            error = pb_utils.TritonError("not now", pb_utils.TritonError.UNAVAILABLE)
            return [pb_utils.InferenceResponse(error=error) for _ in requests]
        """,
        **WIDE,
    )
    for _ in range(8):
        (refused,) = results(await hosted.run(unread(regions, 0)))
        assert refused.code is ErrorCode.UNAVAILABLE
    assert objects_of(hosted) == 1


async def test_an_object_that_is_not_sent_and_has_become_smaller_fails_its_request_alone(
    hosts: Hosts, regions: Regions, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = await hosts.start(SAME, **WIDE)

    def refused(_: object, number: int, descriptor: int, label: bytes = b"") -> None:
        raise OSError(errno.ETOOMANYREFS, "too many descriptors on their way")

    os.truncate(tmp_path / "shm" / "a", 64 + 2 * BYTES)
    with monkeypatch.context() as full:
        full.setattr(Link, "share", refused)
        first, lost, second = results(
            await hosted.run(unread(regions, 0), unread(regions, 2), unread(regions, 1))
        )
    assert (first == wanted(0)).all()
    assert (second == wanted(1)).all()
    assert lost.code is ErrorCode.UNAVAILABLE
    (found,) = results(await hosted.run(unread(regions, 0)))
    assert (found == wanted(0)).all()


def test_others_that_need_its_values_read_them(regions: Regions) -> None:
    (there,) = unread(regions, 1).request.inputs
    assert type(there) is UnreadTensor
    assert (there.array == wanted(1)).all()
    assert there.shaped((2, WIDTH // 2)).array.shape == (2, WIDTH // 2)
    assert NO_VALUES.size == 0
