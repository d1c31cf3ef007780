"""How many system calls a response takes, seen by strace from outside: one, whatever its kind and size, over HTTP and gRPC."""

import collections.abc
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess

import grpc
import pytest
from tritonclient.grpc import service_pb2

from tests.reference.process import ServerProcess, naiad_program
from tests.support.http_engine import UVICORN
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed"),
]

_CONFIG = """\
backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "y" data_type: TYPE_FP32 dims: -1 }
parameters { key: "naiad.host" value { string_value: "thread" } }
"""
_MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", values)]) for values in inputs]
"""

_WRITES = ("write(", "writev(", "sendto(", "sendmsg(")
_BEGUN = "<unfinished ...>"
_SENT_BYTES = 65_536
"""Of values, more than is joined with its head; less than a socket on loopback takes at once."""


@pytest.fixture
def server(tmp_path: pathlib.Path) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path / "models" / "echo"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(_CONFIG)
    (folder / "1" / "model.py").write_text(_MODEL)
    with ServerProcess(naiad_program(), [folder.parent], log=tmp_path / "log") as running:
        yield running


@contextlib.contextmanager
def traced(server: ServerProcess, log: pathlib.Path) -> collections.abc.Iterator[None]:
    """What the server writes to its TCP sockets goes into `log`, one line per system call."""
    assert server.process is not None
    command = ["strace", "-f", "-yy", "-s", "64", "-e", "trace=write,writev,sendto,sendmsg", "-o", str(log), "-p", str(server.process.pid)]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        first = tracer.stderr.readline()
        if "attached" not in first:
            pytest.skip(f"strace may not trace here: {first.strip()}")
        try:
            yield
        finally:
            tracer.send_signal(signal.SIGINT)


def writes(log: pathlib.Path) -> list[str]:
    """The calls that wrote to a client."""
    found: list[str] = []
    begun: dict[str, str] = {}
    for line in log.read_text().splitlines():
        thread, call = line.split(None, 1)
        if call.endswith(_BEGUN):  # strace shows a call of another thread first
            begun[thread] = call.removesuffix(_BEGUN)
            continue
        if " resumed>" in call:
            call = begun.pop(thread, "") + call.partition(" resumed>")[2]
        if call.startswith(_WRITES) and "<TCP" in call:
            found.append(call)
    return found


def request(count: int, *, binary: bool) -> bytes:
    """A request whose response has as many numbers."""
    tensor: dict[str, object] = {"name": "x", "datatype": "FP32", "shape": [count]}
    values = b""
    if binary:
        values = bytes(4 * count)
        tensor["parameters"] = {"binary_data_size": len(values)}
    else:
        tensor["data"] = [0] * count
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": binary}}).encode()
    headers = f"Host: x\r\nContent-Length: {len(head) + len(values)}\r\n"
    if binary:
        headers += f"Inference-Header-Content-Length: {len(head)}\r\n"
    return f"POST /v2/models/echo/infer HTTP/1.1\r\n{headers}\r\n".encode() + head + values


def exchanged(client: socket.socket, message: bytes) -> bytes:
    """Send a request; gives its whole response."""
    client.sendall(message)
    got = b""
    while b"\r\n\r\n" not in got:
        got += client.recv(65_536)
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), got
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))  # fmt: skip
    while len(body) < length:
        body += client.recv(65_536)
    return body


@pytest.mark.skipif(UVICORN, reason="uvicorn writes as it likes")
@pytest.mark.parametrize("binary", [False, True], ids=["JSON", "binary"])
@pytest.mark.parametrize("count", [4, 1_000, _SENT_BYTES // 4])
def test_a_response_over_http_is_one_system_call(
    server: ServerProcess, tmp_path: pathlib.Path, count: int, *, binary: bool
) -> None:
    message, times, log = request(count, binary=binary), 5, tmp_path / "trace"
    with socket.create_connection(("127.0.0.1", server.ports.http), timeout=120) as client:
        exchanged(client, message)
        with traced(server, log):
            for _ in range(times):
                exchanged(client, message)
    wait_until(lambda: len(writes(log)) >= times)
    assert len(writes(log)) == times, writes(log)


@pytest.mark.skipif(
    os.environ.get("NAIAD_TEST_GRPC_ENGINE") == "grpcio", reason="grpcio writes as it likes"
)
@pytest.mark.parametrize("count", [4, 1_000, _SENT_BYTES // 4])
def test_a_response_over_grpc_is_one_system_call(
    server: ServerProcess, tmp_path: pathlib.Path, count: int
) -> None:
    message = service_pb2.ModelInferRequest(model_name="echo")
    message.inputs.add(name="x", datatype="FP32", shape=[count])
    message.raw_input_contents.append(bytes(4 * count))
    log, times = tmp_path / "trace", 5
    with grpc.insecure_channel(server.grpc, [("grpc.http2.lookahead_bytes", 1 << 20)]) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for _ in range(3):
            infer(message.SerializeToString(), timeout=120)
        with traced(server, log):
            for _ in range(times):
                infer(message.SerializeToString(), timeout=120)
    wait_until(lambda: sum("application/grpc" in line for line in writes(log)) >= times)
    others = [line for line in writes(log) if "application/grpc" not in line]
    assert len(writes(log)) - len(others) == times
    # answers to pings, and room for the client's next messages
    assert all(int(line.rpartition("= ")[2]) < 64 for line in others), others
