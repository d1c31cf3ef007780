"""The JSON of what waits at a model version (`GET …/queue`). Pure."""

import typing

from naiad.engine.api import ModelQueue
from naiad.metrics.queue_state import LevelState, QueueState

_NS_PER_MS = 1e6
_DIGITS = 3


def queue(found: ModelQueue) -> dict[str, typing.Any]:
    """Times are in milliseconds; null is not known yet. A model has `queue`, `sequences`, or neither."""
    entry: dict[str, typing.Any] = {
        "name": found.name,
        "version": str(found.version),
        "pending": found.pending,
    }
    if found.queue is not None:
        entry |= _queue(found.queue)
    counts = found.sequences
    if counts is not None:
        entry["sequences"] = {
            "open": counts.open,
            "backlog": counts.waiting,
            "slots": counts.slots,
            "slots_used": counts.used,
        }
    return entry


def _queue(state: QueueState) -> dict[str, typing.Any]:
    default = state.levels[state.default_level]
    return {
        "waiting": state.waiting,
        "oldest_wait_ms": _ms(state.oldest_wait_ns),
        "estimated_wait_ms": _ms(default.estimated_wait_ns),
        "priorities": [_level(priority, level) for priority, level in state.levels.items()],
        "instances": {"usable": state.instances, "busy": state.busy},
        "batch_ms": _ms(state.batch_ns or None),
    }


def _level(priority: int, level: LevelState) -> dict[str, typing.Any]:
    return {
        "priority": priority,
        "waiting": level.waiting,
        "estimated_wait_ms": _ms(level.estimated_wait_ns),
    }


def _ms(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else round(nanoseconds / _NS_PER_MS, _DIGITS)
