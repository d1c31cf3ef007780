"""The process that writes trace files once many traces come: the same files, and what its death, a full disk, a pipe without a reader and the server's end do."""

import asyncio
import errno
import json
import logging
import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap
import typing

import numpy as np
import pytest

from naiad.core.processes import child_process
from naiad.tensors import mapping
from naiad.tracing import files, tracer, writer_process
from naiad.tracing.json_array import JsonArray, cut_off
from naiad.tracing.rows import Rows
from naiad.tracing.settings import TENSORS, TIMESTAMPS
from naiad.tracing.usual import COLUMNS, Usual
from naiad.tracing.writer_child import joined
from naiad.tracing.writer_process import WriterProcess
from naiad.tracing.writing import Records
from tests.server.tracing.traces import tensor
from tests.server.tracing.world import World, ids
from tests.support.waiting import until, wait_until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def one_is_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MANY", 1)


def process_of(world: World) -> WriterProcess | None:
    writer = world.sink()._writer
    return writer if isinstance(writer, WriterProcess) else None


def pid_of(world: World) -> int:
    found = process_of(world)
    assert found is not None
    assert found._process is not None
    return found._process.pid


async def moved(world: World) -> None:
    """A first trace is written, and further ones are written by the process."""
    world.requests.whole()
    await until(lambda: process_of(world) is not None)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_traces_of_all_kinds_go_on_in_the_files_that_the_thread_has_begun(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    await moved(world)
    pid = pid_of(world)
    for number in range(5):
        context = world.requests.begin()
        world.requests.respond(world.requests.run(context, request_id=f'"ü{number}'))
        world.requests.finish(context)
    world.requests.finish(world.requests.begin())  # without an inference: not a usual one
    world.tracer.change("", {"log_frequency": 2})
    for _ in range(3):
        world.requests.whole()
    await world.tracer.aclose()
    records = world.written()
    assert sorted({record["id"] for record in records}) == list(range(1, 8))
    assert [r["request_id"] for r in records if "request_id" in r] == [f'"ü{n}' for n in range(5)]
    assert [ids(world.written(number)) for number in range(2)] == [[8, 9], [10]]
    assert is_gone(pid)
    assert world.tracer.lost() == 0


async def test_few_traces_at_a_time_need_no_process(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MANY", 2)
    world = World(tmp_path)
    world.requests.whole()
    await until(lambda: world.file.exists() and ids(world.written()) == [1])
    assert process_of(world) is None
    await world.tracer.aclose()


async def test_the_file_is_valid_json_while_the_process_writes_it(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    await moved(world)
    world.requests.whole()
    await until(lambda: ids(world.written()) == [1, 2])
    await world.tracer.aclose()


async def test_the_death_of_the_process_stops_tracing_with_one_line_and_a_change_begins_again(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    with caplog.at_level(logging.WARNING, logger="naiad.trace"):
        await moved(world)
        first = pid_of(world)
        os.kill(first, signal.SIGKILL)
        world.requests.whole()
        await until(lambda: not world.tracer.active)
        (line,) = (record.getMessage() for record in caplog.records)
        assert "the process that writes it was ended by SIGKILL; requests go on" in line
        assert world.tracer.lost() == 1
        assert ids(world.written()) == [1]
        world.tracer.change("", {})
        world.requests.whole()
        await until(lambda: process_of(world) is not None and pid_of(world) != first)
        await world.tracer.aclose()
    assert ids(world.written()) == [1, 3]
    assert is_gone(first)


async def test_what_a_process_that_was_killed_had_begun_to_write_is_cut_off(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    await moved(world)
    world.requests.whole()
    await until(lambda: ids(world.written()) == [1, 2])
    await until(lambda: not world.sink().background.is_busy)
    os.kill(pid_of(world), signal.SIGKILL)
    with world.file.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b',{"id":3,"times')
    world.requests.whole()
    await until(lambda: not world.tracer.active)
    assert ids(world.written()) == [1, 2]
    await world.tracer.aclose()


@pytest.mark.parametrize("content", [b'[{"id":1},{"id', b'[{"id":1}]', b'[{"id":1},', b'[{"id":1}'])
def test_only_what_is_behind_the_whole_part_is_cut_off(
    tmp_path: pathlib.Path, content: bytes
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    inode, end = path.stat().st_ino, len(b'[{"id":1}')
    cut_off(str(path), inode=inode, end=end)
    array = JsonArray(str(path), goes_on=True)
    array.append(b'{"id":2}')
    array.close()
    assert json.loads(path.read_text()) == [{"id": 1}, {"id": 2}]


def test_another_file_of_the_same_name_is_not_cut_off(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(b"something longer")
    cut_off(str(path), inode=path.stat().st_ino + 1, end=3)
    assert path.read_bytes() == b"something longer"


async def test_a_disk_that_is_full_stops_tracing_and_the_process_goes_on_with_a_change(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    with caplog.at_level(logging.WARNING, logger="naiad.trace"):
        await moved(world)
        pid = pid_of(world)
        world.file.unlink()
        world.file.symlink_to("/dev/full")
        world.requests.whole()
        await until(lambda: not world.tracer.active)
        (line,) = (record.getMessage() for record in caplog.records)
        assert line.startswith(f"tracing stops: {world.file} cannot be written: No space left")
        assert world.tracer.lost() == 1
        world.file.unlink()
        world.tracer.change("", {})
        world.requests.whole()
        await until(lambda: world.file.exists() and ids(world.written()) == [3])
        assert pid_of(world) == pid
        await world.tracer.aclose()


async def test_a_pipe_without_a_reader_does_not_keep_the_server_from_its_end(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracer, "_CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(writer_process, "_END_SECONDS", 0.1)
    world = World(tmp_path)
    await moved(world)
    pid = pid_of(world)
    world.file.unlink()
    os.mkfifo(world.file)
    for _ in range(200):  # more than a pipe holds
        world.requests.whole()
    await until(lambda: world.sink().background.is_busy)
    await world.tracer.aclose()
    await until(lambda: is_gone(pid))


async def test_a_pipe_is_written_by_the_thread_that_has_opened_it(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "pipe"
    os.mkfifo(file)
    reading = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    world = World(tmp_path, file=str(file))
    world.requests.whole()
    await until(lambda: not world.sink()._usual and not world.sink().background.is_busy)
    assert process_of(world) is None
    await world.tracer.aclose()
    assert ids(json.loads(os.read(reading, 1 << 16))) == [1]
    os.close(reading)


@pytest.mark.parametrize("how", ["cannot be started", "ends at once", "shares no memory"])
async def test_without_the_process_the_thread_goes_on(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    how: str,
) -> None:
    start = child_process.start

    def fails(module: str, theirs: socket.socket, environ: typing.Any) -> "subprocess.Popen[bytes]":
        if how == "ends at once":
            return start("this", theirs, environ)
        theirs.close()
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    def full(capacity: int, kind: type[object]) -> typing.Never:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    if how == "shares no memory":
        monkeypatch.setattr(mapping, "create", full)
    else:
        monkeypatch.setattr(child_process, "start", fails)
    world = World(tmp_path)
    with caplog.at_level(logging.WARNING, logger="naiad.trace"):
        for number in range(1, 4):
            world.requests.whole()
            await until(lambda: world.file.exists() and len(ids(world.written())) == number)  # noqa: B023
        await world.tracer.aclose()
    (line,) = (record.getMessage() for record in caplog.records)
    assert "cannot be started" in line
    assert world.tracer.lost() == 0


async def test_a_request_id_with_half_of_a_surrogate_pair_is_written_as_by_the_thread(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    await moved(world)
    context = world.requests.begin()
    world.requests.respond(world.requests.run(context, request_id="\ud800"))
    world.requests.finish(context)
    await world.tracer.aclose()
    assert [r["request_id"] for r in world.written() if "request_id" in r] == ["\ud800"]
    assert world.tracer.lost() == 0


async def test_tensors_are_written_by_the_process_as_by_the_thread(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    await moved(world)
    world.tracer.change("", {"level": TENSORS | TIMESTAMPS})
    context = world.requests.begin()
    given = tensor("A", "FP32", (2,), [1.5, 2])
    world.requests.respond(world.requests.run(context, inputs=(given,)))
    world.requests.finish(context)
    await world.tracer.aclose()
    (record,) = (record for record in world.written() if "tensor" in record)
    assert record["tensor"] == {"name": "A", "data": "1.5,2", "shape": "2", "dtype": "FP32"}
    assert not world.tracer.tensors.bytes


PROGRAM = """
import asyncio, os, pathlib, sys
from naiad.tracing import files
from tests.server.tracing.test_writer_process import moved, pid_of
from tests.server.tracing.world import World

async def main():
    files._MANY = 1
    world = World(pathlib.Path(sys.argv[1]))
    await moved(world)
    if sys.argv[2] == "pipe":
        world.file.unlink()
        os.mkfifo(world.file)
        for _ in range(200):
            world.requests.whole()
        while not world.sink().background.is_busy:
            await asyncio.sleep(0.01)
    print(pid_of(world), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("file", ["file", "pipe"])
def test_the_process_ends_with_a_server_that_is_killed(tmp_path: pathlib.Path, file: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path), file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        server.kill()
    wait_until(lambda: is_gone(pid))


def test_signals_of_a_terminal_and_of_a_service_manager_are_the_servers_to_act_on(
    tmp_path: pathlib.Path,
) -> None:
    process = WriterProcess((), Rows(1))
    process.start()
    assert process._process is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process._process.send_signal(number)
    process.records(Records(str(tmp_path / "t.json"), 1, b'{"id":1}', grows=True))
    assert not process.written().faults
    process.close()
    assert process._process.returncode == 0
    assert json.loads((tmp_path / "t.json").read_text()) == [{"id": 1}]


async def test_several_servers_in_one_program_have_a_process_each(tmp_path: pathlib.Path) -> None:
    worlds = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        worlds.append(World(tmp_path / name))
    await asyncio.gather(*map(moved, worlds))
    first, second = map(pid_of, worlds)
    assert first != second
    await worlds[0].tracer.aclose()
    assert is_gone(first)
    worlds[1].requests.whole()
    await worlds[1].tracer.aclose()
    assert ids(worlds[1].written()) == [1, 2]


def test_the_traces_of_several_messages_are_joined_with_their_texts() -> None:
    parts = [
        Usual(np.arange(2 * COLUMNS).reshape(-1, COLUMNS), [(0, "", "m")]),
        Usual(np.arange(3 * COLUMNS).reshape(-1, COLUMNS), [(0, "", "m"), (2, "a", "m")]),
        Usual(np.arange(COLUMNS).reshape(-1, COLUMNS), [(0, "a", "n")]),
    ]  # fmt: skip
    found = joined(parts)
    assert found.texts() == (["", "", "", "", "a", "a"], ["m"] * 5 + ["n"])
    assert found.numbers[:, 0].tolist() == [0, COLUMNS, 0, COLUMNS, 2 * COLUMNS, 0]
    assert found.runs == [(0, "", "m"), (4, "a", "m"), (5, "a", "n")]
