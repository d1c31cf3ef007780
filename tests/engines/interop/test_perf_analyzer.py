"""NVIDIA's perf_analyzer against a server with the native engines: unary and streams, gRPC and HTTP, with and without shared memory."""

import collections.abc
import csv
import pathlib
import subprocess

import pytest

from tests.engines.interop import example_models
from tests.reference.process import ServerProcess, naiad_program
from tests.toolchain import perf_analyzer

pytestmark = [pytest.mark.xdist_group("perf_analyzer"), pytest.mark.timeout(600)]

RUNS: "dict[str, tuple[str, ...]]" = {
    "gRPC": ("-i", "grpc", "-m", "simple", "--concurrency-range", "4"),
    "gRPC async": ("-i", "grpc", "--async", "-m", "simple", "--concurrency-range", "4"),
    "gRPC stream": ("-i", "grpc", "--streaming", "-m", "simple", "--concurrency-range", "4"),
    "gRPC stream of a sequence": ("-i", "grpc", "--streaming", "-m", "simple_sequence", "--concurrency-range", "2"),
    "gRPC stream of a decoupled model": ("-i", "grpc", "--streaming", "-m", "repeat_int32", "--shape", "IN:4", "--shape", "DELAY:4", "--input-data", "zero"),
    "gRPC in shared memory": ("-i", "grpc", "-m", "simple", "--shared-memory", "system", "--concurrency-range", "4"),
    "gRPC stream in shared memory": ("-i", "grpc", "--streaming", "-m", "simple", "--shared-memory", "system"),
    "gRPC compressed": ("-i", "grpc", "-m", "simple", "--grpc-compression-algorithm", "gzip"),
    "gRPC at a rate": ("-i", "grpc", "--async", "-m", "simple", "--request-rate-range", "100"),
    "HTTP": ("-i", "http", "-m", "simple", "--concurrency-range", "4"),
    "HTTP JSON": ("-i", "http", "-m", "simple", "--input-tensor-format", "json", "--output-tensor-format", "json"),
    "HTTP in shared memory": ("-i", "http", "-m", "simple", "--shared-memory", "system", "--concurrency-range", "4"),
    "HTTP strings": ("-i", "http", "-m", "simple_identity", "--shape", "INPUT0:4", "--string-length", "32"),
}  # fmt: skip

QUICK = ("--request-count", "100")
"""One window, so that a busy machine makes no difference."""


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("perf")
    models = ("simple", "simple_identity", "simple_sequence", "repeat_int32")
    example_models.put(folder / "models", *models)
    options = ("--grpc-engine=native", "--allow-client-shm=true")
    log = folder / "server.log"
    with ServerProcess(naiad_program(), [folder / "models"], log=log, options=options) as server:
        yield server


@pytest.mark.parametrize("name", RUNS)
def test_it_measures_without_an_error(
    server: ServerProcess, name: str, tmp_path: pathlib.Path
) -> None:
    options = RUNS[name]
    address = server.http if "http" in options else server.grpc
    report = tmp_path / "report.csv"
    command = [*perf_analyzer.command(), "-u", address, *options, *QUICK, "-f", str(report)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    said = finished.stdout + finished.stderr
    assert finished.returncode == 0, said
    assert "Failed" not in said, said
    with report.open() as rows:
        (row,) = csv.DictReader(rows)
    rate = next(float(value) for key, value in row.items() if key.startswith("Inferences/Second"))
    assert rate > 0, said
