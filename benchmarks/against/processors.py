"""Which processors the servers run on and which the load runs on, so that neither moves nor takes the other's time.

A server that the kernel moves between processors fills a cache again each time, and an instance thread that is sometimes beside the event
loop and sometimes on its processor costs more or less per hand-over: two processes of one version differed by up to 40 % that way.
"""

import collections.abc
import contextlib
import os

Processors = collections.abc.Set[int]


def split(allowed: Processors) -> tuple[Processors, Processors]:
    """Where the servers run, which is one processor, and where the load runs: all others, or the same one if there is no other.

    The last one is the servers': the first one often handles the interrupts of the machine.
    """
    servers = frozenset({max(allowed)})
    return servers, frozenset(allowed - servers) or servers


@contextlib.contextmanager
def bound(processors: Processors) -> collections.abc.Iterator[None]:
    """Run the calling thread, and the processes and threads that it starts meanwhile, on these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
