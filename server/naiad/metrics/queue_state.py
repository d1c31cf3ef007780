"""What waits at a model version now, and how long it will: for the metrics page and `GET …/queue`."""

import collections.abc

from naiad.core.record import Record


class LevelState(Record, frozen=True):
    """A priority level.

    Attributes:
        waiting: requests that wait.
        estimated_wait_ns: of a request of this level that comes now; None if it is not known.
    """

    waiting: int
    estimated_wait_ns: int | None


class QueueState(Record, frozen=True):
    """The queue of a model version and its instances.

    Attributes:
        levels: by priority, highest first: those with requests, and that of a request without a priority; 0 without levels.
        default_level: that of a request without a priority.
        oldest_wait_ns: how long the request waits that waits longest; 0 if none does.
        instances: those that can run batches.
        busy: those that do.
        batch_ns: how long recent batches took; 0 before the first one.
    """

    levels: collections.abc.Mapping[int, LevelState]
    default_level: int
    oldest_wait_ns: int
    instances: int
    busy: int
    batch_ns: int

    @property
    def waiting(self) -> int:
        """Requests that wait, of all levels."""
        return sum(level.waiting for level in self.levels.values())
