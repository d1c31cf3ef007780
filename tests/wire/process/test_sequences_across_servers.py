"""Two servers behind a load balancer: a sequence stays where its stream is, also while that server stops, and new ones go to the other."""

import collections.abc
import http.client
import itertools
import pathlib
import queue
from typing import Any, Self

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until

CODE = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            given, state = (
                pb_utils.get_input_tensor_by_name(request, name).as_numpy()
                for name in ("INPUT", "STATE_IN")
            )
            total = given + state
            tensors = [pb_utils.Tensor(name, total) for name in ("SUM", "STATE_OUT")]
            responses.append(pb_utils.InferenceResponse(tensors))
        return responses
"""
CONFIG = """\
backend: "python"
max_batch_size: 4
input { name: "INPUT" data_type: TYPE_INT32 dims: 1 }
output { name: "SUM" data_type: TYPE_INT32 dims: 1 }
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  state { input_name: "STATE_IN" output_name: "STATE_OUT" data_type: TYPE_INT32 dims: 1 }
}
"""


class LoadBalancer:
    """Chooses a server for each stream, as one in front of pods does: in turn, of those that are ready."""

    def __init__(self, servers: collections.abc.Sequence[ServerProcess]) -> None:
        self._servers = servers
        self._turns = itertools.count()

    def ready(self) -> list[ServerProcess]:
        return [server for server in self._servers if is_ready(server)]

    def stream(self) -> "Stream":
        ready = self.ready()
        return Stream(ready[next(self._turns) % len(ready)])


def is_ready(server: ServerProcess) -> bool:
    connection = http.client.HTTPConnection(server.http, timeout=60)
    try:
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


class Stream:
    """A gRPC stream to one server."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self._results: queue.Queue[Any] = queue.Queue()
        self._client = grpcclient.InferenceServerClient(server.grpc)
        self._client.start_stream(lambda result, error: self._results.put(error or result))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop_stream(cancel_requests=True)
        self._client.close()

    def add(self, key: int, number: int, flags: str = "") -> int:
        """The sum of the sequence so far.

        Raises:
            InferenceServerException: the server refuses it.
        """
        given = grpcclient.InferInput("INPUT", [1, 1], "INT32")
        given.set_data_from_numpy(np.array([[number]], np.int32))
        self._client.async_stream_infer(
            "sum",
            [given],
            sequence_id=key,
            sequence_start="s" in flags,
            sequence_end="e" in flags,
        )
        result = self._results.get(timeout=120)
        if isinstance(result, Exception):
            raise result
        return int(result.as_numpy("SUM").item())


@pytest.fixture
def servers(tmp_path: pathlib.Path) -> collections.abc.Iterator[list[ServerProcess]]:
    """Two on the same models, as two pods have them."""
    folder = tmp_path / "models" / "sum" / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(CODE)
    (folder.parent / "config.pbtxt").write_text(CONFIG)
    made = [
        ServerProcess(naiad_program(), [tmp_path / "models"], log=tmp_path / f"{number}.log")
        for number in range(2)
    ]
    try:
        for server in made:
            server.start()
        yield [server.wait() for server in made]
    finally:
        for server in made:
            server.stop()


def test_a_sequence_ends_where_it_began_while_its_server_stops(
    servers: list[ServerProcess],
) -> None:
    balancer = LoadBalancer(servers)
    with balancer.stream() as pinned, balancer.stream() as other, Stream(servers[0]) as late:
        assert (pinned.server, other.server) == (servers[0], servers[1])
        assert pinned.add(1, 10, "s") == 10
        assert other.add(1, 500, "s") == 500  # of the same id, and another sequence
        with pytest.raises(InferenceServerException, match="must specify the START flag"):
            other.add(2, 1)
        servers[0].ask_to_stop()
        wait_until(lambda: balancer.ready() == [servers[1]], what="it is still ready")
        with balancer.stream() as new:
            assert new.server is servers[1]
            assert new.add(3, 7, "s") == 7
        assert pinned.add(1, 20) == 30
        with pytest.raises(
            InferenceServerException, match="only finishes sequences that have begun"
        ):
            late.add(4, 1, "s")
        assert servers[0].process is not None
        assert servers[0].process.poll() is None
        assert pinned.add(1, 30, "e") == 60
        assert servers[0].process.wait(timeout=60) == 0
        with pytest.raises(InferenceServerException, match="must specify the START flag"):
            other.add(4, 1)  # its state was on the server that is gone
        assert other.add(1, 5, "e") == 505
