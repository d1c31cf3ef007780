"""A repository for GPUs on a machine without one: what a server with --gpu-fallback=cpu serves, says and lists, and that check says the same."""

import dataclasses
import json
import pathlib
import subprocess
import sys
import urllib.request

import numpy as np
import tritonclient.http as triton

from tests.reference.process import ServerProcess, naiad_program

CODE = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.kind = args["model_instance_kind"]

    def execute(self, requests):
        assert self.kind == "CPU", self.kind
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", each.inputs()[0].as_numpy())]) for each in requests]
"""
CONFIG = """
backend: "python"
max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
instance_group [ { count: 1 kind: KIND_GPU gpus: [ 0 ] } ]
optimization { execution_accelerators { gpu_execution_accelerator { name: "tensorrt" } } }
"""
WARNING = "no GPU is available: what asks for one (m_0: KIND_GPU) runs on the CPU, without the accelerator tensorrt (--gpu-fallback=cpu)"


def test_a_repository_for_gpus_on_a_laptop(tmp_path: pathlib.Path) -> None:
    version = tmp_path / "models" / "m" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(CODE)
    (version.parent / "config.pbtxt").write_text(CONFIG)
    options = ["--gpu-fallback=cpu"]
    program = naiad_program()
    program = dataclasses.replace(program, environ={**program.environ, "CUDA_VISIBLE_DEVICES": ""})
    with (
        ServerProcess(program, [tmp_path / "models"], log=tmp_path / "log", options=options) as server,
        triton.InferenceServerClient(server.http) as client,
    ):  # fmt: skip
        given = triton.InferInput("X", [1, 2], "FP32")
        given.set_data_from_numpy(np.ones((1, 2), np.float32))
        result = client.infer("m", [given]).as_numpy("Y")
        assert result is not None
        assert result.tolist() == [[1, 1]]
        request = urllib.request.Request(f"http://{server.http}/v2/repository/index", data=b"{}")
        with urllib.request.urlopen(request) as reply:
            (entry,) = json.load(reply)
    assert (entry["state"], entry["reason"]) == ("READY", WARNING)
    assert (tmp_path / "log").read_text().count(f"m: {WARNING}") == 1
    folder = str(tmp_path / "models")
    checked = [
        subprocess.run(
            [sys.executable, "-m", "naiad", "check", *more, "--gpus=0", folder],
            env=dict(program.environ), capture_output=True, text=True, check=False,
        )
        for more in (options, [])
    ]  # fmt: skip
    assert [each.returncode for each in checked] == [0, 1]
    assert WARNING in checked[0].stdout
    assert "has kind KIND_GPU but no GPUs are available" in checked[1].stdout
    assert "--gpu-fallback=cpu" in checked[1].stdout
