"""What a step measured: one line of JSON per row, written at once, so that a step that is cut off keeps what it had; and clients for one connection."""

import collections.abc
import http.client
import json
import statistics
import time
from http import HTTPStatus
from typing import Any

import numpy as np

from tests.gpu.bench import Bench
from tests.reference.process import ServerProcess
from tests.wire.plain_http import get

FILE = "rows.jsonl"

Array = np.ndarray[Any, Any]


def row(bench: Bench, measure: str, **values: Any) -> None:
    """Write one, in this step's folder; `aim` says in words what was wanted."""
    with (bench.folder / FILE).open("a") as file:
        file.write(json.dumps({"measure": measure, **values}) + "\n")


class Client:
    """One connection over which one request is sent again and again; the body is made once."""

    def __init__(self, server: ServerProcess, model: str) -> None:
        self._server = server
        self._model = model
        self._connection = http.client.HTTPConnection(server.http, timeout=60)
        self._body = b""
        self._headers: dict[str, str] = {}

    def binary(self, name: str, datatype: str, values: Array) -> "Client":
        """Send these values, and have the outputs as bytes."""
        tensor = {
            "name": name,
            "datatype": datatype,
            "shape": list(values.shape),
            "parameters": {"binary_data_size": values.nbytes},
        }
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}})
        self._body = head.encode() + values.tobytes()
        self._headers = {"Inference-Header-Content-Length": str(len(head))}
        return self

    def json(self, body: Any) -> "Client":
        """Send this as JSON."""
        self._body = json.dumps(body).encode()
        self._headers = {}
        return self

    def ask(self) -> bytes:
        """The reply.

        Raises:
            RuntimeError: it is an error.
        """
        path = f"/v2/models/{self._model}/infer"
        self._connection.request("POST", path, self._body, self._headers)
        reply = self._connection.getresponse()
        body = reply.read()
        if reply.status != HTTPStatus.OK:
            raise RuntimeError(
                f"{self._model}: {reply.status} {body[:400].decode(errors='replace')}"
            )
        return body

    def times(self, count: int) -> list[float]:
        """How long each of so many requests took, in ms."""
        found: list[float] = []
        for _ in range(count):
            began = time.perf_counter()
            self.ask()
            found.append((time.perf_counter() - began) * 1e3)
        return found

    def median(self, count: int) -> float:
        """The median of so many, in ms."""
        return statistics.median(self.times(count))

    def inside(self, count: int) -> tuple[float, float]:
        """Ask so often; the median ms of a request, and the mean ms of computing that the statistics have."""
        before = self._computing()
        times = self.times(count)
        after = self._computing()
        computing = (after[0] - before[0]) / max(1, after[1] - before[1]) / 1e6
        return statistics.median(times), computing

    def _computing(self) -> tuple[int, int]:
        _, body = get(self._server.http, f"/v2/models/{self._model}/stats")
        of = json.loads(body)["model_stats"][0]["inference_stats"]["compute_infer"]
        return int(of["ns"]), int(of["count"])


def in_turns(
    rounds: int, measures: collections.abc.Mapping[str, collections.abc.Callable[[], float]]
) -> dict[str, float]:
    """The medians of measures that take turns, each round in the other order than the one before."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for number in range(rounds):
        for name in list(measures)[:: 1 if number % 2 else -1]:
            found[name].append(measures[name]())
    return {name: statistics.median(values) for name, values in found.items()}
