"""Whether a batch waits for a faster instance that is busy rather than begin on a slow one that is free. Pure.

A slow instance that takes a batch keeps its requests for as long as it needs, and with them the clients that wait for the responses before they send the next
ones. If the faster instances would be done with everything that waits before that, it is only in their way: a model is then slower with the slow instance
than without. So it takes a batch only if they would not.
"""

import collections.abc

from naiad.scheduling.speed.estimate import InstanceLoad


def waits_for_faster(
    slow_ns: int, faster: collections.abc.Sequence[InstanceLoad], batches: int
) -> bool:
    """Whether the faster instances would run all batches that wait before the slow one has run the first of them.

    Args:
        slow_ns: duration of a batch on the slow instance; 0 if it is not known yet: then it takes one, so that it is.
        faster: the busy instances whose batches take less.
        batches: how many wait, at least 1.
    """
    done = sum(
        (slow_ns - each.free_in_ns) // each.batch_ns
        for each in faster
        if each.batch_ns > 0 and each.free_in_ns + each.batch_ns < slow_ns
    )
    return done >= batches
