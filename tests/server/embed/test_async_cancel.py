"""`naiad.AsyncServer` under cancellation: of requests wherever they are, of its start and of its stop. Nothing stays pending, and the models go on."""

import asyncio
import collections.abc
import pathlib
import re
import threading
import typing

import pytest

import naiad
from naiad.core.timeouts import timeout
from tests.server.embed.gate import ONE, OUT, Gate, X
from tests.server.embed.test_async_server import appears, some
from tests.server.embed.test_functions import Array
from tests.server.embed.test_late_stop import run as run_program, threads
from tests.server.embed.test_process import settled
from tests.server.embed.test_server import text


@pytest.fixture
def gate() -> collections.abc.Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


def counts(page: str) -> tuple[int, int]:
    """Requests of the model `gate` that succeeded, and that were cancelled."""
    found = dict(re.findall(r'^(nv_inference_request_\w+\{[^}]*model="gate"[^}]*\}) (\d+)', page, re.MULTILINE))  # fmt: skip
    good = sum(int(count) for name, count in found.items() if "request_success" in name)
    return good, sum(int(count) for name, count in found.items() if 'reason="CANCELED"' in name)


def in_progress(server: naiad.AsyncServer) -> tuple[int, int]:
    """Requests that a task waits for, and inferences that the engine has not answered."""
    return len(server.calls()._waiting), server.engine().inflight()  # type: ignore[attr-defined]


