"""A gRPC port over a scripted engine, and what tests wait for."""

import asyncio
import collections.abc
import contextlib
import typing

import grpc
import grpc.aio

from naiad.core.inference import Inference
from naiad.protocol.grpc.methods import Methods
from naiad.protocol.grpc.settings import GrpcSettings
from naiad.protocol.grpc.transport.aio import GrpcServer
from naiad.protocol.grpc.transport.native.listener import NativeGrpcServer
from tests.server.protocol.grpc.scripted_engine import ScriptedEngine

Port = GrpcServer | NativeGrpcServer

ENGINES: dict[str, collections.abc.Callable[[GrpcSettings, Methods], Port]] = {
    "grpcio": GrpcServer,
    "native": NativeGrpcServer,
}

ENGINE = ["grpcio"]
"""The engine that `serving` and `made` take; see `conftest.py`."""


@contextlib.asynccontextmanager
async def serving(
    engine: ScriptedEngine, **settings: typing.Any
) -> collections.abc.AsyncIterator[Port]:
    chosen = GrpcSettings(**{"address": "127.0.0.1", "port": 0, **settings})
    server = ENGINES[ENGINE[0]](chosen, Methods(engine, chosen))
    await server.start()
    try:
        yield server
    finally:
        await server.close(0)


def where(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


@contextlib.asynccontextmanager
async def channel_to(server: Port) -> collections.abc.AsyncIterator[typing.Any]:
    async with grpc.aio.insecure_channel(where(server.address)) as channel:
        yield channel


def held(engine: ScriptedEngine) -> "asyncio.Future[Inference]":
    """Resolves when the engine got a request that it will not answer by itself."""
    future: asyncio.Future[Inference] = asyncio.get_running_loop().create_future()
    engine.answer = None
    engine.on_held = future.set_result
    return future


def cancelled(inference: Inference) -> "asyncio.Future[None]":
    """Resolves when the inference is cancelled."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    inference.on_cancel = lambda _: future.set_result(None)
    return future


def made(**settings: typing.Any) -> Port:
    chosen = GrpcSettings(**{"address": "127.0.0.1", "port": 0, **settings})
    return ENGINES[ENGINE[0]](chosen, Methods(ScriptedEngine(), chosen))
