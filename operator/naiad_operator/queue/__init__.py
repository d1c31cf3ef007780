"""The work queue: a pure schedule, and the loop around it."""

from naiad_operator.queue.loop import Queue
from naiad_operator.queue.schedule import (
    Deleted,
    Key,
    Outcome,
    QueueConfig,
    Result,
    Retry,
    Schedule,
)

__all__ = ["Deleted", "Key", "Outcome", "Queue", "QueueConfig", "Result", "Retry", "Schedule"]
