"""A server's parts in one process, for measurements of the event loop: an engine whose batches run in place, HTTP connections, and a transport that only counts."""

import asyncio
import collections.abc
import pathlib
import typing
import unittest.mock

from typing_extensions import override

from naiad.backends.registry import Registry
from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.engine.bls.model_calls import ModelCalls
from naiad.engine.engine import ServingEngine
from naiad.engine.loader import Loader
from naiad.hosts.host import BatchOutcome, ClosedRpcHandler, OnDeferred, OnOutcome
from naiad.hosts.local_instance import LocalInstance
from naiad.hosts.thread_host import DeviceState
from naiad.protocol.http.routes import HttpOptions, Routes
from naiad.protocol.http.transport.connection import Connection
from naiad.protocol.http.transport.framing import ReplyFramer
from naiad.protocol.http.transport.head_cache import HeadCache
from naiad.protocol.http.transport.service import HttpService, HttpSettings
from naiad.protocol.observer import Observer
from naiad.protocol.transport.connection_registry import ConnectionRegistry
from naiad.repository.manager import Repository
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.requests.coordination import Coordination
from naiad.repository.store import open_store
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.instances.resources import UnlimitedResources
from naiad.serve.console import LoadingLines

TICK_S = 3_600
"""So seldom connections are looked after: it would be counted now and then."""

_SETTINGS = HttpSettings(tick=TICK_S)


class InPlaceHost:
    """A `Host` that runs a batch where it is called, and answers in the next turn of the loop."""

    prefetches = False

    def __init__(
        self,
        name: str,
        instance: LocalInstance,
        *,
        clock: SystemClock,
        loop: asyncio.AbstractEventLoop,
        state: DeviceState | None = None,
        host_policy: str = "",
    ) -> None:
        self.name = name
        self._instance = instance
        self._now = clock.monotonic_ns
        self._loop = loop

    def submit(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        """Run a batch; its outcome comes in the next iteration of the loop."""
        started = self._now()
        execution = self._instance.execute(batch)
        ended, input_end = self._now(), execution.input_end_ns
        outcome = BatchOutcome(batch, execution, None, started, ended, input_end)
        self._loop.call_soon(on_outcome, outcome)

    def deferred_to(self, on_deferred: OnDeferred) -> None:
        """Every answer is in its batch."""

    def watch(self, usable: collections.abc.Callable[[bool], None]) -> None:
        """Nothing ends here."""

    async def ready(self) -> bool:
        """Always."""
        return True

    async def close(self) -> None:
        """Close the instance."""
        self._instance.instance.close()


class CountingTransport(asyncio.Transport):
    """A transport that counts replies and sends nothing."""

    replies = 0

    @override
    def write(self, data: typing.Any) -> None:
        type(self).replies += 1

    @override
    def writelines(self, list_of_data: typing.Any) -> None:
        type(self).replies += 1

    @override
    def get_extra_info(self, name: str, default: typing.Any = None) -> typing.Any:
        return default

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    @override
    def is_closing(self) -> bool:
        return False

    @override
    def get_write_buffer_size(self) -> int:
        return 0

    @override
    def pause_reading(self) -> None:
        pass

    @override
    def resume_reading(self) -> None:
        pass


async def loaded_engine(folder: pathlib.Path, clock: SystemClock) -> ServingEngine:
    """An engine with the models of a folder, whose instances for threads run in place."""
    loader = Loader(
        registry=Registry(clock=clock), backend_options={}, config_name="", auto_complete=True, gpus=(), threads=1, make_scheduler=SchedulerFactory(resources=UnlimitedResources(), clock=clock), submit=ModelCalls(clock=clock).submit, rpc_handler_of=lambda _model, _instance: ClosedRpcHandler(), clock=clock,
    )  # fmt: skip
    repository = Repository(
        reader=RepositoryReader([open_store(str(folder))]), resolve=lambda model, _config: loader.plan(model), load=loader.load, coordination=Coordination(1), retry_count=0,
        progress=LoadingLines(None), clock=clock,
    )  # fmt: skip
    with unittest.mock.patch("naiad.engine.instances.factory.ThreadHost", InPlaceHost):
        await repository.load_all()
    loader.close()
    return ServingEngine(
        repository=repository, server_id="profile", version="0", strict_readiness=True
    )


def http_connections(
    engine: ServingEngine,
    clock: SystemClock,
    count: int,
    *,
    settings: HttpSettings = _SETTINGS,
    observer: Observer | None = None,
) -> list[Connection]:
    """Connections to an engine, each with a transport that counts; the loop must run."""
    routes = Routes(engine, HttpOptions())
    service = HttpService(
        routes=routes,
        app=_no_app,
        settings=settings,
        registry=ConnectionRegistry(asyncio.get_running_loop(), tick=settings.tick),
        heads=HeadCache(
            routes, entries=settings.known_heads, entry_bytes=settings.known_head_bytes
        ),
        framer=ReplyFramer(join_bytes=settings.join_bytes),
        clock=clock,
        observer=observer,
    )
    connections = [Connection(service) for _ in range(count)]
    for connection in connections:
        connection.connection_made(CountingTransport())
    return connections


async def _no_app(scope: typing.Any, receive: typing.Any, send: typing.Any) -> None:
    raise AssertionError(scope)
