"""Requests per second of one caller: a server in the program, and the same server over HTTP on one connection, one request after the other.

    PYTHONPATH=server:. python -m benchmarks.in_process [SECONDS]

The models are the identity of 16 numbers: a function of the program, a model.py in a thread and in a worker process, and an ONNX graph. The HTTP client is another process
(tritonclient), and, for what a client may save, one that writes ready-made bytes to a socket. Turns alternate, and each figure is the best of five.
"""

import asyncio
import pathlib
import subprocess
import sys
import tempfile
import time
import typing

import numpy as np
import onnx
from onnx import TensorProto, helper

import naiad

ROUNDS = 5
VALUES = np.arange(16, dtype=np.float32)
_CODE = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("y", pb_utils.get_input_tensor_by_name(request, "x").as_numpy())]
            )
            for request in requests
        ]
"""
_CONFIG = """\
backend: "{backend}"
input {{ name: "x" data_type: TYPE_FP32 dims: 16 }}
output {{ name: "y" data_type: TYPE_FP32 dims: 16 }}
instance_group {{ kind: KIND_CPU }}
"""
_HOST = 'parameters {{ key: "naiad.host" value {{ string_value: "{}" }} }}\n'

_CLIENT = """\
import sys, time
import numpy as np
import tritonclient.http as http
client = http.InferenceServerClient(sys.argv[1])
tensor = http.InferInput("x", [16], "FP32")
values = np.arange(16, dtype=np.float32)
def ask():
    tensor.set_data_from_numpy(values)
    client.infer(sys.argv[2], [tensor]).as_numpy("y")
ask()
count, end = 0, time.perf_counter() + float(sys.argv[3])
while time.perf_counter() < end:
    ask()
    count += 1
print(count / float(sys.argv[3]))
"""


def repository(folder: pathlib.Path) -> pathlib.Path:
    """The models."""
    for name, host in (("thread", "thread"), ("process", "process")):
        version = folder / name / "1"
        version.mkdir(parents=True)
        config = _CONFIG.format(backend="python") + _HOST.format(host)
        (version.parent / "config.pbtxt").write_text(config)
        (version / "model.py").write_text(_CODE)
    version = folder / "onnx" / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(_CONFIG.format(backend="onnxruntime"))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "identity",
        [value("x", TensorProto.FLOAT, [16])], [value("y", TensorProto.FLOAT, [16])],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, version / "model.onnx")
    return folder


@naiad.model(
    inputs=[naiad.Tensor((16,), np.float32)], outputs=[naiad.Tensor((16,), np.float32, "y")]
)
def function(x: typing.Any) -> typing.Any:
    """The identity, as a function of the program."""
    return x


def in_process(server: naiad.Server, model: str, seconds: float) -> float:
    """Requests per second."""
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        server.infer(model, {"x": VALUES})
        count += 1
    return count / seconds


def over_tritonclient(address: str, model: str, seconds: float) -> float:
    """Requests per second of Triton's client in another process."""
    ended = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", _CLIENT, address, model, str(seconds)], check=True, capture_output=True, text=True
    )  # fmt: skip
    return float(ended.stdout)


_RAW = """\
import socket, sys, time
host, _, port = sys.argv[1].rpartition(":")
body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[16],"data":[' + b",".join(b"%d" % n for n in range(16)) + b"]}]}"
request = (b"POST /v2/models/%s/infer HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: %d\\r\\n\\r\\n" % (sys.argv[2].encode(), len(body))) + body
with socket.create_connection((host, int(port))) as connection:
    count, end = 0, time.perf_counter() + float(sys.argv[3])
    while time.perf_counter() < end:
        connection.sendall(request)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        count += 1
print(count / float(sys.argv[3]))
"""


def over_socket(address: str, model: str, seconds: float) -> float:
    """Requests per second of ready-made bytes, whose replies are not read as JSON."""
    ended = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", _RAW, address, model, str(seconds)], check=True, capture_output=True, text=True
    )  # fmt: skip
    return float(ended.stdout)


def in_tasks(folder: pathlib.Path, model: str, seconds: float) -> float:
    """Requests per second of a task of `AsyncServer`."""

    async def run() -> float:
        async with naiad.AsyncServer(folder, functions=[function]) as server:
            count, end = 0, time.perf_counter() + seconds
            while time.perf_counter() < end:
                await server.infer(model, {"x": VALUES})
                count += 1
            return count / seconds

    return asyncio.run(run())


def main() -> None:
    """Print a table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    with tempfile.TemporaryDirectory() as name:
        folder = repository(pathlib.Path(name))
        with naiad.Server(folder, functions=[function]) as server:
            address = server.serve_http(0)
            print(
                "| model | naiad.Server | tritonclient, HTTP | ready-made bytes, HTTP | AsyncServer |"
            )
            print("|---|---|---|---|---|")
            for model in ("function", "thread", "onnx", "process"):
                best = [0.0, 0.0, 0.0]
                for _ in range(ROUNDS):
                    best = [
                        max(best[0], in_process(server, model, seconds)),
                        max(best[1], over_tritonclient(address, model, seconds)),
                        max(best[2], over_socket(address, model, seconds)),
                    ]
                own, client, raw = best
                tasks = in_tasks(folder, model, seconds)
                print(
                    f"| {model} | {own:,.0f} | {client:,.0f} ({own / client:.1f} times) | {raw:,.0f} ({own / raw:.1f} times) | {tasks:,.0f} |"
                )


if __name__ == "__main__":
    main()
