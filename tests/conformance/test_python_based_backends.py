"""Python-based backends (rows 11.5, 11.52): one model.py in the backend directory, and models that only have data."""

import json
import pathlib
import tempfile
from typing import Any

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.starting import server_on, start
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.reference.install import install

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
        config = json.loads(args["model_config"])
        names = [config["backend"], config["runtime"], config["default_model_filename"], args["model_name"]]
        self.words = [settings["prefix"], *names, pathlib.Path(args["model_repository"]).name, __file__[-25:]]

    def execute(self, requests):
        responses = []
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()[0].decode()
            if text == "fail":
                raise ValueError("as requested")
            words = np.array([joining.join(text, self.words[0]), *self.words[1:]], dtype=object)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", words)]))
        return responses
"""

JOINING = """\
def join(*words):
    return " ".join(words)
"""


_KEYS = (
    "backend",
    "runtime",
    "platform",
    "default_model_filename",
    "input",
    "output",
    "instance_group",
)


def _serves(target: Target) -> Answer:
    """Two models of one backend: what they answer, an exception, and the completed config."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        backends = folder / "backends"
        (backends / "greeting").mkdir(parents=True)
        (backends / "greeting" / "model.py").write_text(BACKEND)
        (backends / "greeting" / "joining.py").write_text(JOINING)
        (backends / "python").symlink_to(install().triton / "backends" / "python")
        for model, prefix, config in (
            ("first", "one", ""),
            ("second", "two", 'runtime: "model.py"'),
        ):
            version = folder / "models" / model / "1"
            version.mkdir(parents=True)
            (version.parent / "config.pbtxt").write_text(f'backend: "greeting" {config}')
            (version / "model.json").write_text(json.dumps({"prefix": prefix}))
        with server_on(target, folder / "models", f"--backend-directory={backends}") as server:
            asked = Target(server)
            config = json.loads(asked.http("GET", "/v2/models/first/config").body)
            answers = {name: _infer(asked, name, "say") for name in ("first", "second")}
            failed = _infer(asked, "first", "fail")
        return {
            "config": {key: config[key] for key in _KEYS},
            "answers": answers,
            "error": failed["error"],
        }


def _infer(target: Target, model: str, text: str) -> dict[str, Any]:
    reply = target.infer(model, {"inputs": [value("X", "BYTES", [1], [text])]})
    body: dict[str, Any] = json.loads(reply.body)
    return {"status": reply.status, **body}


SCENARIOS = (start("python-based backend", "11.5 11.52", _serves, says="ValueError: as requested"),)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: str(scenario.name))
def test_python_based_backends(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
