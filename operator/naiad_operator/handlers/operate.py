"""One run of the operator, from the first request to the last."""

import asyncio
import contextlib
import logging
import signal

import kopf

from naiad_operator.api import names
from naiad_operator.cluster import credentials, errors
from naiad_operator.handlers.registry import registry, settings
from naiad_operator.options import Options
from naiad_operator.probes import PortUnavailable, Probes, serving
from naiad_operator.runtime import Runtime, running

_log = logging.getLogger(__name__)
_ASK_AGAIN_S = 2.0


async def operate(options: Options) -> int:
    """Runs until SIGTERM, SIGINT or a failure.

    Returns:
        The exit status: 0 when it was asked to end.

    Raises:
        CredentialsError: there is no API server to talk to.
    """
    endpoint = credentials.find(kubeconfig=options.kubeconfig, context=options.context)
    runtime = Runtime(options, endpoint)
    _listen_for_signals(runtime)
    try:
        await _serve(runtime)
    except PortUnavailable as error:
        _log.error("%s", error)
        await runtime.stop()
        return 1
    return 1 if runtime.failure else 0


async def _serve(runtime: Runtime) -> None:
    """Runs with probes.

    Raises:
        PortUnavailable: nothing can be served on their port.
    """
    async with serving(runtime) as probes:
        try:
            await _until_served(runtime)
            async with running(runtime):
                await _watch(runtime, probes)
        except _StoppedError:
            await runtime.stop()
        except errors.ApiError as error:
            runtime.fail(str(error))


async def _watch(runtime: Runtime, probes: Probes) -> None:
    """Hears of services, until it is asked to stop or cannot go on.

    Raises:
        ApiError: the resource is there no more; a new process waits for it.
    """
    worked = asyncio.Event()
    ending = asyncio.create_task(_end(runtime, probes, worked), name="end")
    ours = asyncio.all_tasks()
    try:
        tasks = await kopf.spawn_tasks(
            registry=registry(runtime),
            settings=settings(),
            standalone=True,
            clusterwide=not runtime.options.namespaces,
            namespaces=runtime.options.namespaces,
            stop_flag=worked,
        )
        _listen_for_signals(runtime)
        await kopf.run_tasks(tasks, ignored=ours)
    except Exception as error:
        # kopf keeps its errors to itself; of all that can end it, this is the one that a person causes.
        if await _is_served(runtime):
            raise
        message = f"the API server no longer serves {names.CRD_NAME}"
        raise errors.NotFound("watch services", code=404, message=message) from error
    finally:
        ending.cancel()


async def _end(runtime: Runtime, probes: Probes, worked: asyncio.Event) -> None:
    """What is being reconciled comes to its end before kopf ends, which cancels every task that is younger than itself.

    It gives each five seconds first, also those of connections to the probes: Prometheus keeps its own.
    """
    await runtime.stop_wanted.wait()
    _log.info("asked to stop: no new work is taken")
    try:
        await runtime.wind_down()
        await probes.close()
    finally:
        worked.set()


def _listen_for_signals(runtime: Runtime) -> None:
    """SIGTERM and SIGINT ask for an end.

    Said once before kopf runs, since the first process of a container has no default for them, and once again when kopf has put its
    own in their place.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runtime.stop_wanted.set)


class _StoppedError(Exception):
    """Asked to end before there was anything to do."""


async def _until_served(runtime: Runtime) -> None:
    """Waits for an API server that knows the resource: the CRD may be applied in the same moment as the operator."""
    told = ""
    while True:
        try:
            if await _is_served(runtime):
                return
            why = f"the API server does not serve {names.CRD_NAME} yet; apply the CRDs of this release"
        except errors.ApiError as error:
            why = str(error)
        if why != told:
            _log.warning("waiting: %s", why)
            told = why
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(runtime.stop_wanted.wait(), _ASK_AGAIN_S)
            raise _StoppedError


async def _is_served(runtime: Runtime) -> bool:
    return f"{names.API_VERSION}/{names.KIND}" in await runtime.api.kinds()
