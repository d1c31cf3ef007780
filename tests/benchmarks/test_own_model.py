"""`make bench MODEL=DIR`: the request that it repeats is one that a server answers, on every wire; and its help needs no package."""

import http.client
import json
import pathlib
import subprocess
import sys
import urllib.parse

import grpc
import pytest

from benchmarks.load import HttpRequest
from benchmarks.requests import GRPC_INFER
from benchmarks.server.own_model import OwnRequest, example
from naiad.core.messages import service_pb2
from tests.reference.process import ServerProcess, naiad_program

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_MODELS = _ROOT / "examples" / "model_repository"


def _post(request: HttpRequest) -> tuple[int, bytes]:
    where = urllib.parse.urlsplit(request.url)
    connection = http.client.HTTPConnection(where.netloc, timeout=30)
    try:
        connection.request("POST", where.path, request.body, dict(request.headers))
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def test_a_made_up_request_is_answered_on_every_wire(tmp_path: pathlib.Path) -> None:
    request = OwnRequest(model="word_count", inputs=[example("TEXT", "BYTES", [-1, 1])])
    options = ("--model-control-mode=explicit", "--load-model=word_count")
    with ServerProcess(naiad_program(), [_MODELS], log=tmp_path / "log", options=options) as server:
        status, body = _post(request.json(server.http))
        assert status == 200, body
        assert json.loads(body)["outputs"][0]["data"] == [1]
        status, body = _post(request.binary(server.http))
        assert (status, body[-4:]) == (200, b"\1\0\0\0")
        with grpc.insecure_channel(server.grpc) as channel:
            reply = channel.unary_unary(GRPC_INFER)(request.message(), timeout=30)
    assert service_pb2.ModelInferResponse.FromString(reply).raw_output_contents == [b"\1\0\0\0"]


@pytest.mark.parametrize(
    ("datatype", "shape", "expected"),
    [
        ("FP32", [-1, 3], {"shape": [1, 3], "data": [1, 1, 1]}),
        ("BOOL", [2], {"shape": [2], "data": [True, True]}),
        ("BYTES", [-1], {"shape": [1], "data": ["word"]}),
        ("INT64", [], {"shape": [], "data": [1]}),
    ],
)
def test_free_dimensions_have_one_element(
    datatype: str, shape: list[int], expected: dict[str, object]
) -> None:
    assert example("x", datatype, shape) == {"name": "x", "datatype": datatype, **expected}


_WITHOUT_DEVELOPMENT_PACKAGES = """\
import runpy, sys
sys.modules.update(dict.fromkeys(["onnx", "matplotlib", "tritonclient.http", "pytest"]))
sys.argv = ["benchmarks.server.run", "--help"]
runpy.run_module("benchmarks.server.run", run_name="__main__")
"""


def test_the_help_needs_only_what_make_run_installs() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", _WITHOUT_DEVELOPMENT_PACKAGES],
        cwd=_ROOT,
        env={"PYTHONPATH": "server"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "--request FILE" in finished.stdout
