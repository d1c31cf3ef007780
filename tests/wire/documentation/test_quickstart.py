"""The quickstart page works as it stands: its commands, its configs and its requests, with the addresses of the server that is started here.

Its PyTorch model is in `tests/frameworks/pytorch/test_quickstart.py`.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import onnx
import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.wire.models.test_classifier import classifier

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "quickstart.md").read_text()
ONNX, PYTORCH = PAGE.split("## A PyTorch model")


def snippets(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def shell(command: str, folder: pathlib.Path) -> str:
    """What a command of the page prints, with `naiad` as this tree has it."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "server"), "TRITON_SERVER_CPU_ONLY": "1"}
    command = command.replace("naiad ", f"{sys.executable} -m naiad ")
    return subprocess.run(
        ["sh", "-ec", command],
        cwd=folder, env=environ, check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip


@pytest.mark.parametrize("config", [False, True], ids=["the file alone", "with the config"])
def test_an_onnx_file_is_served_in_a_few_commands(tmp_path: pathlib.Path, *, config: bool) -> None:
    make, serve, describe, infer = snippets(ONNX, "sh")
    assert serve == "naiad serve --model-repository models\n"
    onnx.save(classifier(), str(tmp_path / "model.onnx"))
    assert "ok  classifier" in shell(make, tmp_path)
    if config:
        [written] = snippets(ONNX, "protobuf")
        (tmp_path / "models" / "classifier" / "config.pbtxt").write_text(written)
        assert "max_batch_size 64" in shell("naiad check models", tmp_path)
    models, log = tmp_path / "models", tmp_path / "log"
    with ServerProcess(naiad_program(), [models], log=log) as server:
        described = json.loads(shell(describe.replace("localhost:8000", server.http), tmp_path))
        assert described["inputs"] == [{"name": "X", "datatype": "FP32", "shape": [-1, 3]}]
        reply = json.loads(shell(infer.replace("localhost:8000", server.http), tmp_path))
    assert {output["name"]: output["data"] for output in reply["outputs"]}["label"] == [1, 0]
