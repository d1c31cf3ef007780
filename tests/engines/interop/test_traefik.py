"""grpc-go's interop client against the service behind Traefik, which speaks HTTP/2 without TLS on both sides, as the ingress of a cluster does; servers that close behind it."""

import asyncio
import collections.abc
import contextlib
import json
import pathlib
import signal
import subprocess
import typing

import grpc
import grpc.aio
import pytest

from naiad.protocol.grpc.transport.native.listener import NativeGrpcServer
from tests.engines.interop import messages
from tests.engines.interop.service import SERVICE, server
from tests.engines.interop.test_grpc_go import CASES, errors_of
from tests.reference.process import Ports
from tests.toolchain import programs


@contextlib.contextmanager
def traefik(folder: pathlib.Path, *backends: int) -> collections.abc.Iterator[int]:
    """Traefik in front of ports; gives its own port. What finds no server at one is sent to another."""
    port = Ports.free().grpc
    route = {"rule": "PathPrefix(`/`)", "entryPoints": ["grpc"], "service": "service", "middlewares": ["retry"]}  # fmt: skip
    balancer = {"servers": [{"url": f"h2c://127.0.0.1:{backend}"} for backend in backends]}
    services = {"service": {"loadBalancer": balancer}}
    # Each attempt takes the next server in turn, for all calls together: with few of them a call may find one that is away each time.
    retry = {"retry": {"retry": {"attempts": 100, "initialInterval": "10ms"}}}
    dynamic = folder / "dynamic.json"
    dynamic.write_text(
        json.dumps(
            {"http": {"routers": {"route": route}, "services": services, "middlewares": retry}}
        )
    )
    program = programs.find(["traefik"])["traefik"]
    command = [program, f"--entryPoints.grpc.address=127.0.0.1:{port}", f"--providers.file.filename={dynamic}", "--global.sendAnonymousUsage=false", "--global.checkNewVersion=false"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


async def has_its_route(port: int) -> None:
    """Traefik listens before it has read the file with the route; until then it answers 404."""
    async with asyncio.timeout(60):
        while await errors_of("empty_unary", port):
            pass


@pytest.mark.timeout(600)
async def test_every_case_passes(tmp_path: pathlib.Path) -> None:
    backend = server()
    await backend.start()
    with traefik(tmp_path, backend.address[1]) as port:
        await has_its_route(port)
        errors = {case: await errors_of(case, port) for case in CASES}
    await backend.close(0)
    assert {case: error for case, error in errors.items() if error} == {}


_REQUEST = messages.StreamingOutputCallRequest(response_parameters=[{"size": 1}]).SerializeToString()  # fmt: skip
_TIMEOUT_S = 20
_DRAINS = 20


class _Load:
    """Calls one after another on one channel, until `ended`; attributes: how many were answered, and the error of each that was not."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.ended = False
        self.answered = 0
        self.failed: list[str] = []

    async def run(self, call: collections.abc.Callable[[typing.Any], typing.Any]) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._port}") as channel:
            while not self.ended:
                try:
                    await call(channel)
                    self.answered += 1
                except grpc.aio.AioRpcError as error:
                    self.failed.append(f"{call.__name__}: {error.code()}: {error.details()}")


async def _unary(channel: typing.Any) -> None:
    await channel.unary_unary(SERVICE + "EmptyCall")(b"", timeout=_TIMEOUT_S)


async def _stream(channel: typing.Any) -> None:
    """It ends only once it has its response, as a client of Triton's streams does."""
    stream = channel.stream_stream(SERVICE + "FullDuplexCall")(timeout=_TIMEOUT_S)
    await stream.write(_REQUEST)
    await stream.read()
    await stream.done_writing()
    await stream.read()


async def _opened(port: int = 0) -> NativeGrpcServer:
    opened = server(port=port)
    await opened.start()
    return opened


@pytest.mark.timeout(600)
async def test_no_call_is_lost_as_servers_close_that_it_still_sends_calls_to(
    tmp_path: pathlib.Path,
) -> None:
    """The server closes, is away for a moment, and is there again, at the same address: Traefik knows nothing of it."""
    stays, closes = await _opened(), await _opened()
    where = closes.address[1]
    with traefik(tmp_path, stays.address[1], where) as port:
        await has_its_route(port)
        load = _Load(port)
        work = [asyncio.create_task(load.run(call)) for call in (*[_unary] * 6, *[_stream] * 2)]
        for _ in range(_DRAINS):
            before = load.answered
            while load.answered < before + 100 and not load.failed:  # noqa: ASYNC110 - the calls would have to set an event each
                await asyncio.sleep(0.01)
            closes.begin_drain()
            await closes.close(30)
            closes = await _opened(where)
        load.ended = True
        await asyncio.gather(*work)
    await stays.close(0)
    await closes.close(0)
    assert load.failed == []