async def cancelled(task: "asyncio.Task[typing.Any]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def sent(server: naiad.AsyncServer, times: int = 1) -> "asyncio.Task[naiad.Result]":
    return asyncio.ensure_future(server.infer("gate", {"x": X * times}))


async def test_one_that_has_not_begun_is_not_sent(gate: Gate) -> None:
    async with naiad.AsyncServer(functions=[gate.model()]) as server:
        await cancelled(sent(server))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await server.infer("gate", {"x": X})
        gate.open()
        assert (await server.infer("gate", {"x": X}))["y"].tolist() == [[2]]
        assert in_progress(server) == (0, 0)
        assert sum(gate.rows) <= 2


async def test_one_in_the_queue_is_taken_out_and_counted(gate: Gate) -> None:
    async with naiad.AsyncServer(functions=[gate.model(config={"dynamic_batching": {}})]) as server:
        first = sent(server)
        assert await asyncio.to_thread(gate.begins)
        tasks = [sent(server, times) for times in range(2, 7)]
        await asyncio.sleep(0)
        assert in_progress(server)[0] == 6
        for task in tasks[1:4]:
            await cancelled(task)
        assert in_progress(server)[0] == 3
        gate.open()
        results = await asyncio.gather(first, tasks[0], tasks[4])
        assert [each["y"].tolist() for each in results] == [[[2]], [[4]], [[12]]]
        assert sum(gate.rows) == 3, "the model never gets what was cancelled"
        assert in_progress(server) == (0, 0)
        assert counts(await server.metrics()) == (3, 3)


async def test_one_in_a_batch_leaves_the_others_their_answers(gate: Gate) -> None:
    async with naiad.AsyncServer(functions=[gate.model(config={"dynamic_batching": {}})]) as server:
        first = sent(server)
        assert await asyncio.to_thread(gate.begins)
        tasks = [sent(server, times) for times in (2, 3, 4)]
        await asyncio.sleep(0)
        gate.open(1)
        await first
        assert await asyncio.to_thread(gate.begins)
        assert gate.rows == [1, 3]
        await cancelled(tasks[1])
        gate.open()
        results = await asyncio.gather(tasks[0], tasks[2])
        assert [each["y"].tolist() for each in results] == [[[4]], [[8]]]
        assert (await sent(server))["y"].tolist() == [[2]]
        assert in_progress(server) == (0, 0)
        good, gone = counts(await server.metrics())
        assert good + gone == 5


async def of_a_group(server: naiad.AsyncServer, models: list[str]) -> None:
    async with asyncio.TaskGroup() as group:
        for model in models:
            group.create_task(server.infer(model, {"x": X}))


async def test_a_group_of_tasks_and_a_timeout_cancel_all_of_theirs(gate: Gate) -> None:
    async with naiad.AsyncServer(functions=[gate.model(instances=1)]) as server:
        with pytest.raises(ExceptionGroup, match="unhandled errors in a TaskGroup"):
            await of_a_group(server, ["gate"] * 8 + ["missing"])
        with pytest.raises(TimeoutError):
            async with timeout(
                0.01
            ):  # Python's own, until 3.11.4, is wrong after a group that failed
                await asyncio.gather(*(server.infer("gate", {"x": X}) for _ in range(8)))
        gate.open()
        assert (await server.infer("gate", {"x": X}))["y"].tolist() == [[2]]
        assert in_progress(server) == (0, 0)


async def test_one_in_a_worker_process_ends_there_and_its_model_goes_on(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    async with some(models, "waits") as server:
        config = {**server.model_config("waits"), "parameters": {}}
        code = (models / "waits" / "1" / "model.py").read_bytes()
        await server.load("waits", config=config, files={"1/model.py": code})
        inside = tmp_path / "inside"
        task = asyncio.ensure_future(server.infer("waits", {"GATE": text(inside)}))
        assert await appears(inside.with_suffix(".begun"))
        await cancelled(task)
        assert await appears(inside.with_suffix(".cancelled"))
        (tmp_path / "open").touch()
        assert (await server.infer("waits", {"GATE": text(tmp_path / "open")}))["DONE"].all()
        assert in_progress(server) == (0, 0)


async def test_streams_that_are_cancelled_before_between_and_after_responses() -> None:
    begun, closed, begins = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

    @naiad.model(inputs=[ONE], outputs=[OUT])
    def counts_up(x: Array) -> collections.abc.Iterator[Array]:
        begun.release()
        try:
            assert begins.wait(60)
            while True:
                yield x
        finally:
            closed.release()

    async with naiad.AsyncServer(functions=[counts_up]) as server:
        for taken in (0, 1, 200):
            stream = server.stream("counts_up", {"x": X[0]})
            for _ in range(taken):
                await anext(stream)
            reading = asyncio.ensure_future(anext(stream))
            assert await asyncio.to_thread(begun.acquire, timeout=60)
            if not taken:
                await cancelled(reading)
                begins.set()
            else:
                await reading
                await cancelled(asyncio.ensure_future(anext(stream)))
                await stream.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
            assert await asyncio.to_thread(closed.acquire, timeout=60)

        async def fails() -> None:
            async with server.stream("counts_up", {"x": X[0]}) as stream:
                await anext(stream)
                raise RuntimeError("of the program")

        with pytest.raises(RuntimeError, match="of the program"):
            await fails()
        assert await asyncio.to_thread(closed.acquire, timeout=60)
        assert len(server.calls()._waiting) == 0


async def test_an_exception_leaves_the_with_and_the_server_stops(gate: Gate) -> None:
    server = naiad.AsyncServer(functions=[gate.model()])
    before = asyncio.all_tasks()
    tasks: list[asyncio.Task[naiad.Result]] = []

    async def program() -> None:
        async with server:
            tasks.append(sent(server))
            assert await asyncio.to_thread(gate.begins)
            gate.open()
            raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program"):
        await program()
    (task,) = tasks
    assert (await task)["y"].tolist() == [[2]], "what is in progress is finished"
    assert not server.live()
    assert asyncio.all_tasks() - {task} == before


async def test_a_timeout_around_the_with_ends_a_stop_that_waits(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    server = naiad.AsyncServer(functions=[gate.model()], exit_timeout_secs=600)
    before = asyncio.all_tasks()
    await server.start()
    task = sent(server)
    assert await asyncio.to_thread(gate.begins)
    stopping = asyncio.ensure_future(server.stop())
    second = asyncio.ensure_future(server.stop())
    for _ in range(3):
        await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="runs already"):
        await server.start()
    await cancelled(stopping)
    await second
    with pytest.raises(naiad.InferenceError, match="was stopped"):
        await task
    assert not server.live()
    assert "its thread is abandoned" in caplog.text
    gate.open()
    async with server:
        assert (await server.infer("gate", {"x": X}))["y"].tolist() == [[2]]
    assert asyncio.all_tasks() - {task, stopping, second} == before


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13, 30])
async def test_a_start_that_is_cancelled_anywhere_leaves_nothing(steps: int, gate: Gate) -> None:
    async with naiad.AsyncServer():
        pass  # what stays for as long as the process does
    server = naiad.AsyncServer(functions=[gate.model()])
    before, own = asyncio.all_tasks(), threads()
    starting = asyncio.ensure_future(server.start())
    for _ in range(steps):
        await asyncio.sleep(0)
    await cancelled(starting)
    assert not server.live()
    assert asyncio.all_tasks() - {starting} == before

    def others() -> set[str]:
        return {name for name in threads() if not name.startswith("asyncio_")} - own

    assert settled(set(), others) == set()


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 20])
async def test_a_stop_of_another_task_ends_the_start_with_words(steps: int, gate: Gate) -> None:
    server = naiad.AsyncServer(functions=[gate.model()])
    starting = asyncio.ensure_future(server.start())
    for _ in range(steps + 1):
        await asyncio.sleep(0)
    await server.stop()
    with pytest.raises(naiad.StartError, match="was stopped before it had started"):
        await starting
    assert not server.live()
    gate.open()
    async with server:
        assert (await server.infer("gate", {"x": X}))["y"].tolist() == [[2]]


NOT_STOPPED = """\
import asyncio
kept = []
async def main():
    kept.append(server := naiad.AsyncServer(functions=[twice, generates]))
    await server.start()
    print((await server.infer("twice", {"x": X}))["y"].tolist())
    stream = server.stream("generates", {"x": X})
    kept.append(asyncio.ensure_future(server.infer("twice", {"x": X})))
    await anext(stream)
    kept.append(stream)
    if sys.argv[1] == "raises":
        raise SystemExit(3)
asyncio.run(main())
others = [each for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]
for each in others:
    each.join(60)  # a stop lets threads end by themselves
print(kept[0].live(), [each.name for each in others if each.is_alive()])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("how", "status"), [("ends", 0), ("raises", 3)])
def test_a_loop_that_ends_stops_a_server_that_was_not(how: str, status: int) -> None:
    ended = run_program(NOT_STOPPED, how)
    assert (ended.returncode, ended.stderr) == (status, "")
    assert ended.stdout == "[2.0]\n" + ("False []\n" if not status else "")
