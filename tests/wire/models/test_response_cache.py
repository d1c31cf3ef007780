"""The response cache of a real server: every protocol finds the same entries, a model that is loaded again none, and servers share a Redis."""

import json
import pathlib
import urllib.request
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton

from tests.reference.process import ServerProcess, naiad_program
from tests.server.response_cache.redis.test_store import Redis

CODE = """
import os, numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    executions = 0

    def execute(self, requests):
        self.executions += 1
        number = np.array([[self.executions, os.getppid()]], np.int32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("N", number)]) for _ in requests]
"""
CONFIG = """
backend: "python"
max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "N" data_type: TYPE_INT32 dims: [ 2 ] }
response_cache { enable: true }
"""


def write(folder: pathlib.Path) -> pathlib.Path:
    version = folder / "counts" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(CODE)
    (version.parent / "config.pbtxt").write_text(CONFIG)
    return folder


def start(folder: pathlib.Path, *options: str, name: str = "log") -> ServerProcess:
    return ServerProcess(
        naiad_program(), [folder / "models"], log=folder / name, options=list(options)
    )


def http(server: ServerProcess, *values: float, binary: bool = True) -> list[int]:
    with triton.InferenceServerClient(server.http) as client:
        given = triton.InferInput("X", [1, len(values)], "FP32")
        given.set_data_from_numpy(np.array([values], np.float32), binary_data=binary)
        found: Any = client.infer("counts", [given]).as_numpy("N")
    return list(map(int, found[0]))


def grpc(server: ServerProcess, *values: float) -> list[int]:
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        given = triton_grpc.InferInput("X", [1, len(values)], "FP32")
        given.set_data_from_numpy(np.array([values], np.float32))
        found: Any = client.infer("counts", [given]).as_numpy("N")
    return list(map(int, found[0]))


def post(server: ServerProcess, path: str) -> Any:
    request = urllib.request.Request(f"http://{server.http}{path}", data=b"{}", method="POST")
    with urllib.request.urlopen(request) as reply:
        body = reply.read()
    return json.loads(body) if body else None


def test_all_protocols_share_entries_and_a_model_that_is_loaded_again_begins_without(
    tmp_path: pathlib.Path,
) -> None:
    write(tmp_path / "models")
    options = ("--cache-config=local,size=1000000", "--model-control-mode=explicit", "--load-model=*")  # fmt: skip
    with start(tmp_path, *options) as server:
        first = http(server, 1, 2)
        assert http(server, 1, 2, binary=False) == grpc(server, 1, 2) == first
        assert grpc(server, 1, 3)[0] == 2
        large = [1.0] * 50_000
        assert http(server, *large) == grpc(server, *large) == http(server, *large)
        (tmp_path / "models/counts/1/model.py").write_text(CODE + "# changed\n")
        post(server, "/v2/repository/models/counts/load")
        assert http(server, 1, 2) != first or http(server, 5, 5)[0] == 2
        with urllib.request.urlopen(f"http://{server.http}/v2/models/counts/stats") as reply:
            stats = json.load(reply)["model_stats"][0]["inference_stats"]
        assert stats["cache_miss"]["count"] >= 1


def test_the_same_request_again_counts_as_a_hit_each_time(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "models")
    with start(tmp_path, "--cache-config=local,size=1000000") as server:
        first = http(server, 1, 2)
        for _ in range(4):
            assert [http(server, 1, 2, binary=binary) for binary in (True, False)] == [first] * 2
        with urllib.request.urlopen(f"http://{server.http}/v2/models/counts/stats") as reply:
            stats = json.load(reply)["model_stats"][0]["inference_stats"]
        assert (stats["success"]["count"], stats["cache_hit"]["count"]) == (9, 8)
        assert stats["cache_miss"]["count"] == 1


def test_servers_share_a_redis_and_go_on_without_it(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "models")
    redis = Redis(tmp_path)
    try:
        option = f"--cache-config=redis,host=127.0.0.1,port={redis.port},socket_timeout=1000"
        with (
            start(tmp_path, option, name="one") as one,
            start(tmp_path, option, name="other") as other,
        ):
            first = http(one, 1, 2)
            assert http(other, 1, 2) == grpc(other, 1, 2) == http(one, 1, 2) == first
            redis.stop()
            assert http(other, 1, 2)[1] != first[1]
            assert http(one, 1, 2) != first
            log = (tmp_path / "one").read_text()
            assert log.count("does not respond") == 1
    finally:
        redis.stop()
