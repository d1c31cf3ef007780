"""The scheduler interface: what the engine needs of a model version's scheduler, whether the scheduler has instances or calls other models; and how each of them stops."""

import asyncio
import collections.abc
import contextlib
import typing

from naiad.config.model_config import ModelConfig
from naiad.core.inference import Inference
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.host import HostedInstance
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.occupancy import Occupancy
from naiad.scheduling.relays.calls import Submit
from naiad.scheduling.strategy import Strategy

UNLOAD_GRACE_S = 30.0
"""How long a model that is being unloaded may take to finish requests whose clients have all gone, including a batch that hangs."""

UNLOAD_LIMIT_S = 3600.0
"""How long it may take for other requests. A client that still waits then gets an error."""

Abort = collections.abc.Callable[[str, ErrorCode, FailureReason], None]


class Scheduler(typing.Protocol):
    """Decides when and where each inference runs. All methods are called on the event loop.

    Attributes:
        statistics: the counters of the model version. The scheduler counts every inference that it accepted.
    """

    @property
    def statistics(self) -> ModelStatistics:
        """See above."""
        ...

    def submit(self, inference: Inference) -> None:
        """Accept an inference; its `on_response` will be called exactly once more with a final response.

        The scheduler owns it until then, whatever happens: success, error, timeout, cancellation, death of a worker, stop. It sets the
        inference's `on_cancel`.

        Raises:
            InferenceError: it is refused (queue full, stopping); nothing is called.
        """
        ...

    def inflight(self) -> int:
        """How many inferences it owns."""
        ...

    def occupancy(self) -> Occupancy:
        """What it executes. It is computed by each call, so call it rarely."""
        ...

    def ready_now(self) -> bool | None:
        """The result of `ready` if it is known without a call to an instance; None: call `ready`."""
        ...

    async def ready(self) -> bool:
        """Whether it could execute an inference now (rows 2.7, 2.12)."""
        ...

    def resize(
        self,
        added: collections.abc.Iterable[HostedInstance],
        removed: collections.abc.Iterable[HostedInstance],
    ) -> None:
        """Use further instances, and close others once they have finished what they have (row 7.24)."""
        ...

    async def stop(self) -> None:
        """Refuse new inferences, finish every one it owns, then close its instances. Idempotent."""
        ...


@typing.runtime_checkable
class SubmitsTogether(typing.Protocol):
    """A scheduler that accepts several inferences with one decision."""

    def submit_together(
        self, inferences: collections.abc.Iterable[Inference]
    ) -> list[tuple[Inference, InferenceError]]:
        """As `submit` of each; returns those that are refused."""
        ...


class MakeScheduler(typing.Protocol):
    """Makes the scheduler of a model version; on the event loop."""

    def __call__(
        self,
        config: ModelConfig,
        *,
        version: int,
        instances: collections.abc.Sequence[HostedInstance],
        submit: Submit,
        statistics: ModelStatistics,
        strategy: Strategy | None = None,
    ) -> Scheduler:
        """Make it.

        Args:
            config: normalised.
            version: the version.
            instances: the scheduler closes their hosts when it stops. None of a model that has no instances.
            submit: runs requests by other models; usable once the scheduler has an inference.
            statistics: its counters.
            strategy: forms its batches; the scheduler closes it when it stops.

        Raises:
            InferenceError: the model cannot be served; the instances remain the caller's.
        """
        ...


async def drain(
    drained: asyncio.Event,
    *,
    abandoned: collections.abc.Callable[[], set[Inference]],
    abort: Abort,
) -> None:
    """Wait until a scheduler that accepts no more requests has finished all that it owns, and give up those that may never end.

    Args:
        drained: set once there is none left.
        abandoned: all requests that are left, if no client waits for any of them; else none.
        abort: fails all that are left: why, and the code and reason of their error. It sets `drained`.
    """
    now = asyncio.get_running_loop().time
    last = now() + UNLOAD_LIMIT_S
    while not drained.is_set():
        before = abandoned()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(drained.wait(), UNLOAD_GRACE_S)
            return
        still = abandoned()
        if still and still <= before:
            why = f"every client has gone for more than {UNLOAD_GRACE_S:g} s"
            abort(why, ErrorCode.CANCELLED, FailureReason.CANCELED)
        elif now() >= last:
            why = f"they did not end in {UNLOAD_LIMIT_S:g} s"
            abort(why, ErrorCode.UNAVAILABLE, FailureReason.BACKEND)
