"""When a model has begun an execution, and how many requests wait: scenarios wait for that, and not for a time.

Both servers show it in the same way: what a model prints is in the server's log, and the metrics count the requests of its queue.
"""

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from tests.conformance.scenarios.wire import Target
from tests.conformance.servers.control import repository_of
from tests.support.waiting import wait_until

_PLUGS = itertools.count(1)


class Executions:
    """Counts the executions of a model that prints `busy in <model>!` when one begins (`models/describe.py`), from now on.

    Args:
        target: the server.
        model: the model's name.
    """

    def __init__(self, target: Target, model: str) -> None:
        self._target = target
        self._line = f"busy in {model}!"
        self._before = self._printed()

    def wait(self, begun: int = 1) -> None:
        """Waits until so many have begun."""
        wait_until(
            lambda: self._printed() - self._before >= begun, what=f"'{self._line}' is not printed"
        )

    def _printed(self) -> int:
        return self._target.process.output().count(self._line)


@contextlib.contextmanager
def plug(target: Target) -> Iterator[int]:
    """Gives the DELAY_MS of an execution of a `describe` model that takes until this context ends, and a moment longer."""
    number = next(_PLUGS)
    go = repository_of(target).parent / f"go-{number}"
    try:
        yield -number
    finally:
        go.touch()


def pending(target: Target, model: str) -> int:
    """How many requests to a model wait for their execution."""
    text = target.http("GET", "/metrics", port=target.process.ports.metrics).body.decode()
    counts = re.findall(
        rf'^nv_inference_pending_request_count{{[^}}]*model="{model}"[^}}]*}} (\S+)',
        text,
        re.MULTILINE,
    )
    return sum(int(float(count)) for count in counts)


def wait_queued(target: Target, model: str, futures: Iterable[Future[Any]]) -> None:
    """Waits until each request to a model waits for its execution, or has been answered without one."""
    sent = list(futures)
    wait_until(
        lambda: pending(target, model) + sum(each.done() for each in sent) >= len(sent),
        what=f"{len(sent)} requests to {model} are not in its queue",
    )
