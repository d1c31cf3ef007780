"""Loads with a config and files in the request (rows 7.15 to 7.18, 7.26, 15.24): Triton's clients, and models in both hosts."""

import collections.abc
import json
import pathlib
from typing import Any

import numpy as np
import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire import repository
from tests.wire.protocol.test_clients import CLIENTS, client, tensor

_TEXT = """\
backend: "python"
input { name: "TEXT" data_type: TYPE_STRING dims: 1 }
output { name: "OUT" data_type: TYPE_STRING dims: 1 }
parameters { key: "naiad.host" value { string_value: "HOST" } }
"""

_LOADS = """\
import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        asked = json.loads(request.inputs()[0].as_numpy()[0])
        name, files = asked["name"], {path: text.encode() for path, text in asked["files"].items()}
        try:
            pb_utils.load_model(name, config=asked["config"], files=files)
            said = "loaded"
        except pb_utils.TritonModelException as error:
            said = str(error)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([said.encode()], object))])
"""

CONFIG = json.dumps(
    {
        "backend": "python",
        "input": [{"name": "TEXT", "data_type": "TYPE_STRING", "dims": [1]}],
        "output": [{"name": "OUT", "data_type": "TYPE_STRING", "dims": [1]}],
    }
)

SENT = """\
import pathlib

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        size = sum(path.stat().st_size for path in pathlib.Path(__file__).parent.glob("*.bin"))
        text = np.array([f"{__file__} {size}".encode()], object)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", text)]) for _ in requests]
"""
"""A model that answers with its own path and the size of the file beside it."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("overrides")
    models = repository.make(folder / "models")
    for host in ("thread", "process"):
        version = models / host / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(_TEXT.replace("HOST", host))
        (version / "model.py").write_text(_LOADS)
    options = ["--model-control-mode=explicit", "--load-model=thread", "--load-model=process"]
    with ServerProcess(naiad_program(), [models], log=folder / "log", options=options) as running:
        yield running


def ask(asked: Any, module: Any, model: str, text: str = "") -> str:
    values = tensor(module, "TEXT", np.array([text.encode()], object), "BYTES")
    answered: bytes = asked.infer(model, [values]).as_numpy("OUT")[0]
    return answered.decode()


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_config_in_the_request_replaces_the_one_of_the_folder(
    kind: str, server: ServerProcess
) -> None:
    def shown() -> dict[str, Any]:
        config: dict[str, Any]
        if kind == "http":
            config = asked.get_model_config("add")
        else:
            config = asked.get_model_config("add", as_json=True)["config"]
        return config

    with client(kind, server) as (asked, module):
        asked.load_model("add")
        config = shown()
        assert config["max_batch_size"] == 8
        del config["dynamic_batching"]
        asked.load_model("add", config=json.dumps({**config, "max_batch_size": 2}))
        assert shown()["max_batch_size"] == 2
        for wrong in ("nope", '{"colour": "red"}'):
            with pytest.raises(module.InferenceServerException, match="Invalid config override"):
                asked.load_model("add", config=wrong)
        x = np.ones((2, 4), np.float32)
        answer = asked.infer("add", [tensor(module, "x", x, "FP32")]).as_numpy("y")
        np.testing.assert_array_equal(answer, x + x)
        assert asked.is_server_ready()
        asked.unload_model("add")
        asked.load_model("add")
        assert shown()["max_batch_size"] == 8
        asked.unload_model("add")


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_model_of_the_request_serves_from_a_folder_that_goes_with_it(
    kind: str, server: ServerProcess
) -> None:
    weights = bytes(3_000_000)  # so large that a codec process decodes the request
    files = {"file:1/model.py": SENT.encode(), "file:1/weights.bin": weights}
    with client(kind, server) as (asked, module):
        with pytest.raises(module.InferenceServerException, match="failed to poll from model"):
            asked.load_model("sent", files=files)
        asked.load_model("sent", config=CONFIG, files=files)
        path, size = ask(asked, module, "sent").split()
        folder = pathlib.Path(path).parent.parent
        assert int(size) == len(weights)
        assert folder.name == "sent"
        assert sorted(entry.name for entry in folder.rglob("*") if entry.is_file()) == [
            "model.py",
            "weights.bin",
        ]
        asked.unload_model("sent")
        wait_until(lambda: not folder.parent.exists(), what="the folder is still there")


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_path_that_leads_out_of_the_folder_is_refused(kind: str, server: ServerProcess) -> None:
    with client(kind, server) as (asked, module):
        for path in ("../escaped", "1/../../escaped", "/../escaped"):
            with pytest.raises(module.InferenceServerException, match="must stay within model"):
                asked.load_model("sent", config=CONFIG, files={f"file:{path}": b"x"})
        assert asked.is_server_ready()


@pytest.mark.parametrize("host", ["thread", "process"])
def test_models_load_with_a_config_and_files(host: str, server: ServerProcess) -> None:
    def load(**given: Any) -> str:
        request = {"name": f"by_{host}", "config": CONFIG, "files": {}, **given}
        return ask(asked, module, host, json.dumps(request))

    with client("http", server) as (asked, module):
        files = {"file:1/model.py": SENT, "file:1/weights.bin": "x" * 3_000_000}
        assert load(files=files) == "loaded"
        path, size = ask(asked, module, f"by_{host}").split()
        assert int(size) == 3_000_000
        refused = f"Failed to load model: failed to load 'by_{host}', failed to poll from model repository: "
        assert load(config="", files=files).startswith(refused)
        assert load(files={"1/model.py": SENT}).startswith(refused + "Unrecognized load parameter")
        assert load(config="{").startswith(f"{refused}")
        assert "Invalid config override" in load(config="{", files=files)
        assert ask(asked, module, f"by_{host}").split()[0] == path
        asked.unload_model(f"by_{host}")
        wait_until(lambda: not pathlib.Path(path).exists(), what="the folder is still there")


BRINGS = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        pb_utils.load_model("text")

    def execute(self, requests):
        raise NotImplementedError
"""


@pytest.mark.parametrize("kind", CLIENTS)
def test_with_its_dependents_goes_what_a_model_loaded_in_its_initialize(
    kind: str, server: ServerProcess
) -> None:
    with client(kind, server) as (asked, _):
        for by_client in (False, True):
            asked.load_model("brings", config=CONFIG, files={"file:1/model.py": BRINGS.encode()})
            assert asked.is_model_ready("text")
            if by_client:
                asked.load_model("text")
            asked.unload_model("brings", unload_dependents=True)
            assert not asked.is_model_ready("brings")
            assert asked.is_model_ready("text") is by_client
        asked.unload_model("text")
