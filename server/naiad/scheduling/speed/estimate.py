"""How long a request that comes now would wait until its batch begins: a function of the queue, the instances and recent durations. Pure."""

import collections.abc
import heapq

from naiad.core.record import Record

_ROUNDS = 32
"""So many batches per instance are followed one by one; those behind them by the rate of all instances."""


class InstanceLoad(Record, frozen=True):
    """An instance that takes part.

    Attributes:
        free_in_ns: when its batch ends, from now on; 0 for a free one.
        batch_ns: duration of its next batches.
    """

    free_in_ns: int
    batch_ns: int


class Estimate(Record, frozen=True, eq=True):
    """Of a request that comes now.

    Attributes:
        wait_ns: until its batch begins.
        response_ns: until that has ended.
    """

    wait_ns: int
    response_ns: int


def free_in(began_ns: int, batch_ns: int, now: int) -> int:
    """When a batch that began then ends, from now on. One that is late is expected to take as long again as it is late."""
    return abs(began_ns + batch_ns - now)


def estimate(
    ahead_rows: float, rows_per_batch: int, instances: collections.abc.Sequence[InstanceLoad]
) -> Estimate | None:
    """What is to be expected.

    Args:
        ahead_rows: the rows of requests that run before it.
        rows_per_batch: a batch holds so many; 1 if each request runs alone, and then `ahead_rows` counts requests.
        instances: those that can run batches.

    Returns:
        None if no batch has run yet, or no instance can run one.
    """
    known = [each for each in instances if each.batch_ns]
    if not known:
        return None
    batches = int(ahead_rows // rows_per_batch)
    skipped_ns = 0
    followed = _ROUNDS * len(known)
    if batches > followed:
        rate = sum(1 / each.batch_ns for each in known)
        skipped_ns = round((batches - followed) / rate)
        batches = followed
    free = [(each.free_in_ns, number) for number, each in enumerate(known)]
    heapq.heapify(free)
    for _ in range(batches):
        at, number = free[0]
        heapq.heapreplace(free, (at + known[number].batch_ns, number))
    at, number = free[0]
    wait = at + skipped_ns
    return Estimate(wait, wait + known[number].batch_ns)
