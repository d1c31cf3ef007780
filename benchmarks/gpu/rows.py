"""What a step measured: one line of JSON per row, written at once, so that a step that is cut off keeps what it had; and clients for one connection."""

import collections.abc
import json
import re
import socket
import statistics
import time
from typing import Any

import numpy as np

from tests.gpu.bench import Bench
from tests.reference.process import ServerProcess
from tests.wire.plain_http import get

FILE = "rows.jsonl"
PARTS = ("success", "queue", "compute_input", "compute_infer", "compute_output")
"""What the statistics say of a request."""

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)")

Array = np.ndarray[Any, Any]


def row(bench: Bench, measure: str, **values: Any) -> None:
    """Write one, in this step's folder; `aim` says in words what was wanted."""
    with (bench.folder / FILE).open("a") as file:
        file.write(json.dumps({"measure": measure, **values}) + "\n")


class Client:
    """One connection over which one request is sent again and again. Written for little processor time of its own: the request is made once, and a reply is read no further than its length."""

    def __init__(self, server: ServerProcess, model: str) -> None:
        self._server = server
        self._model = model
        host, _, port = server.http.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._request = b""
        self._memory = bytearray(1 << 16)

    def binary(self, name: str, datatype: str, values: Array) -> "Client":
        """Send these values, and have the outputs as bytes."""
        tensor = {
            "name": name,
            "datatype": datatype,
            "shape": list(values.shape),
            "parameters": {"binary_data_size": values.nbytes},
        }
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}})
        self._sends(head.encode() + values.tobytes(), f"Inference-Header-Content-Length: {len(head)}\r\n")  # fmt: skip
        return self

    def json(self, body: Any) -> "Client":
        """Send this as JSON."""
        self._sends(json.dumps(body).encode(), "")
        return self

    def _sends(self, body: bytes, headers: str) -> None:
        first = f"POST /v2/models/{self._model}/infer HTTP/1.1\r\nHost: {self._server.http}\r\n"
        self._request = f"{first}{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def ask(self) -> memoryview:
        """The reply's body, until the next one.

        Raises:
            RuntimeError: it is an error.
        """
        self._socket.sendall(self._request)
        count, end = 0, -1
        while end < 0:
            count += self._received(count)
            end = self._memory.find(b"\r\n\r\n", 0, count)
        head = bytes(self._memory[:end])
        found = _LENGTH.search(head)
        assert found is not None, head
        begin, whole = end + 4, end + 4 + int(found[1])
        if whole > len(self._memory):
            self._memory.extend(bytes(whole - len(self._memory)))
        while count < whole:
            count += self._received(count)
        body = memoryview(self._memory)[begin:whole]
        if not head.startswith(b"HTTP/1.1 200 "):
            said = bytes(head.split(b"\r\n")[0] + b" " + body[:400])
            del body
            raise RuntimeError(f"{self._model}: {said.decode(errors='replace')}")
        return body

    def _received(self, at: int) -> int:
        with memoryview(self._memory) as whole, whole[at:] as free:
            count = self._socket.recv_into(free)
        if not count:
            raise RuntimeError(f"{self._model}: the server has closed the connection")
        return count

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
        found = self.parts(count)
        return found["http"], found["compute_infer"]

    def parts(self, count: int) -> dict[str, float]:
        """Ask so often: the median ms of a request as `http`, and the mean ms of each part of it that the statistics have; `success` is all of it in the server."""
        before = self._statistics()
        times = self.times(count)
        after = self._statistics()
        found = {"http": statistics.median(times)}
        for part in PARTS:
            (earlier, first), (later, last) = before[part], after[part]
            found[part] = (later - earlier) / max(1, last - first) / 1e6
        return found

    def _statistics(self) -> dict[str, tuple[int, int]]:
        _, body = get(self._server.http, f"/v2/models/{self._model}/stats")
        of = json.loads(body)["model_stats"][0]["inference_stats"]
        return {part: (int(of[part]["ns"]), int(of[part]["count"])) for part in PARTS}


def in_turns(
    rounds: int, measures: collections.abc.Mapping[str, collections.abc.Callable[[], float]]
) -> dict[str, float]:
    """The medians of measures that take turns, each round in the other order than the one before."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for number in range(rounds):
        for name in list(measures)[:: 1 if number % 2 else -1]:
            found[name].append(measures[name]())
    return {name: statistics.median(values) for name, values in found.items()}
