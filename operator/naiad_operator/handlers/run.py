"""Runs the operator: waits for the CRD, starts the runtime, the probes and kopf, and stops them in order."""

import asyncio
import contextlib
import logging
import signal
import socket
import typing

import kopf

from naiad_operator.api import names
from naiad_operator.cluster import credentials, errors
from naiad_operator.handlers.registry import registry, settings
from naiad_operator.options import Options
from naiad_operator.probes import PortUnavailable, Probes, serving
from naiad_operator.runtime import Runtime, running

_log = logging.getLogger(__name__)
_RETRY_S = 2.0


async def run_operator(options: Options) -> int:
    """Runs until SIGTERM, SIGINT or a failure.

    Returns:
        The exit status: 0 after a requested stop, else 1.

    Raises:
        CredentialsError: no API server is configured, or its credentials cannot be loaded.
    """
    access = await credentials.find(kubeconfig=options.kubeconfig, context=options.context)
    runtime = Runtime(options, access)
    _listen_for_signals(runtime)
    try:
        await _run_with_probes(runtime)
    except PortUnavailable as error:
        _log.error("%s", error)
        await runtime.stop()
        return 1
    return 1 if runtime.failure else 0


async def _run_with_probes(runtime: Runtime) -> None:
    """Runs with the probes served.

    Raises:
        PortUnavailable: the port of the probes is not available.
    """
    async with serving(runtime) as probes:
        try:
            await _wait_for_crd(runtime)
            async with running(runtime):
                await _watch_services(runtime, probes)
        except _StopRequestedError:
            await runtime.stop()
        except errors.ApiError as error:
            runtime.fail(str(error))


async def _watch_services(runtime: Runtime, probes: Probes) -> None:
    """Runs kopf's watch of the services until a stop is requested or the watch fails.

    Raises:
        ApiError: the API server no longer serves the resource; a new process waits for it.
    """
    drained = asyncio.Event()
    ending = asyncio.create_task(_drain_then_stop_kopf(runtime, probes, drained), name="end")
    own_tasks = asyncio.all_tasks()
    try:
        tasks = await kopf.spawn_tasks(
            registry=registry(runtime),
            settings=settings(),
            # kopf would make one of the user's name, and the user of a container is only a number.
            identity=typing.cast("typing.Any", socket.gethostname()),
            standalone=True,
            clusterwide=not runtime.options.namespaces,
            namespaces=runtime.options.namespaces,
            stop_flag=drained,
        )
        _listen_for_signals(runtime)
        await kopf.run_tasks(tasks, ignored=own_tasks)
    except Exception as error:
        # kopf does not re-raise its errors; a deleted CRD is the one cause that a user can bring about.
        if await _is_crd_served(runtime):
            raise
        message = f"the API server no longer serves {names.CRD_NAME}"
        raise errors.NotFound("watch services", code=404, message=message) from error
    finally:
        ending.cancel()


async def _drain_then_stop_kopf(runtime: Runtime, probes: Probes, drained: asyncio.Event) -> None:
    """Drains the queue before kopf stops, because kopf cancels every task that was started after its own.

    kopf gives each task five seconds first, including those of the probes' connections, and Prometheus keeps its connection open.
    """
    await runtime.stop_requested.wait()
    _log.info("stop requested: no new work is taken")
    try:
        await runtime.drain()
        await probes.close()
    finally:
        drained.set()


def _listen_for_signals(runtime: Runtime) -> None:
    """Makes SIGTERM and SIGINT request a stop.

    Called once before kopf runs, because the first process of a container has no default handlers, and once more after kopf has
    installed its own.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runtime.stop_requested.set)


class _StopRequestedError(Exception):
    """A stop was requested before the runtime was started."""


async def _wait_for_crd(runtime: Runtime) -> None:
    """Waits until the API server serves the resource: the CRD may be applied at the same time as the operator."""
    last_reason = ""
    while True:
        try:
            if await _is_crd_served(runtime):
                return
            reason = f"the API server does not serve {names.CRD_NAME} yet; apply the CRDs of this release"
        except errors.ApiError as error:
            reason = str(error)
        if reason != last_reason:
            _log.warning("waiting: %s", reason)
            last_reason = reason
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(runtime.stop_requested.wait(), _RETRY_S)
            raise _StopRequestedError


async def _is_crd_served(runtime: Runtime) -> bool:
    return f"{names.API_VERSION}/{names.KIND}" in await runtime.api.kinds()
