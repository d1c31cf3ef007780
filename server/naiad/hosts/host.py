"""Where an instance runs: a thread of this process, or a worker process.

A host takes whole batches from the event loop and gives whole batches back, with one wake-up each way
(a hand-over costs as much as ten requests). It never touches a request's callback.
"""

import collections.abc
import typing

from naiad.backends.backend import Answer, Execution
from naiad.core.inference import Inference
from naiad.core.record import Record
from naiad.errors import InferenceError


class BatchOutcome(Record, frozen=True):
    """A batch that came back.

    Attributes:
        batch: the inferences, as handed over.
        execution: what came of it; None when the whole batch failed.
        error: why the whole batch failed; None when it did not.
        compute_start_ns: when the host took the batch (monotonic).
        compute_end_ns: when the backend was done with it (monotonic).
    """

    batch: list[Inference]
    execution: Execution | None
    error: InferenceError | None
    compute_start_ns: int
    compute_end_ns: int


OnOutcome = collections.abc.Callable[[BatchOutcome], None]
OnAnswer = collections.abc.Callable[[Answer], None]


class Host(typing.Protocol):
    """One instance's place. All methods are called on the event loop, `submit` only while no batch is out.

    Attributes:
        name: the instance's name (row 11.32).
    """

    name: str

    def submit(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        """Hand over a batch; `on_outcome` is called on the loop exactly once, also when the instance dies."""
        ...

    def answers_to(self, on_answer: OnAnswer) -> None:
        """Who is told on the loop, one by one and in order, of answers that come apart from their batches.

        Called once, before the first batch. What was sent before a batch came back is told before its outcome.
        """
        ...

    def watch(self, usable: collections.abc.Callable[[bool], None]) -> None:
        """Have `usable` told when batches can no longer be run here (False), and when they can again (True).

        A host is usable until it says otherwise; it says so before it gives back the batch that was out.
        """
        ...

    def ready_now(self) -> bool | None:
        """Whether the instance could run a batch now, as far as that is known without asking it; None: ask with `ready`."""
        ...

    async def ready(self) -> bool:
        """Whether the instance says it could run a batch now."""
        ...

    def abort(self, why: str) -> None:
        """Wait no longer for the batch that is out; only `close` may follow.

        A process is killed, and the batch fails before this returns. A thread cannot be: it is left to itself, and may still tell
        the outcome at some time.

        Args:
            why: a sentence's second half, for the log and for clients.
        """
        ...

    async def close(self) -> None:
        """Wait for the batch that is out, close the instance, end the thread or process. Idempotent.

        What does not end in time is left behind, with an error in the log.
        """
        ...
