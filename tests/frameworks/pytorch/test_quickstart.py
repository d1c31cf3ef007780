"""The PyTorch model of the quickstart page, as it stands there."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.wire.documentation.test_quickstart import PYTORCH, shell, snippets


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_pytorch_model_of_the_page_is_served(tmp_path: pathlib.Path) -> None:
    [code] = snippets(PYTORCH, "python")
    [config] = snippets(PYTORCH, "protobuf")
    [infer] = snippets(PYTORCH, "sh")
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path, check=True)
    (tmp_path / "models" / "net" / "config.pbtxt").write_text(config)
    assert "ok  net" in shell("naiad check models", tmp_path)
    with ServerProcess(naiad_program(), [tmp_path / "models"], log=tmp_path / "log") as server:
        reply = json.loads(shell(infer.replace("localhost:8000", server.http), tmp_path))
    [output] = reply["outputs"]
    assert (output["name"], output["shape"]) == ("OUTPUT__0", [1, 2])
    assert all(value >= 0 for value in output["data"])
