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
from naiad_operator.probes import serving
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
    loop = asyncio.get_running_loop()
    # kopf puts its own in their place once it runs. The first process of a container has no default for them.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runtime.stop_wanted.set)
    async with serving(runtime):
        try:
            await _until_served(runtime)
            async with running(runtime):
                await kopf.operator(
                    registry=registry(runtime),
                    settings=settings(),
                    standalone=True,
                    clusterwide=not options.namespaces,
                    namespaces=options.namespaces,
                    stop_flag=runtime.stop_wanted,
                )
        except _StoppedError:
            await runtime.stop()
        except errors.ApiError as error:
            runtime.fail(str(error))
    return 1 if runtime.failure else 0


class _StoppedError(Exception):
    """Asked to end before there was anything to do."""


async def _until_served(runtime: Runtime) -> None:
    """Waits for an API server that knows the resource: the CRD may be applied in the same moment as the operator."""
    wanted = f"{names.API_VERSION}/{names.KIND}"
    told = ""
    while True:
        try:
            if wanted in await runtime.api.kinds():
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
