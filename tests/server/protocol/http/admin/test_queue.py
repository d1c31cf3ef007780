"""The JSON of `GET …/queue`."""

from naiad.engine.api import ModelQueue
from naiad.metrics.queue_state import LevelState, QueueState
from naiad.metrics.statistics import SequenceCounts
from naiad.protocol.http.admin.queue import queue

MS = 1_000_000


def test_a_queue_in_front_of_instances() -> None:
    state = QueueState(
        levels={1: LevelState(2, 5 * MS), 2: LevelState(3, None)},
        default_level=2,
        oldest_wait_ns=12_345_678,
        instances=4,
        busy=3,
        batch_ns=0,
    )
    found = ModelQueue(name="m", version=2, pending=5, queue=state, sequences=None)
    assert queue(found) == {
        "name": "m",
        "version": "2",
        "pending": 5,
        "waiting": 5,
        "oldest_wait_ms": 12.346,
        "estimated_wait_ms": None,
        "priorities": [
            {"priority": 1, "waiting": 2, "estimated_wait_ms": 5.0},
            {"priority": 2, "waiting": 3, "estimated_wait_ms": None},
        ],
        "instances": {"usable": 4, "busy": 3},
        "batch_ms": None,
    }


def test_sequences_and_a_model_without_a_queue() -> None:
    counts = SequenceCounts(open=3, waiting=1, slots=2, used=2, ended={})
    found = ModelQueue(name="m", version=1, pending=4, queue=None, sequences=counts)
    assert queue(found) == {
        "name": "m",
        "version": "1",
        "pending": 4,
        "sequences": {"open": 3, "backlog": 1, "slots": 2, "slots_used": 2},
    }
