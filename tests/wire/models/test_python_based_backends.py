"""Backends that are a model.py in `--backend-directory`: one file serves every model that names the backend (row 11.52)."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.wire.plain_http import call, get

BACKEND = """\
import json
import pathlib

import numpy as np
import triton_python_backend_utils as pb_utils

import joining


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "X", "data_type": "TYPE_STRING", "dims": [1]})
        config.add_output({"name": "Y", "data_type": "TYPE_STRING", "dims": [-1]})
        return config

    def initialize(self, args):
        settings = json.loads((pathlib.Path(pb_utils.get_model_dir()) / "model.json").read_text())
        self.prefix = settings["prefix"]
        self.names = [args["model_name"], args["model_version"], pathlib.Path(args["model_repository"]).name]

    def execute(self, requests):
        responses = []
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()[0].decode()
            if text == "fail":
                raise ValueError("as it was asked to")
            said = np.array([joining.join(self.prefix, text), *self.names], dtype=object)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", said)]))
        return responses
"""

HOSTS = ("process", "thread")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("python_based")
    backend = folder / "backends" / "greeting"
    backend.mkdir(parents=True)
    (backend / "model.py").write_text(BACKEND)
    (backend / "joining.py").write_text("def join(*words): return ' '.join(words)\n")
    (folder / "backends" / "bare").mkdir()
    (folder / "model.py").write_text(BACKEND)
    for host in HOSTS:
        for prefix in ("hello", "good day"):
            name = f"{prefix.replace(' ', '_')}_{host}"
            parameter = f'parameters {{ key: "naiad.host" value {{ string_value: "{host}" }} }}'
            model(folder, name, f'backend: "greeting" {parameter}', prefix)
    for name, backend_name in (
        ("outside", ".."),
        ("deep", "greeting/../greeting"),
        ("gone", "bare"),
    ):
        model(folder, name, f'backend: "{backend_name}"', "")
    with ServerProcess(
        naiad_program(),
        [folder / "models"],
        log=folder / "log",
        options=[f"--backend-directory={folder / 'backends'}", "--exit-on-error=false"],
    ) as running:
        yield running


def model(folder: pathlib.Path, name: str, config: str, prefix: str) -> None:
    version = folder / "models" / name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(config)
    (version / "model.json").write_text(json.dumps({"prefix": prefix}))


def infer(server: ServerProcess, name: str, text: str) -> tuple[int, str]:
    body = {"inputs": [{"name": "X", "datatype": "BYTES", "shape": [1], "data": [text]}]}
    status, reply = call(server.http, "POST", f"/v2/models/{name}/infer", body)
    return status, reply.decode()


@pytest.mark.parametrize("host", HOSTS)
def test_one_file_serves_every_model_that_names_the_backend(
    server: ServerProcess, host: str
) -> None:
    for prefix in ("hello", "good day"):
        name = f"{prefix.replace(' ', '_')}_{host}"
        status, reply = infer(server, name, "you")
        assert status == 200, reply
        assert json.loads(reply)["outputs"][0]["data"] == [f"{prefix} you", name, "1", name]


def test_the_backend_completes_the_config_and_stands_in_it(server: ServerProcess) -> None:
    status, reply = get(server.http, "/v2/models/hello_process/config")
    config = json.loads(reply)
    assert status == 200
    assert (config["backend"], config["default_model_filename"]) == ("greeting", "")
    assert [each["name"] for each in config["input"]] == ["X"]
    assert config["instance_group"][0]["count"] == 1


@pytest.mark.parametrize("host", HOSTS)
def test_an_exception_shows_the_lines_of_the_backends_file(
    server: ServerProcess, host: str
) -> None:
    status, reply = infer(server, f"hello_{host}", "fail")
    assert status == 500
    assert "ValueError: as it was asked to" in reply
    assert "backends/greeting/model.py(" in reply


@pytest.mark.parametrize("name", ["outside", "deep", "gone"])
def test_a_name_leads_to_no_other_folder_and_a_folder_without_the_file_is_not_a_backend(
    server: ServerProcess, name: str
) -> None:
    _, reply = call(server.http, "POST", "/v2/repository/index")
    reason = next(load["reason"] for load in json.loads(reply) if load["name"] == name)
    assert "unable to find backend library for backend" in reason


def test_the_log_names_the_backends(server: ServerProcess) -> None:
    (line,) = (line for line in server.output().splitlines() if "; backends: " in line)
    names = line.rpartition("; backends: ")[2].rstrip('"').split(", ")
    assert {"greeting", "onnxruntime", "python"} <= set(names)
    assert names == sorted(names)
