"""Stops the server in order: first it is not ready but still accepts, then open sequences end, then it accepts nothing new, finishes requests in flight, and unloads models.

All steps share one time budget. When it is used up, the log says how many inferences are left, and the process exits with 1 (row 17.14).
"""

import asyncio
import collections.abc
import contextlib
import logging
import typing

from naiad.core.clock import Clock
from naiad.core.timeouts import timeout
from naiad.engine.engine import Phase
from naiad.options.options import Options
from naiad.serve.assembly import Assembly

log = logging.getLogger("naiad.serve")

_NS_PER_SECOND = 1e9
_COUNTDOWN_SECONDS = 1.0
_LONGER_SECONDS = 1.0
_AFTER_SEQUENCES_SECONDS = 5.0
"""What open sequences leave of the time for requests in flight and for unloading, if that is not more than half of it."""


class Ports(typing.Protocol):
    """What a drain closes."""

    def begin_drain(self) -> None:
        """Let clients go to other servers, and go on accepting."""

    async def close(self, seconds: float) -> None:
        """Accept nothing more, and finish requests in flight within this time."""


async def drain(
    *,
    lame_duck: collections.abc.Callable[[], None],
    finish_sequences: collections.abc.Callable[[float], collections.abc.Awaitable[None]],
    close: collections.abc.Callable[[float], collections.abc.Awaitable[None]],
    unload: collections.abc.Callable[[], collections.abc.Awaitable[None]],
    inflight: collections.abc.Callable[[], int],
    live_models: collections.abc.Callable[[], int],
    delay_seconds: float,
    timeout_seconds: float,
    clock: Clock,
) -> bool:
    """Stop in order.

    Args:
        lame_duck: say not ready and let connections go after their next reply, while still accepting.
        finish_sequences: let open sequences end, in the seconds that they get, while still accepting their requests (row 13.18).
        close: accept nothing more and finish requests in flight, in the seconds that they get.
        unload: finish and unload the models.
        inflight: inferences not answered yet, for the countdown.
        live_models: models still loaded, for the countdown.
        delay_seconds: how long to go on accepting (`--shutdown-delay-secs`).
        timeout_seconds: for everything after that (`--exit-timeout-secs`).
        clock: measures both.

    Returns:
        Whether everything ended in time.
    """
    lame_duck()
    if delay_seconds > 0:
        log.info("stopping: not ready any more, accepting for another %g s", delay_seconds)
        await asyncio.sleep(delay_seconds)
    deadline_ns = clock.monotonic_ns() + int(timeout_seconds * _NS_PER_SECOND)

    def left() -> float:
        return max(0.0, (deadline_ns - clock.monotonic_ns()) / _NS_PER_SECOND)

    async def count_down() -> None:
        while True:
            log.info(
                "Timeout %.0f: Found %d live models and %d in-flight inferences",
                left(),
                live_models(),
                inflight(),
            )
            await asyncio.sleep(_COUNTDOWN_SECONDS)

    countdown = asyncio.get_running_loop().create_task(count_down())
    try:
        async with timeout(timeout_seconds):
            await finish_sequences(max(left() - _AFTER_SEQUENCES_SECONDS, left() / 2))
            # A little more than is left: this timeout ends them, so that unanswered inferences are counted before their requests fail.
            await close(left() + _LONGER_SECONDS)
            await unload()
    except TimeoutError:
        log.error(  # noqa: TRY400 - the traceback of a timeout says nothing
            "Exit timeout expired. Exiting immediately. (%d inferences were not answered)",
            inflight(),
        )
        return False
    finally:
        countdown.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await countdown
    return True


async def stop(assembly: Assembly, frontends: Ports, options: Options, clock: Clock) -> bool:
    """Drain a server's ports and unload its models; returns whether all of it ended in time."""
    await assembly.interrupt()
    engine, repository = assembly.engine, assembly.repository

    def lame_duck() -> None:
        engine.phase = Phase.DRAINING
        frontends.begin_drain()

    in_time = await drain(
        lame_duck=lame_duck,
        finish_sequences=engine.finish_sequences,
        close=frontends.close,
        unload=assembly.unload,
        inflight=engine.inflight,
        live_models=lambda: len(repository.served()) + len(repository.unloading()),
        delay_seconds=options.shutdown_delay_secs,
        timeout_seconds=options.exit_timeout_secs,
        clock=clock,
    )
    engine.phase = Phase.EXITING
    return in_time
