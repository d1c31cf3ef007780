"""What a scheduler executes and what waits in its queue: the detection of calls that wait for each other reads it."""

import collections.abc

from naiad.core.inference import Inference
from naiad.core.record import Record


class Occupancy(Record, frozen=True, gc=True):
    """What a scheduler executes now, for the detection of calls that wait for each other.

    Attributes:
        executions: the name of each instance with its batch; None for a free instance. A scheduler without instances has one entry per
            inference in progress.
        waits: whether an inference is in the queue for an instance. One of a prefetched batch is in no part of this: it waits for an instance
            that calls no models.
        kept: batches that came back and wait for another one to keep the order (row 12.9), each with that one.
    """

    executions: collections.abc.Sequence[tuple[str, list[Inference] | None]]
    waits: collections.abc.Callable[[Inference], bool]
    kept: collections.abc.Sequence[tuple[list[Inference], list[Inference]]] = ()
