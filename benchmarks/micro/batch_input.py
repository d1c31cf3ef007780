"""What a batch of images costs on its way into a model, beside `np.copyto` of the same bytes in one go.

The server puts the tensors of a batch into a segment; a backend that wants one array gets a view of them there, or has them gathered in memory of its
own. They take turns in random order, once alone and once beside a thread that wants the interpreter lock, as those of grpc.aio and of models in the
server do. `python -m benchmarks.micro.batch_input` prints the table.
"""

import argparse
import collections.abc
import contextlib
import os
import random
import statistics
import threading
import time
import typing

import numpy as np

from naiad.backends.batch import gather
from naiad.hosts.link import segments
from naiad.hosts.link.payload import Payload
from naiad.hosts.link.segments import Segment

_US_PER_S = 1e6

Array = np.ndarray[typing.Any, typing.Any]


@contextlib.contextmanager
def _busy_thread() -> collections.abc.Iterator[None]:
    """Another thread runs Python code meanwhile."""
    ended = False

    def work() -> None:
        while not ended:
            sum(range(100))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended = True
        thread.join()


def measure(*, images: int, elements: int, rounds: int) -> dict[str, float]:
    """Medians in microseconds, by what is done."""
    arrays: list[Array] = [np.random.default_rng(each).random((1, elements), np.float32) for each in range(images)]  # fmt: skip
    payload = Payload()
    places = [payload.add(array)[0] for array in arrays]
    descriptor, memory = segments.create(payload.size)
    os.close(descriptor)
    segment = Segment(memory, payload.size)
    there: list[Array] = [np.ndarray((1, elements), np.float32, segment.written, at) for at in places]  # fmt: skip
    whole, own = np.concatenate(arrays), np.empty((images, elements), np.float32)
    there_at_once: Array = np.ndarray(whole.shape, np.float32, segment.written)
    steps: dict[str, collections.abc.Callable[[], object]] = {
        "`np.copyto` into a segment in one go": lambda: np.copyto(there_at_once, whole),
        "the tensors into a segment": lambda: payload.write(memory, segment.written),
        "one array of tensors in a segment": lambda: gather(there),
        "gathered into given memory": lambda: gather(arrays, own),
        "gathered into new memory": lambda: gather(arrays),
    }
    times: dict[str, list[float]] = {what: [] for what in steps}
    for _ in range(rounds):
        for what, step in random.sample(list(steps.items()), len(steps)):
            started = time.perf_counter()
            step()
            times[what].append((time.perf_counter() - started) * _US_PER_S)
    return {what: statistics.median(each) for what, each in times.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.micro.batch_input", description=__doc__
    )
    parser.add_argument("--images", type=int, default=32, help="of a batch (default 32)")
    parser.add_argument("--elements", type=int, default=37_632, help="FP32 numbers of each (default 37632: 150 KB)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    settings = {"images": arguments.images, "elements": arguments.elements, "rounds": arguments.rounds}  # fmt: skip
    alone = measure(**settings)
    with _busy_thread():
        beside = measure(**settings)
    print("| µs | alone | ratio | beside a busy thread | ratio |\n|---|---|---|---|---|")
    first = next(iter(alone))
    for what in alone:
        print(
            f"| {what} | {alone[what]:.0f} | {alone[what] / alone[first]:.2f} | {beside[what]:.0f} | {beside[what] / beside[first]:.2f} |"
        )


if __name__ == "__main__":
    main()
