"""A server inside a program: from the options to models that serve, and in order back to nothing; without signals, logs and other settings of the process.

`naiad.asgi` and `naiad.embed` run it, each on an event loop of the program's.
"""

import asyncio
import collections.abc
import contextlib
import logging
import os
import sys

from naiad.core.clock import Clock
from naiad.engine.engine import Phase
from naiad.errors import InferenceError
from naiad.options.options import Options
from naiad.repository.lifecycle import State
from naiad.repository.store import local_root
from naiad.repository.stores.process import StoreProcess
from naiad.serve.assembly import Assembly, AssemblyError, assembled
from naiad.serve.console import LoadingLines
from naiad.serve.drain import Ports, stop
from naiad.serve.frontends import FrontEndError, Frontends
from naiad.tracing.tracer import Tracer

log = logging.getLogger("naiad.serve")


class StartError(Exception):
    """The server cannot start; the message says why and what to change."""


class Embedded:
    """A server that serves.

    Attributes:
        assembly: its parts.
        ports: the front ends of its options, and those that `open` added.
        on_late: called if the drain runs out of time: requests of the program are to be cancelled.
    """

    def __init__(self, assembly: Assembly, options: Options, clock: Clock) -> None:
        self.assembly = assembly
        self._options = options
        self._clock = clock
        self.ports: list[Frontends] = []
        self.on_late: list[collections.abc.Callable[[], object]] = []

    def frontends(self, options: Options) -> Frontends:
        """The ports of these options, not open yet; closed with the server."""
        assembly = self.assembly
        made = Frontends(
            options=options,
            engine=assembly.engine,
            states=assembly.states,
            system_metrics=assembly.series,
            gpu_uuids={gpu.index: gpu.uuid for gpu in assembly.gpus},
            clock=self._clock,
        )
        self.ports.append(made)
        return made

    async def open(self, options: Options) -> Frontends:
        """Open more ports, while the server serves.

        Raises:
            StartError: a port or another setting cannot be used.
        """
        made = self.frontends(options)
        try:
            await made.open()
            await made.accept()
        except BaseException as error:
            self.ports.remove(made)
            await made.close_all()
            if isinstance(error, FrontEndError):
                raise StartError(str(error)) from None
            raise
        return made

    def begin_drain(self) -> None:
        """See `Ports`."""
        for each in self.ports:
            each.begin_drain()

    async def close(self, seconds: float) -> None:
        """See `Ports`."""
        await asyncio.gather(*(each.close(seconds) for each in self.ports))

    async def close_all(self) -> None:
        """See `Frontends`."""
        for each in self.ports:
            await each.close_all()


@contextlib.asynccontextmanager
async def embedded(
    options: Options,
    *,
    clock: Clock,
    tracer: Tracer | None = None,
    also: collections.abc.Collection[str] = (),
    loads: bool = True,
) -> collections.abc.AsyncIterator[Embedded]:
    """Load the models and serve, then drain the ports and unload the models within `--exit-timeout-secs`.

    What has not ended by then, or when the stop is cancelled, is cancelled and left behind: the process goes on.

    Args:
        options: those about logs are not read.
        clock: measures everything.
        tracer: closed at the end; None: one of the options.
        also: models to load at the start beside those of the options.
        loads: whether there is any model to load at the start.

    Raises:
        StartError: the server cannot start, or a model does not load and `--exit-on-error` is true.
    """
    for note in options.notes:
        log.warning("%s", note)
    try:
        async with assembled(
            options,
            stores=_stores(options),
            progress=LoadingLines(None, repeats=not options.model_control_mode.polls),
            environ=os.environ,
            clock=clock,
            tracer=tracer,
        ) as assembly:
            running = Embedded(assembly, options, clock)
            ports: Ports = running
            cancelled: asyncio.CancelledError | None = None
            in_time = False
            try:
                await _start(running, options, also if loads else None)
                yield running
                try:
                    in_time = await stop(assembly, ports, options, clock)
                except asyncio.CancelledError as error:
                    cancelled = error
            finally:
                await running.close_all()
            if not in_time:
                for call in running.on_late:
                    call()
                await assembly.abandon()
            if cancelled is not None:
                raise cancelled
    except (AssemblyError, FrontEndError, InferenceError) as error:
        raise StartError(str(error)) from error.__cause__
    finally:
        _end_helpers()


async def _start(
    running: Embedded, options: Options, also: collections.abc.Collection[str] | None
) -> None:
    assembly = running.assembly
    repository = assembly.repository
    frontends = running.frontends(options)
    await frontends.open()
    at_start = options.model_control_mode.models_at_start(options.load_model)
    if also is None:
        at_start = frozenset()
    elif at_start is not None:
        at_start = at_start.union(also)
    if not await repository.load_all(at_start):
        states = repository.states()
        failed = {state.name: state.reason for state in states if state.state is not State.READY}
        if options.exit_on_error:
            lines = [f"{name}: {reason}" for name, reason in sorted(failed.items())] or [
                "models that are not in the repository"
            ]
            raise StartError(
                f"failed to load all models: {'; '.join(lines)}; exit_on_error=False serves the others"
            )
    await assembly.unused.find()
    await frontends.accept()
    assembly.engine.phase = Phase.SERVING
    assembly.pollers.start()


def _stores(options: Options) -> StoreProcess:
    stores = StoreProcess(
        directory=options.repository_cache_directory,
        limit=options.repository_cache_bytes,
        environ=os.environ,
    )
    stores.begin(place for place in options.model_repository if local_root(place) is None)
    return stores


def _end_helpers() -> None:
    """End what runs beside the workers of this process, once there is no worker any more."""
    spawn = sys.modules.get("naiad.hosts.process.spawn")
    if spawn is not None:
        spawn.end_helpers()
