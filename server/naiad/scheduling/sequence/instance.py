"""One instance of a model with sequences: its slots, and what runs its batches."""

from naiad.hosts.host import HostedInstance
from naiad.scheduling.instances.pool import InstancePool
from naiad.scheduling.sequence.plan import Batcher
from naiad.scheduling.sequence.preparation import PreparedBatch


class ScheduledInstance:
    """An instance as the scheduler has it.

    Attributes:
        hosted: what it is, and what runs it.
        pool: its pool, which has no other instance.
        batcher: forms its batches.
        running: the batch in execution, if there is one.
        is_due: whether it is considered at the end of this iteration of the loop.
        is_removed: whether it is closed once its sequences are over.
    """

    __slots__ = ("batcher", "hosted", "is_due", "is_removed", "pool", "running")

    def __init__(self, hosted: HostedInstance, pool: InstancePool, batcher: Batcher) -> None:
        self.hosted = hosted
        self.pool = pool
        self.batcher = batcher
        self.running: PreparedBatch | None = None
        self.is_due = False
        self.is_removed = False
