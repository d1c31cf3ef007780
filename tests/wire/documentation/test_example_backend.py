"""The example backend of `examples/backends`: a package of its own, installed beside the server, serves in both hosts."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from tests.reference.process import Program, ServerProcess, naiad_program
from tests.wire.plain_http import call, get

pytestmark = pytest.mark.slow

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "backends"
HOSTS = ("thread", "process")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Naiad, and the package where its interpreter finds it."""
    site = tmp_path_factory.mktemp("site")
    source = shutil.copytree(EXAMPLES / "polynomial", tmp_path_factory.mktemp("source") / "package")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", f"--target={site}"]
    subprocess.run([*command, *offline, str(source)], check=True, timeout=100)
    naiad = naiad_program()
    path = os.pathsep.join((naiad.environ["PYTHONPATH"], str(site)))
    return dataclasses.replace(naiad, environ={**naiad.environ, "PYTHONPATH": path})


@pytest.fixture(scope="module")
def server(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("example_backend")
    shutil.copytree(EXAMPLES / "model_repository" / "parabola", folder / "parabola")
    for host in HOSTS:
        text = f'parameters {{ key: "naiad.host" value {{ string_value: "{host}" }} }}'
        add(folder, host, "1 0 -2", text)
    add(folder, "words", "one two", "")
    add(folder, "empty", "", "")
    add(folder, "on_gpu", "1", "instance_group { kind: KIND_GPU }")
    with ServerProcess(
        program, [folder], log=folder.parent / "log", options=["--exit-on-error=false"]
    ) as running:
        yield running


def add(folder: pathlib.Path, name: str, coefficients: str, config: str) -> None:
    version = folder / name / "1"
    version.mkdir(parents=True)
    (version / "model.polynomial").write_text(coefficients)
    (version.parent / "config.pbtxt").write_text(config)


@pytest.mark.parametrize("name", ["parabola", *HOSTS])
def test_it_serves_over_both_protocols(server: ServerProcess, name: str) -> None:
    x = np.array([[0.0, 1.0], [2.0, -3.0]], np.float32)
    body = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [2, 2], "data": x.tolist()}]}
    status, reply = call(server.http, "POST", f"/v2/models/{name}/infer", body)
    assert status == 200, reply
    assert json.loads(reply)["outputs"][0]["data"] == [-2.0, -1.0, 2.0, 7.0]
    with grpcclient.InferenceServerClient(server.grpc) as client:
        given = grpcclient.InferInput("X", list(x.shape), "FP32").set_data_from_numpy(x)
        y = client.infer(name, [given]).as_numpy("Y")
    assert y is not None
    assert y.tolist() == [[-2.0, -1.0], [2.0, 7.0]]


@pytest.mark.parametrize("name", HOSTS)
def test_requests_of_a_batch_get_their_own_rows(server: ServerProcess, name: str) -> None:
    sizes = [1, 3, 2] * 20

    with grpcclient.InferenceServerClient(server.grpc) as client:

        def squares(rows: int) -> Any:
            given = grpcclient.InferInput("X", [rows, 2], "FP32")
            given.set_data_from_numpy(np.full((rows, 2), rows, np.float32))
            return client.infer(name, [given]).as_numpy("Y")

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(squares, sizes))
    assert [answer.tolist() for answer in answers] == [
        [[rows**2 - 2.0] * 2] * rows for rows in sizes
    ]


def test_its_model_needs_no_config(server: ServerProcess) -> None:
    _, reply = get(server.http, "/v2/models/parabola/config")
    config = json.loads(reply)
    assert (config["backend"], config["default_model_filename"]) == (
        "polynomial",
        "model.polynomial",
    )
    assert (config["max_batch_size"], config["input"][0]["name"]) == (64, "X")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("words", "could not convert string to float: 'one'"),
        ("empty", "has 0 coefficients, expected 1 to 101"),
        ("on_gpu", "has kind KIND_GPU, which backend 'polynomial' does not support"),
    ],
)
def test_a_model_that_cannot_be_loaded_says_why(
    server: ServerProcess, name: str, reason: str
) -> None:
    _, reply = call(server.http, "POST", "/v2/repository/index")
    assert reason in next(load["reason"] for load in json.loads(reply) if load["name"] == name)


def test_its_options_are_checked_at_start(program: Program, tmp_path: pathlib.Path) -> None:
    options = [f"--model-repository={tmp_path}", "--backend-config=polynomial,highest-degree=many"]
    status, output = program.run(options)
    assert status == 1
    assert "highest-degree is 'many', expected an integer" in output


def test_naiad_check_knows_it(program: Program, tmp_path: pathlib.Path) -> None:
    add(tmp_path, "good", "1 2", "")
    add(tmp_path, "bad", "1", "max_batch_size: -1")
    check = Program(name="check", command=(*program.command[:-1], "check"), environ=program.environ)
    status, output = check.run([str(tmp_path)])
    assert status == 1
    assert "ok  good: polynomial, version 1" in output
