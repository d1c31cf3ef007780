"""The server process: sets up the process, starts the parts of `assembly.py` and the ports in order, waits for a signal, and stops them in order.

Start: find GPUs -> bind the ports, serve the metrics port -> load models -> accept HTTP and gRPC -> ready. The ports come first, so that a port
that is in use is reported before any load, and so that `/status` responds while large models load. Stop: see `drain.py` and
`signals.py`.
"""

import asyncio
import logging
import os
import signal
import threading
import time
import typing

from naiad.core.clock import SystemClock
from naiad.core.processes.threads import UnwaitedExecutor, start_all
from naiad.engine.engine import Phase
from naiad.errors import InferenceError
from naiad.log_text import Lines
from naiad.options.options import Options
from naiad.repository.lifecycle import State
from naiad.repository.stores.process import StoreProcess
from naiad.repository.temporary import remove_leftovers
from naiad.serve import interpreter
from naiad.serve.assembly import Assembly, AssemblyError, assembled
from naiad.serve.console import LoadingLines, show_addresses, show_models
from naiad.serve.drain import stop
from naiad.serve.frontends import FrontEndError, Frontends
from naiad.serve.heartbeat.loop_lag import LoopLag
from naiad.serve.heartbeat.stall_watchdog import StallWatchdog
from naiad.serve.process_memory import ProcessMemory
from naiad.serve.signals import EARLY, to_watch

if typing.TYPE_CHECKING:
    from rich.console import Console

log = logging.getLogger("naiad.serve")


class Server:
    """One server process.

    Args:
        console: the terminal, if there is one.
        stores: reads the repositories that are not local folders.
    """

    def __init__(
        self, options: Options, *, console: "Console | None", stores: StoreProcess
    ) -> None:
        self._options = options
        self._console = console
        # A poll tries failed models again and again.
        self._lines = LoadingLines(console, repeats=not options.model_control_mode.polls)
        self._clock = SystemClock()
        self._frontends: Frontends | None = None
        self._lag = LoopLag(clock=self._clock, was_in_use=self._was_in_use)
        self._watchdog = StallWatchdog(lag=self._lag, clock=self._clock)
        self._stopping = asyncio.Event()
        self._stores = stores
        self._at_stop: list[asyncio.Task[typing.Any]] = []
        """What is cancelled when the server stops."""

    async def run(self) -> int:
        """Serve until a signal stops the server.

        Returns:
            The exit status: 0 after an orderly stop, else 1 (rows 7.32, 17.14).
        """
        executor = UnwaitedExecutor(_THREADS)
        start_all(executor, _THREADS)
        asyncio.get_running_loop().set_default_executor(executor)
        self._watch_signals()
        if self._stopping.is_set():
            return 0
        threading.Thread(target=remove_leftovers, name="leftovers", daemon=True).start()
        try:
            async with assembled(
                self._options,
                stores=self._stores,
                progress=self._lines,
                environ=os.environ,
                clock=self._clock,
                memory=ProcessMemory(_workers),
                imported=interpreter.exempt,
            ) as assembly:
                return await self._serve(assembly)
        except (AssemblyError, FrontEndError, InferenceError) as error:
            log.error("%s", Lines(error))  # noqa: TRY400 - the message says all
            return 1

    async def _serve(self, assembly: Assembly) -> int:
        gpu_uuids = {gpu.index: gpu.uuid for gpu in assembly.gpus}
        frontends = Frontends(
            options=self._options,
            engine=assembly.engine,
            states=assembly.states,
            system_metrics=lambda: [self._lag.series(), *assembly.series()],
            gpu_uuids=gpu_uuids,
            clock=self._clock,
            on_client=self._lag.client_came,
        )
        self._frontends = frontends
        try:
            await frontends.open()
            interpreter.imported()
            self._lag.start(asyncio.get_running_loop())
            failed = await self._load_and_accept(assembly, frontends)
            await self._stopping.wait()
            in_time = await self._stop(assembly, frontends)
        finally:
            await frontends.close_all()
            self._watchdog.stop()
            self._lag.stop()
        if failed:
            # As the last line, after those of the stop.
            log.error(
                "failed to load all models: exiting with status 1, because --exit-on-error is true; failed: %s; the reasons are above",
                ", ".join(failed),
            )
            return 1
        return 0 if in_time else 1

    async def _load_and_accept(self, assembly: Assembly, frontends: Frontends) -> list[str]:
        """Load the models of the start and open the ports, unless a signal comes first; what goes on until the stop is left running.

        Returns:
            The models because of which the server stops instead; none if it serves or if a signal came.
        """
        options, repository = self._options, assembly.repository
        at_start = options.model_control_mode.models_at_start(options.load_model)
        self._lines.show_bars(repository.load_progress)
        loading = asyncio.get_running_loop().create_task(repository.load_all(at_start))
        stopping = asyncio.get_running_loop().create_task(self._stopping.wait())
        try:
            await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._lines.hide_bars()
            stopping.cancel()
        if not loading.done():
            self._at_stop.append(loading)
            return []
        loaded = loading.result()
        states = repository.states()
        show_models(self._console, states)
        missing = set(options.readiness_policy.models) - {state.name for state in states}
        if missing:
            log.warning(
                "not ready until these models are loaded, which --readiness-policy names and the start did not load: %s",
                ", ".join(sorted(missing)),
            )
        self._at_stop.append(asyncio.get_running_loop().create_task(assembly.unused.find()))
        if not loaded and options.exit_on_error:
            self._lines.hide_unloads()
            self._stopping.set()
            names = sorted({state.name for state in states if state.state is not State.READY})
            return names or ["models that are not in the repository"]
        interpreter.settle()
        await frontends.accept()
        assembly.engine.phase = Phase.SERVING
        assembly.pollers.start()
        # Not before: imports and loads block the loop while there are no requests.
        self._watchdog.start()
        show_addresses(self._console, frontends.addresses(), example=frontends.example(states))
        return []

    async def _stop(self, assembly: Assembly, frontends: Frontends) -> bool:
        """Drain and unload; returns whether all of it ended in time."""
        for task in self._at_stop:
            task.cancel()
        return await stop(assembly, frontends, self._options, self._clock)

    def _was_in_use(self) -> bool:
        return self._frontends is not None and self._frontends.was_in_use()

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in to_watch():
            loop.add_signal_handler(number, self._on_signal, number)
        if (early := EARLY.signals.first) is not None:
            self._begin_to_stop(early)

    def _on_signal(self, number: signal.Signals) -> None:
        first = EARLY.signals.first is None
        if EARLY.signals.forces_exit(number, time.monotonic()):
            log.warning("%s again: exiting at once", number.name)
            self._lines.hide_bars()
            logging.shutdown()
            os._exit(1)
        if first:
            self._begin_to_stop(number)

    def _begin_to_stop(self, number: signal.Signals) -> None:
        log.info(
            "%s: stopping (a second Ctrl-C, or a signal a second later, exits at once)", number.name
        )
        self._stopping.set()


def _workers() -> list[int]:
    """The ids of the worker processes."""
    from naiad.hosts.process.spawn import ORPHAN_REAPER  # noqa: PLC0415 - a server without workers does not need it before its first unload

    return ORPHAN_REAPER.groups()


_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""Threads of the loop's executor, as many as Python's own has."""
