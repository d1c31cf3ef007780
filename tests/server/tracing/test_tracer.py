"""A tracer with files: what is written where, in which order, and what a file that cannot be written does."""

import asyncio
import errno
import io
import json
import logging
import pathlib
import typing

import numpy as np
import pytest
from typing_extensions import override

from naiad.core.datatypes import BY_NAME
from naiad.core.device_tensor import DeviceTensor
from naiad.core.response import InferResponse
from naiad.core.tensor import NO_VALUES, packed_strings
from naiad.errors import InferenceError, unavailable
from naiad.scheduling.relays.calls import CallInProgress
from naiad.tracing import files
from naiad.tracing.held import HeldTensors
from naiad.tracing.json_array import JsonArray
from naiad.tracing.settings import TENSORS, TIMESTAMPS
from tests.server.tracing.traces import model, tensor
from tests.server.tracing.world import Records, World, ids
from tests.support.waiting import until


class Call(CallInProgress, kw_only=True, eq=False):
    """A call whose response no test needs."""

    @override
    def take(self, response: InferResponse) -> None:
        pass


def names(records: Records, number: int) -> list[str]:
    return [
        stamp["name"]
        for record in records
        if record["id"] == number
        for stamp in record.get("timestamps", ())
    ]


async def test_a_request_has_its_times_in_order_of_the_reference(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.requests.whole()
    await world.tracer.aclose()
    records = world.written()
    assert records[2] == {"id": 1, "model_name": "m", "model_version": 3}
    stamps = {
        stamp["name"]: stamp["ns"] // 1_000_000
        for record in records
        for stamp in record.get("timestamps", ())
    }
    assert stamps == {
        "HTTP_RECV_START": 1, "HTTP_RECV_END": 2, "REQUEST_START": 3, "QUEUE_START": 4, "INFER_RESPONSE_COMPLETE": 9,
        "COMPUTE_START": 5, "COMPUTE_INPUT_END": 6, "COMPUTE_OUTPUT_START": 7, "COMPUTE_END": 8, "REQUEST_END": 9,
        "HTTP_SEND_START": 10, "HTTP_SEND_END": 11,
    }  # fmt: skip
    assert names(records, 1) == list(stamps)


async def test_over_grpc_the_names_are_those_of_grpc(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.requests.protocol = "GRPC"
    world.requests.whole()
    await world.tracer.aclose()
    found = names(world.written(), 1)
    assert found[:2] == ["GRPC_WAITREAD_START", "GRPC_WAITREAD_END"]
    assert found[-2:] == ["GRPC_SEND_START", "GRPC_SEND_END"]


async def test_the_id_of_a_request_is_written_as_json_writes_it(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    context = world.requests.begin()
    world.requests.respond(world.requests.run(context, request_id='"ü'))
    world.requests.finish(context)
    await world.tracer.aclose()
    assert world.written()[2] == {
        "id": 1, "model_name": "m", "model_version": 3, "request_id": '"ü',
    }  # fmt: skip


async def test_a_request_that_fails_before_its_model_has_the_times_of_its_arrival(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    world.requests.finish(world.requests.begin())
    await world.tracer.aclose()
    assert names(world.written(), 1) == ["HTTP_RECV_START", "HTTP_RECV_END"]


async def test_tensors(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, level=TENSORS)
    requests = world.requests
    given = tensor("A", "FP32", (1, 2), [1.5, 2])
    context = requests.begin()
    inference = requests.run(context, inputs=(given, tensor("S", "BYTES", (1,), [b'a"\n'])))
    given.array[:] = 7  # the memory of a request is used again
    requests.respond(
        inference, tensor("B", "BOOL", (2,), [True, False]), tensor("H", "FP16", (1,), [1])
    )
    requests.finish(context)
    await world.tracer.aclose()
    assert world.written() == [
        {"id": 1, "activity": activity, "tensor": {"name": name, "data": data, "shape": shape, "dtype": dtype}}
        for activity, name, data, shape, dtype in (
            ("TENSOR_QUEUE_INPUT", "A", "1.5,2", "1,2", "FP32"),
            ("TENSOR_QUEUE_INPUT", "S", '"a"\n"', "1", "BYTES"),
            ("TENSOR_BACKEND_OUTPUT", "B", "1,0", "2", "BOOL"),
            ("TENSOR_BACKEND_OUTPUT", "H", "", "1", "FP16"),
        )
    ]  # fmt: skip


async def test_the_inferences_that_one_causes_have_its_id_as_their_parents(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    requests = world.requests
    context = requests.begin("outer")
    outer = requests.run(context, name="outer", request_id='r"1')
    assert outer.traced is not None
    call = Call(0, request=outer.request, traced=outer.traced.child())
    inner = type(outer)(outer.request, call.respond, 1, requests.tick(), queued_ns=requests.tick())
    call.runs(model(), inner)
    requests.respond(outer)
    requests.finish(context)
    assert not world.file.exists()
    requests.respond(inner)  # the trace is complete when the last one is
    await world.tracer.aclose()
    (first, second) = (record for record in world.written() if "model_name" in record)
    assert first == {"id": 1, "model_name": "outer", "model_version": 3, "request_id": 'r"1'}
    assert second == {**first, "id": 2, "parent_id": 1}
    assert "HTTP_SEND_END" in names(world.written(), 1)
    assert names(world.written(), 2)[0] == "REQUEST_START"
    assert "INFER_RESPONSE_COMPLETE" not in names(world.written(), 2)


async def test_a_call_that_a_model_makes_after_the_end_of_its_request_is_not_traced(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    requests = world.requests
    context = requests.begin()
    outer = requests.run(context)
    assert outer.traced is not None
    child = outer.traced.child()
    requests.respond(outer)
    requests.finish(context)
    call = Call(0, request=outer.request, traced=child)
    late = type(outer)(outer.request, call.respond, 1, requests.tick(), queued_ns=requests.tick())
    call.runs(model(), late)
    assert late.trace_context == ""
    requests.respond(late)
    await world.tracer.aclose()
    assert ids(world.written()) == [1]


async def test_a_call_that_fails_before_its_answer_ends_the_trace(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    requests = world.requests
    context = requests.begin()
    outer = requests.run(context)
    assert outer.traced is not None
    call = Call(0, request=outer.request, traced=outer.traced.child())
    inner = type(outer)(outer.request, call.respond, 1, requests.tick())
    call.runs(model(), inner)
    requests.respond(outer)
    requests.finish(context)
    call.fail(unavailable("its worker has died"))
    await world.tracer.aclose()
    assert ids(world.written()) == [1, 2]
    assert names(world.written(), 2) == ["REQUEST_START", "REQUEST_END"]


async def test_a_file_per_so_many_traces(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, log_frequency=2)
    for _ in range(5):
        world.requests.whole()
    await world.tracer.aclose()
    assert world.files() == ["t.json.0", "t.json.1", "t.json.2"]
    assert [ids(world.written(number)) for number in range(3)] == [[1, 2], [3, 4], [5]]


async def test_without_a_frequency_all_are_in_one_file_over_changes_of_the_settings(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    world.requests.whole()
    world.tracer.change("m", {"rate": 2})
    for _ in range(4):
        world.requests.whole()
    await world.tracer.aclose()
    assert world.files() == ["t.json"]
    assert ids(world.written()) == [1, 2, 3]


async def test_the_file_is_valid_json_while_the_server_runs(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    for expected in ([1], [1, 2], [1, 2, 3]):
        world.requests.whole()
        await until(lambda: world.file.exists() and world.file.stat().st_size > 0)
        await until(lambda expected=expected: ids(world.written()) == expected)  # type: ignore[misc]
    await world.tracer.aclose()


async def test_a_count_that_is_used_up_writes_its_traces_to_a_file_with_a_number(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, count=3)
    for _ in range(5):
        world.requests.whole()
    await world.tracer.aclose()
    assert world.files() == ["t.json.0"]
    assert ids(world.written(0)) == [1, 2, 3]


async def test_a_count_that_is_used_up_writes_its_traces_whatever_the_rate(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, count=2, rate=2)
    for _ in range(4):
        world.requests.whole()
    await until(lambda: world.files() == ["t.json.0"])
    await world.tracer.aclose()
    assert ids(world.written(0)) == [1, 2]


@pytest.mark.parametrize(("frequency", "file"), [(5, "t.json.0"), (0, "t.json")])
async def test_what_is_complete_is_written_at_the_end_though_a_request_is_open(
    tmp_path: pathlib.Path, frequency: int, file: str
) -> None:
    world = World(tmp_path, log_frequency=frequency, count=9)
    world.requests.begin()
    world.requests.whole()
    world.tracer.change("", {"rate": 2})  # what the replaced setting holds, too
    await world.tracer.aclose()
    assert world.files() == [file]
    assert ids(json.loads((tmp_path / file).read_text())) == [2]


async def test_the_frequency_that_a_client_chooses_does_not_decide_how_many_traces_wait(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MOST_IN_ONE", 2)
    world = World(tmp_path, log_frequency=2**32 - 1)
    for _ in range(4):
        world.requests.whole()
    await world.tracer.aclose()
    assert [ids(world.written(number)) for number in range(2)] == [[1, 2], [3, 4]]


async def test_tensors_that_wait_for_the_thread_have_a_limit_in_bytes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_WAITING", 3)
    world = World(tmp_path, level=TENSORS)
    for size in (1024, 256):
        context = world.requests.begin()
        given = tensor("A", "FP32", (size,), [0] * size)
        world.requests.respond(world.requests.run(context, inputs=(given,)))
        world.requests.finish(context)
    await world.tracer.aclose()
    assert [record["id"] for record in world.written()] == [2]


async def test_a_tensor_on_a_gpu_and_strings_that_are_packed_are_kept_without_reading_them(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, level=TENSORS)
    datatype = BY_NAME["FP32"]
    far = DeviceTensor("D", datatype, (2,), NO_VALUES)
    body = np.frombuffer(bytearray(b"\1\0\0\0a\2\0\0\0bc"), np.uint8)
    packed = packed_strings("S", (2,), body)
    context = world.requests.begin()
    inference = world.requests.run(context, inputs=(far, packed))
    body[:] = 0  # the memory of a request is used again
    world.requests.respond(inference, far)
    world.requests.finish(context)
    await world.tracer.aclose()
    found = [record["tensor"] for record in world.written()]
    assert [(each["name"], each["data"]) for each in found] == [
        ("D", ""),
        ("S", '"a","bc"'),
        ("D", ""),
    ]


async def test_long_tensors_are_written_whole(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, level=TENSORS)
    context = world.requests.begin()
    given = tensor("A", "INT32", (25_000,), list(range(25_000)))
    world.requests.respond(world.requests.run(context, inputs=(given,)))
    world.requests.finish(context)
    await world.tracer.aclose()
    (record,) = world.written()
    assert record["tensor"]["data"] == ",".join(map(str, range(25_000)))


async def test_a_disk_that_is_full_leaves_the_file_valid_with_the_earlier_traces(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.requests.whole()
    await until(lambda: world.file.exists() and world.file.stat().st_size > 0)
    room = world.file.stat().st_size + 100

    class Disk(io.FileIO):
        @override
        def write(self, data: typing.Any) -> int:
            left = room - self.tell()
            if left <= 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(memoryview(data)[:left])

    world.tracer.change("", {})
    array = world.writer()._open[str(world.file)]
    array._file.close()
    monkeypatch.setattr(array, "_file", Disk(world.file, "r+"))
    world.requests.whole()
    await until(lambda: not world.tracer.active)
    await world.tracer.aclose()
    assert ids(world.written()) == [1]


async def test_what_a_count_has_collected_is_written_when_it_is_replaced(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, count=3)
    late = world.requests.begin()
    world.requests.whole()
    world.tracer.change("", {"count": 9})
    world.requests.finish(late)
    world.tracer.change("", {"level": 0})
    assert not world.tracer.active
    world.requests.whole()
    await world.tracer.aclose()
    assert sorted({record["id"] for record in world.written()}) == [1, 2]


@pytest.mark.parametrize("frequency", [0, 1])
@pytest.mark.parametrize("place", ["missing/t.json", "full"])
async def test_a_file_that_cannot_be_written_stops_tracing_with_one_line(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, place: str, frequency: int
) -> None:
    file = tmp_path / place
    if place == "full":
        for name in ("full", "full.0", "full.1"):
            (tmp_path / name).symlink_to("/dev/full")
    world = World(tmp_path, file=str(file), log_frequency=frequency)
    with caplog.at_level(logging.ERROR, logger="naiad.trace"):
        world.requests.whole()
        await until(lambda: not world.tracer.active)
        for _ in range(3):
            world.requests.whole()
        await world.tracer.aclose()
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith(f"tracing stops: {file}")
    assert "requests go on" in line


async def test_a_change_begins_again_after_a_file_could_not_be_written(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path / "later")
    world.requests.whole()
    await until(lambda: not world.tracer.active)
    (tmp_path / "later").mkdir()
    world.tracer.change("", {})
    world.requests.whole()
    await world.tracer.aclose()
    assert ids(world.written()) == [2]


async def test_after_a_failure_a_change_goes_on_in_the_same_file_behind_what_is_there(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    world.requests.whole()
    await until(lambda: world.file.exists() and ids(world.written()) == [1])
    world.writer()._open[str(world.file)]._file.close()  # a write to it fails
    world.writer()._open[str(world.file)]._file = io.FileIO(world.file, "r")
    world.requests.whole()
    await until(lambda: not world.tracer.active)
    assert world.tracer.lost() == 1
    world.tracer.change("", {})
    world.requests.whole()
    await world.tracer.aclose()
    assert ids(world.written()) == [1, 3]


async def test_a_file_that_was_removed_begins_again(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    array = JsonArray(str(world.file), goes_on=True)
    array.append(b'{"id":1}')
    array.close()
    assert world.written() == [{"id": 1}]
    await world.tracer.aclose()


async def test_a_change_of_the_settings_keeps_what_is_in_the_file(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    for change in ({"level": 0}, {"level": TIMESTAMPS}, {"rate": 1}):
        world.requests.whole()
        world.tracer.change("", change)
    await world.tracer.aclose()
    assert ids(world.written()) == [1, 2]


async def test_traces_for_which_there_is_no_room_are_counted_and_named_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(files, "_WAITING", 0)
    world = World(tmp_path)
    with caplog.at_level(logging.WARNING, logger="naiad.trace"):
        for _ in range(3):
            world.requests.whole()
        assert world.tracer.lost() == 3
        await world.tracer.aclose()
    first, last = (record.getMessage() for record in caplog.records)
    assert first.startswith(
        f"traces are lost: more of them come than can be written to {world.file}"
    )
    assert last == "3 traces were not written"
    assert world.tracer.lost() == 3


async def test_the_tensors_of_all_traces_have_a_limit_in_bytes(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, level=TENSORS, log_frequency=3)
    world.tracer.tensors = limited = HeldTensors(20)
    given = tensor("A", "FP32", (4,), [1, 2, 3, 4])
    with caplog.at_level(logging.WARNING, logger="naiad.trace"):
        for _ in range(3):
            context = world.requests.begin()
            world.requests.respond(
                world.requests.run(context, inputs=(given,)), tensor("B", "INT32", (1,), [7])
            )
            world.requests.finish(context)
        await world.tracer.aclose()
    assert [
        (each["id"], each["tensor"]["name"], each["tensor"]["data"], each["tensor"]["shape"])
        for each in world.written(0)
    ] == [
        (1, "A", "1,2,3,4", "4"), (1, "B", "7", "1"), (2, "A", "", "4"), (2, "B", "", "1"), (3, "A", "", "4"), (3, "B", "", "1"),
    ]  # fmt: skip
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("traces leave out the values of tensors: 20 bytes of them wait")
    assert limited.bytes == 0


@pytest.mark.parametrize("frequency", [0, 3])
async def test_tensors_that_were_written_leave_room_for_others(
    tmp_path: pathlib.Path, frequency: int
) -> None:
    world = World(tmp_path, level=TENSORS, log_frequency=frequency)
    world.tracer.tensors = limited = HeldTensors(100)
    strings = tensor("S", "BYTES", (2,), [b"ab", b"cde"])
    for _ in range(4):
        context = world.requests.begin()
        world.requests.respond(world.requests.run(context, inputs=(strings,)))
        world.requests.finish(context)
        await until(lambda: limited.bytes <= 42)
    await world.tracer.aclose()
    assert limited.bytes == 0


async def test_a_refused_change_leaves_tracing_as_it_is(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    with pytest.raises(InferenceError):
        world.tracer.change("", {"rate": 0})
    world.requests.whole()
    await world.tracer.aclose()
    assert ids(world.written()) == [1]


async def test_nothing_is_traced_before_it_opens_and_after_it_closes(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    await world.tracer.aclose()
    world.requests.whole()
    world.tracer.change("", {"rate": 1})
    assert not world.tracer.active
    world.tracer.open()
    world.requests.whole()
    await asyncio.gather(world.tracer.aclose())
    assert ids(world.written()) == [1]


async def test_while_all_requests_are_traced_a_model_with_a_setting_of_its_own_follows_that(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    world.requests.whole("n")
    world.tracer.change("n", {"level": 0})
    for name in ("n", "m"):
        world.requests.whole(name)
    world.tracer.change("n", {"level": None})
    world.requests.whole("n")
    world.tracer.change("", {"level": 0})
    for name in ("n", "m"):
        world.requests.whole(name)
    await world.tracer.aclose()
    found = [record["model_name"] for record in world.written() if "model_name" in record]
    assert found == ["n", "m", "n"]
