"""Decides whether the calls of a thread that calls alone run on one processor, by how long they take there and where the kernel puts them. Pure.

Whether one processor is better depends on the machine: on how long an idle processor takes to wake up, on what else runs on this one, on the model. So it is tried: calls
run free, then bound, and bound they stay if that is faster. Now and then a few run free again: where other work came to the processor, and the kernel would have
gone out of its way, they are faster, and the next trial takes the processor where the kernel has the thread then.
"""

import collections
import statistics

from naiad.hosts.cpu_affinity import AffinityPolicy

SHORT_CALL_NS = 300_000
"""Calls that take longer than this, on average, do not gain enough to be tried."""

_MOST_NS = 2_000_000
"""A call that takes longer counts as one of this length: a single one, of a busy machine, decides nothing."""

TRIED_AFTER = 64
"""So many calls run free before a trial: instances and their caches have settled by then."""

AGAIN_AFTER = 4_096
"""So many run free after a trial that brought nothing."""

TRIAL = 96
"""Calls of a trial: an instance needs up to 64 to follow the loop (`hosts.cpu_affinity`)."""

KEPT = 2_048
"""Bound calls between two checks."""

CHECK = 24
"""Calls of a check, which run free."""

COMPARED = 16
"""The last so many calls before a decision are compared, by their median."""


class LoneCallPolicy:
    """Counts calls that were alone, one after the other.

    Attributes:
        bound: whether the next call is to run on one processor.
        trials: so many began: each one with a processor of its own choice.
    """

    __slots__ = ("_before_ns", "_decide", "_left", "_recent", "_short", "bound", "trials")

    def __init__(self) -> None:
        self.bound = False
        self.trials = 0
        self._short = AffinityPolicy(SHORT_CALL_NS)
        self._recent: collections.deque[int] = collections.deque(maxlen=COMPARED)
        self._before_ns = 0.0
        self._free(TRIED_AFTER)

    def record(self, duration_ns: int) -> None:
        """A call that was alone took this long."""
        self._recent.append(duration_ns)
        self._short.record(min(duration_ns, _MOST_NS))
        self._left -= 1
        if self._left <= 0:
            self._decide()
        elif self.bound and not self._short.together:
            self._free(TRIED_AFTER)

    def interrupt(self) -> None:
        """Calls are in progress at the same time, or the processor cannot be used: start again."""
        self._free(TRIED_AFTER)

    def _free(self, calls: int) -> None:
        self.bound, self._left, self._decide = False, calls, self._try

    def _try(self) -> None:
        if not self._short.together:
            self._free(TRIED_AFTER)
            return
        self._before_ns = statistics.median(self._recent)
        self.trials += 1
        self.bound, self._left, self._decide = True, TRIAL, self._judge

    def _judge(self) -> None:
        if statistics.median(self._recent) < self._before_ns:
            self._keep()
        else:
            self._free(AGAIN_AFTER)

    def _keep(self) -> None:
        self.bound, self._left, self._decide = True, KEPT, self._check

    def _check(self) -> None:
        self._before_ns = statistics.median(self._recent)
        self.bound, self._left, self._decide = False, CHECK, self._compare

    def _compare(self) -> None:
        if statistics.median(self._recent) < self._before_ns:
            self._free(TRIED_AFTER)
        else:
            self._keep()
