"""Regions: which objects become one, what is read and written, and what becomes of an object that changes."""

import asyncio
import collections.abc
import os
import pathlib
from typing import Any

import numpy as np
import pytest

from naiad.core import regions as module
from naiad.core.regions import Place, Region, Regions, most_regions
from naiad.errors import ErrorCode, InferenceError
from tests.support.waiting import until

Act = collections.abc.Callable[[], object]


@pytest.fixture
def objects(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder in place of the system's, with the object "o" of 32 bytes."""
    monkeypatch.setattr(module, "FOLDER", str(tmp_path))
    (tmp_path / "o").write_bytes(bytes(range(32)))
    return tmp_path


@pytest.fixture
def regions(objects: pathlib.Path) -> Regions:
    return Regions(allowed=True)


def open_files() -> int:
    return len(list(pathlib.Path("/proc/self/fd").iterdir()))


def read(place: Place) -> bytes:
    assert isinstance(place.region, module.Region)
    buffer = bytearray(place.size)
    place.region.read(buffer, place.offset)
    return bytes(buffer)


def code_of(regions: Regions, key: str, offset: int = 0, size: int = 8) -> ErrorCode:
    before = open_files()
    with pytest.raises(InferenceError) as caught:
        regions.register("r", key, offset, size)
    assert open_files() <= before, "what was refused is still open"
    assert not regions.system()
    return caught.value.code


def test_a_place_is_within_the_region_and_that_within_the_object(regions: Regions) -> None:
    regions.register("r", "/o", 8, 16)
    assert read(regions.bound(Place("r", 4, 4))) == bytes(range(12, 16))
    assert read(regions.bound(Place("r", 0, 16))) == bytes(range(8, 24))
    for offset, size in ((16, 0), (0, 17), (-1, 4), (8, -1), (2**62, 2**62)):
        with pytest.raises(InferenceError) as caught:
            regions.bound(Place("r", offset, size))
        assert caught.value.code is ErrorCode.INVALID_ARG


@pytest.mark.parametrize("key", ["", "/", ".", "..", "/..", "a/b", "//o", "o/", "../o", "o\0"])
def test_a_key_is_the_name_of_an_object(regions: Regions, key: str) -> None:
    assert code_of(regions, key) is ErrorCode.INVALID_ARG


def test_only_objects_are_opened(regions: Regions, objects: pathlib.Path) -> None:
    (objects / "link").symlink_to(objects / "o")
    (objects / "folder").mkdir()
    os.mkfifo(objects / "fifo")
    for key in ("link", "folder", "fifo", "none", "x" * 300, "\ud800"):
        assert code_of(regions, key) is ErrorCode.INTERNAL


@pytest.mark.parametrize(("offset", "size"), [(0, 33), (32, 1), (33, 0), (0, 0), (2**62, 2**62)])
def test_a_region_is_within_its_object(regions: Regions, offset: int, size: int) -> None:
    assert code_of(regions, "o", offset, size) is ErrorCode.INVALID_ARG


def test_objects_of_other_users_are_refused_on_demand(
    objects: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions = Regions(allowed=True, same_owner=True)
    regions.register("mine", "o", 0, 8)
    regions.unregister()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert code_of(regions, "o") is ErrorCode.INTERNAL


def test_a_request_keeps_the_region_that_it_has(regions: Regions) -> None:
    before = open_files()
    regions.register("r", "o", 0, 8)
    place = regions.bound(Place("r", 0, 8))
    regions.unregister("r")
    with pytest.raises(InferenceError, match="Unable to find shared memory region: 'r'"):
        regions.bound(Place("r", 0, 8))
    assert read(place) == bytes(range(8))
    assert open_files() == before + 1
    del place
    assert open_files() == before


def test_an_object_that_shrinks_is_neither_read_nor_made_larger(
    regions: Regions, objects: pathlib.Path
) -> None:
    regions.register("r", "o", 0, 32)
    region = regions.bound(Place("r", 0, 32)).region
    assert isinstance(region, Region)
    os.truncate(objects / "o", 16)
    acts: list[Act] = [
        lambda: region.read(bytearray(17), 0),
        lambda: region.write(b"x" * 17, 0),
    ]
    for act in acts:
        with pytest.raises(InferenceError, match="was made smaller") as caught:
            act()
        assert caught.value.code is ErrorCode.INVALID_ARG
    region.write(b"x" * 8, 8)
    assert (objects / "o").read_bytes() == bytes(range(8)) + b"x" * 8


def test_there_are_no_more_regions_than_open_files_allow(
    regions: Regions, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [most_regions(limit) for limit in (-1, 1024, 1 << 20, 2)] == [4096, 256, 4096, 1]
    monkeypatch.setattr(module, "most_regions", lambda _limit: 2)
    regions.register("a", "o", 0, 8)
    regions.register("b", "o", 0, 8)
    with pytest.raises(InferenceError, match="2 regions are registered") as caught:
        regions.register("c", "o", 0, 8)
    assert caught.value.code is ErrorCode.UNAVAILABLE


def test_nothing_is_registered_unless_it_is_allowed(objects: pathlib.Path) -> None:
    regions = Regions()
    acts: list[Act] = [
        lambda: regions.register("r", "o", 0, 8),
        regions.unregister,
        lambda: asyncio.run(regions.register_cuda("r", b"", 0, 8)),
    ]
    for act in acts:
        with pytest.raises(
            InferenceError, match="Start the server with '--allow-client-shm=true'"
        ) as caught:
            act()
        assert caught.value.code is ErrorCode.UNSUPPORTED
    assert not regions.system()
    assert not regions.cuda()


async def test_memory_of_tensors_is_used_again_by_the_same_model_and_then_given_back(
    regions: Regions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TICK_S", 0.001)
    monkeypatch.setattr(module, "MOST_LENT", 2)

    def address(lease: "np.ndarray[Any, Any] | None") -> int:
        assert lease is not None
        return int(lease.ctypes.data)

    first = regions.memory(1 << 20, "m")
    used = address(first)
    other = regions.memory(1 << 20, "other")
    assert address(other) != used
    assert regions.memory(1 << 20, "m") is None, "two are lent"
    del first
    assert address(regions.memory(1 << 20, "other")) != used
    assert address(regions.memory(1 << 20, "m")) == used
    del other
    await until(lambda: not regions._memory)
    assert (regions._memory, regions._timer) == ({}, None)
