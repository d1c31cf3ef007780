"""What a batch takes on its way into a model of a running server (`compute_input` of its statistics) beside np.copyto of the same bytes; the aim is 1.5 times as long.

Eight clients each send one row of 1 MB to a Python model in a worker process, which form one batch. The batches of that size are read from the statistics; between them
eight such arrays, newly made, are copied into one that is in use by np.copyto. `python -m benchmarks.server.compute_input [ROUNDS]`.
"""

import concurrent.futures
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
import urllib.request

import numpy as np

from benchmarks import models
from benchmarks.requests import wide
from tests.reference.process import ServerProcess, naiad_program

_ROWS = 8
_BATCHES = 20
"""Of a round."""

_BATCHING = "dynamic_batching { preferred_batch_size: 8 max_queue_delay_microseconds: 5000000 }"


def _repository(folder: pathlib.Path) -> pathlib.Path:
    models.python_models(folder)
    config = folder / "wide" / "config.pbtxt"
    text = config.read_text().replace("max_batch_size: 64", f"max_batch_size: {_ROWS}")
    config.write_text(text.replace("dynamic_batching {}", _BATCHING))
    return folder


def _input_times(server: ServerProcess) -> tuple[int, int]:
    """How many batches of eight there were, and their nanoseconds of compute_input."""
    address = f"http://{server.http}/v2/models/wide/stats"
    with urllib.request.urlopen(address, timeout=60) as reply:
        batches = json.load(reply)["model_stats"][0]["batch_stats"]
    found = next((each for each in batches if int(each["batch_size"]) == _ROWS), None)
    if found is None:
        return 0, 0
    return int(found["compute_input"]["count"]), int(found["compute_input"]["ns"])


def _copied() -> float:
    """µs of np.copyto of eight rows that were just made, as those of requests are, into one array that is in use."""
    into = np.ones((_ROWS, 1 << 18), np.float32)
    times: list[float] = []
    for turn in range(_BATCHES):
        rows = [np.full((1, 1 << 18), turn, np.float32) for _ in range(_ROWS)]
        started = time.perf_counter()
        for number, row in enumerate(rows):
            np.copyto(into[number : number + 1], row)
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e6


def main(rounds: int) -> None:
    """Print the comparison."""
    request_of = wide(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with (
            ServerProcess(naiad_program(), [_repository(folder / "models")], log=folder / "log") as server,
            concurrent.futures.ThreadPoolExecutor(_ROWS) as clients,
        ):  # fmt: skip
            sent = request_of.binary(server.http)
            request = urllib.request.Request(sent.url, sent.body, dict(sent.headers))  # noqa: S310 - of a server on this machine

            def ask(_: int) -> None:
                with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 - as above
                    reply.read()

            list(clients.map(ask, range(_ROWS)))
            pairs: list[tuple[float, float]] = []
            for _ in range(rounds):
                count, spent = _input_times(server)
                for _ in range(_BATCHES):
                    list(clients.map(ask, range(_ROWS)))
                more, more_spent = _input_times(server)
                pairs.append(((more_spent - spent) / max(more - count, 1) / 1e3, _copied()))
    mine, copied = (statistics.median(each) for each in zip(*pairs, strict=True))
    ratio = statistics.median(one / other for one, other in pairs)
    least, least_copied = (min(each) for each in zip(*pairs, strict=True))
    print(
        f"batches of {_ROWS} rows of 1 MB: compute_input {mine:,.0f} µs, np.copyto {copied:,.0f} µs, {ratio:.2f} times; "
        f"in the best of {rounds} rounds {least:,.0f} and {least_copied:,.0f} µs (load of the machine {os.getloadavg()[0]:.1f})"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
