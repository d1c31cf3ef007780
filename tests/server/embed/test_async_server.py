"""`naiad.AsyncServer`: on the event loop of the program; cancelling tasks cancels requests."""

import asyncio
import pathlib

import numpy as np
import pytest

import naiad
from naiad.embed.async_calls import AsyncStream
from tests.server.embed.test_server import X, appears as waited_for, text


def some(models: pathlib.Path, *names: str) -> naiad.AsyncServer:
    return naiad.AsyncServer(models, model_control_mode="explicit", load_model=[*names])


async def appears(file: pathlib.Path) -> bool:
    return await asyncio.to_thread(waited_for, file)


async def test_tasks_send_requests_side_by_side(models: pathlib.Path) -> None:
    async with some(models, "add") as server:
        results = await asyncio.gather(*(server.infer("add", {"x": X * n}) for n in range(1, 33)))
        assert [int(result["y"][0, 0]) for result in results] == [2 * n for n in range(1, 33)]
        assert (await server.infer("add", {"x": [[1, 2, 3, 4]]}))["y"].dtype == np.float32
        assert await server.ready()
        assert server.model_metadata("add")["platform"] == "onnxruntime_onnx"
        with pytest.raises(naiad.InferenceError, match="unknown model"):
            await server.infer("none", {"x": X})
        await server.unload("add")
        assert not await server.model_ready("add")
        await server.load("add")
    with pytest.raises(naiad.InferenceError, match="was stopped"):
        await server.infer("add", {"x": X})


async def test_a_cancelled_task_and_a_late_request_are_cancelled(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    async with some(models, "waits") as server:
        gate = tmp_path / "cancelled"
        task = asyncio.ensure_future(server.infer("waits", {"GATE": text(gate)}))
        assert await appears(gate.with_suffix(".begun"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await appears(gate.with_suffix(".cancelled"))

        with pytest.raises(TimeoutError, match="has not responded within"):
            await server.infer("waits", {"GATE": text(tmp_path / "late")}, timeout=0.05)


async def test_a_stream_is_read_to_its_end_left_or_cancelled(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    async with some(models, "counts", "waits") as server:
        numbers = [
            int(each["NUMBER"][0]) async for each in server.stream("counts", {"COUNT": [500]})
        ]
        assert numbers == list(range(500))

        for end in ("with", "dropped", "cancelled"):
            sent = tmp_path / end
            stream = server.stream("counts", {"COUNT": [1_000_000], "SENT": text(sent)})
            if end == "with":
                async with stream:
                    await anext(stream)
            elif end == "cancelled":
                begun = asyncio.Event()
                task = asyncio.ensure_future(_read(stream, begun))
                await begun.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                del task
            else:
                await anext(stream)
            del stream
            assert await appears(sent)

        late = server.stream("waits", {"GATE": text(tmp_path / "gate")}, timeout=0.05)
        with pytest.raises(TimeoutError):
            await anext(late)
        with pytest.raises(StopAsyncIteration):
            await anext(late)


async def _read(stream: AsyncStream, begun: asyncio.Event) -> None:
    async for _ in stream:
        begun.set()
        await asyncio.sleep(0)


async def test_a_start_that_is_cancelled_or_fails_leaves_nothing_and_may_be_tried_again(
    models: pathlib.Path,
) -> None:
    server = some(models, "add")
    starting = asyncio.ensure_future(server.start())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    async with server:
        assert await server.model_ready("add")
        with pytest.raises(RuntimeError, match="runs already"):
            await server.start()
    with pytest.raises(naiad.StartError, match="not in the repository"):
        await some(models, "none").start()


async def test_two_on_one_loop(models: pathlib.Path) -> None:
    async with some(models, "add") as one, some(models, "counts") as two:
        assert (await one.infer("add", {"x": X}))["y"].tolist() == [[2, 4, 6, 8]]
        assert len([each async for each in two.stream("counts", {"COUNT": [3]})]) == 3
