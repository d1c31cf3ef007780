"""How many calls of an ensemble's step go into one batch, where the event loop and the workers of the steps have a processor each.

Clients that each send a request, wait for its response and send the next one bunch together in a chain of steps: a large batch takes longer than a small one, which
catches up with it and joins it in front of the next step. Once all requests go round in one batch, the loop has nothing to do while a worker executes it, and the workers
have nothing to do while the loop hands it on: a quarter of the loop's time was lost. So a batch takes a third of the ensemble's requests at most: one third
is with the loop, one with a worker, and one waits for either. Pure.
"""

from naiad.hosts.host import BatchOutcome
from naiad.metrics.statistics import CloseReason
from naiad.scheduling.batching import Dispatch
from naiad.scheduling.relays.calls import CallInProgress

UNLIMITED = 1 << 62
"""As many calls as the model takes."""

FEWEST = 3
"""Calls that are never parted: a hand-over costs as much as several of them."""

_PARTS = 3
_IDLE = CloseReason.IDLE  # looking up a member of an enum takes longer


class Shares:
    """The largest batch of one model's next calls.

    Attributes:
        most: calls in a batch; `UNLIMITED` unless its last batch was of an ensemble's calls, by a worker that the loop leaves a processor.
    """

    __slots__ = ("_in_progress", "most")

    def __init__(self) -> None:
        self.most = UNLIMITED
        self._in_progress = 0

    def came_back(self, outcome: BatchOutcome) -> None:
        """A batch came back, which is not delivered yet."""
        call = outcome.batch[0].on_response if outcome.apart else None
        if not isinstance(call, CallInProgress) or call.together is None:
            self.most = UNLIMITED
            self._in_progress = 0
            return
        # Those whose client has just been answered are about to come again.
        in_progress = max(call.together.in_progress, self._in_progress - 1)
        self._in_progress = in_progress
        self.most = max(FEWEST, -(-in_progress // _PARTS))

    def cut(self, decision: Dispatch) -> Dispatch:
        """The part of a batch that runs now; the rest waits until the instance is free again."""
        most = self.most
        return decision if decision.count <= most else Dispatch(most, _IDLE)
