"""Traces that cannot be written, files that are moved, removed and cut off while the server writes them, and tensors whose memory is gone."""

import json
import logging
import os
import pathlib
import resource
import shutil
import threading
import typing

import numpy as np
import pytest

from naiad.core.datatypes import BY_NAME
from naiad.core.regions import Place
from naiad.core.tensor import NO_VALUES, UnreadTensor
from naiad.errors import unavailable
from naiad.tracing import files, tracer
from naiad.tracing.json_array import JsonArray
from naiad.tracing.settings import TENSORS, TIMESTAMPS
from tests.server.tracing.traces import tensor
from tests.server.tracing.world import World, ids
from tests.support.waiting import until


async def test_values_that_cannot_be_written_cost_their_trace_and_no_other(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, level=TENSORS | TIMESTAMPS)
    context = world.requests.begin()
    with caplog.at_level(logging.ERROR, logger="naiad.trace"):
        world.requests.respond(world.requests.run(context), tensor("S", "BYTES", (1,), ["a"]))
        world.requests.finish(context)
        world.requests.whole()
        await world.tracer.aclose()
    assert ids(world.written()) == [2]
    assert world.tracer.lost() == 1
    assert "trace 1 cannot be written" in caplog.text


class Gone:
    """A region whose client has made the object smaller."""

    def values(self, offset: int, size: int) -> np.ndarray[typing.Any, typing.Any]:
        raise unavailable(f"{size} bytes at {offset} are not there")


async def test_a_region_that_became_too_small_costs_the_values_and_not_the_request(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, level=TENSORS)
    place = Place("r", 0, 8, typing.cast("typing.Any", Gone()))
    given = UnreadTensor("R", BY_NAME["FP32"], (2,), NO_VALUES, None, place)
    context = world.requests.begin()
    world.requests.respond(world.requests.run(context, inputs=(given,)))
    world.requests.finish(context)
    await world.tracer.aclose()
    (record,) = world.written()
    assert (record["tensor"]["shape"], record["tensor"]["data"]) == ("2", "")
    assert not world.tracer.tensors.bytes


async def test_tensors_that_fill_memory_are_written_before_the_time_to_gather_is_over(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_GATHER_SECONDS", 3600)
    monkeypatch.setattr(files, "_ENOUGH", 4)
    world = World(tmp_path, level=TENSORS)
    sent = tensor("T", "INT8", (8192,), [1] * 8192)
    context = world.requests.begin()
    world.requests.respond(world.requests.run(context), sent)
    world.requests.finish(context)
    await until(lambda: not world.tracer.tensors.bytes)
    await world.tracer.aclose()
    assert world.tracer.lost() == 0


@pytest.mark.parametrize("how", ["removed", "moved", "cut"])
async def test_a_file_that_is_moved_removed_or_cut_off_while_the_server_runs_begins_again(
    tmp_path: pathlib.Path, how: str
) -> None:
    world = World(tmp_path)
    world.requests.whole()
    await until(lambda: world.file.exists() and ids(world.written()) == [1])
    moved = tmp_path / "earlier"
    if how == "removed":
        world.file.unlink()
    elif how == "moved":
        world.file.rename(moved)
    else:
        os.truncate(world.file, 0)
    world.requests.whole()
    await world.tracer.aclose()
    assert ids(world.written()) == [2]
    assert how != "moved" or ids(json.loads(moved.read_text())) == [1]


async def test_a_folder_that_vanishes_while_the_server_runs_stops_tracing(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, file=str(tmp_path / "folder" / "t.json"))
    (tmp_path / "folder").mkdir()
    world.requests.whole()
    await until((tmp_path / "folder" / "t.json").exists)
    await until(lambda: not world.sink().background.is_busy)
    shutil.rmtree(tmp_path / "folder")
    world.requests.whole()
    await until(lambda: not world.tracer.active)
    assert world.tracer.lost() == 1
    await world.tracer.aclose()


async def test_a_file_whose_last_bracket_found_no_room_goes_on_as_valid_json(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    await world.tracer.aclose()
    world.file.write_text('[{"id":1}')
    array = JsonArray(str(world.file), goes_on=True)
    array.append(b'{"id":2}')
    array.close()
    assert world.written() == [{"id": 1}, {"id": 2}]


def test_a_first_write_without_room_leaves_an_empty_array_that_goes_on(
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "trace.json"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        array = JsonArray(str(file))
        with pytest.raises(OSError, match="File too large"):
            array.append(b"1" * 2_000)
        array.close()
        assert json.loads(file.read_text()) == []
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    array = JsonArray(str(file), goes_on=True)
    array.append(b"1,2")
    array.append(b"3")
    array.close()
    assert json.loads(file.read_text()) == [1, 2, 3]


async def test_a_file_that_takes_nothing_until_the_end_is_named_and_does_not_hold_the_stop(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracer, "_CLOSE_SECONDS", 0.05)
    world = World(tmp_path)
    os.mkfifo(world.file)  # an open of it for writing waits for a reader
    with caplog.at_level(logging.WARNING, logger="naiad.trace"):
        world.requests.whole()
        await world.tracer.aclose()
    (record,) = caplog.records
    assert record.getMessage() == (
        f"what waited for {world.file} could not be written within 0.05 s of the stop, and is lost"
    )
    reader = os.open(world.file, os.O_RDONLY | os.O_NONBLOCK)
    await until(lambda: not any(one.name == "trace-files" for one in threading.enumerate()))
    os.close(reader)


async def test_a_request_that_is_open_at_the_end_frees_its_tensors(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, level=TENSORS)
    context = world.requests.begin()
    inference = world.requests.run(context, inputs=(tensor("A", "FP32", (4,), [0] * 4),))
    await world.tracer.aclose()
    world.requests.respond(inference)
    world.requests.finish(context)
    assert not world.tracer.tensors.bytes


async def test_the_memory_of_traces_that_wait_for_their_file_is_bounded_over_all_settings(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MOST_HELD_BYTES", 10_000)
    world = World(tmp_path, log_frequency=50_000)
    world.tracer.change("other", {"rate": 1, "log_frequency": 1000})
    most = 0
    for number in range(10):
        name = "other" if number < 2 else "m"
        context = world.requests.begin(name)
        inference = world.requests.run(context, name=name, request_id="r" * 1000)
        world.requests.respond(inference)
        world.requests.finish(context)
        most = max(most, world.sink()._groups.bytes)
    assert most <= 10_000
    await world.tracer.aclose()
    # The setting that holds most gives way.
    assert [ids(world.written(number)) for number in range(4)] == [[3, 4, 5], [6, 7, 8], [1, 2], [9, 10]]  # fmt: skip
