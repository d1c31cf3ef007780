"""grpcurl and ghz, as users have them, against a server with the native engine and reflection."""

import base64
import collections.abc
import json
import pathlib
import subprocess
import typing

import pytest

from tests.engines.interop import example_models
from tests.reference.process import ServerProcess, naiad_program
from tests.toolchain import programs

pytestmark = [pytest.mark.xdist_group("tools"), pytest.mark.timeout(600)]

SERVICE = "inference.GRPCInferenceService"
ROW = list(range(16))


def contents(name: str) -> dict[str, typing.Any]:
    """An input tensor as JSON of protobuf."""
    return {
        "name": name,
        "datatype": "INT32",
        "shape": [1, 16],
        "contents": {"int_contents": ROW},
    }


REQUEST = json.dumps({"model_name": "simple", "inputs": [contents("INPUT0"), contents("INPUT1")]})


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("tools")
    example_models.put(folder / "models", "simple", "repeat_int32")
    options = ("--grpc-engine=native", "--grpc-reflection=true")
    log = folder / "server.log"
    with ServerProcess(naiad_program(), [folder / "models"], log=log, options=options) as server:
        yield server


def run(name: str, *arguments: str, status: int = 0) -> str:
    command = [programs.find([name])[name], *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert finished.returncode == status, finished.stdout + finished.stderr
    return finished.stdout + finished.stderr


def test_grpcurl_lists_and_describes(server: ServerProcess) -> None:
    listed = run("grpcurl", "-plaintext", server.grpc, "list").split()
    assert SERVICE in listed
    assert "grpc.health.v1.Health" in listed
    described = run("grpcurl", "-plaintext", server.grpc, "describe", f"{SERVICE}.ModelStreamInfer")
    assert "stream .inference.ModelInferRequest" in described


def test_grpcurl_calls(server: ServerProcess) -> None:
    health = run("grpcurl", "-plaintext", server.grpc, "grpc.health.v1.Health/Check")
    assert json.loads(health) == {"status": "SERVING"}
    answer = json.loads(run("grpcurl", "-plaintext", "-d", REQUEST, server.grpc, f"{SERVICE}/ModelInfer"))  # fmt: skip
    sums = base64.b64decode(answer["raw_output_contents"][0])
    assert list(memoryview(sums).cast("i")) == [2 * value for value in ROW]


def test_grpcurl_shows_an_error(server: ServerProcess) -> None:
    refused = run("grpcurl", "-plaintext", "-d", '{"name": "none"}', server.grpc, f"{SERVICE}/ModelMetadata", status=64 + 5)  # fmt: skip
    assert "NotFound" in refused


def test_grpcurl_streams(server: ServerProcess) -> None:
    streamed = run("grpcurl", "-plaintext", "-d", REQUEST * 3, server.grpc, f"{SERVICE}/ModelStreamInfer")  # fmt: skip
    assert streamed.count('"infer_response"') == 3


@pytest.mark.parametrize("connections", [1, 8])
def test_ghz_calls_a_thousand_times(
    server: ServerProcess, tmp_path: pathlib.Path, connections: int
) -> None:
    report = tmp_path / "report.json"
    run("ghz", "--insecure", "--call", f"{SERVICE}.ModelInfer", "-d", REQUEST, "-n", "2000", "-c", "16",
        "--connections", str(connections), "--format", "json", "--output", str(report), server.grpc)  # fmt: skip
    result = json.loads(report.read_text())
    assert result["statusCodeDistribution"] == {"OK": 2000}


def test_ghz_streams(server: ServerProcess, tmp_path: pathlib.Path) -> None:
    report = tmp_path / "report.json"
    run("ghz", "--insecure", "--call", f"{SERVICE}.ModelStreamInfer", "-d", f"[{REQUEST},{REQUEST}]", "-n", "200", "-c", "8",
        "--format", "json", "--output", str(report), server.grpc)  # fmt: skip
    assert json.loads(report.read_text())["statusCodeDistribution"] == {"OK": 200}
