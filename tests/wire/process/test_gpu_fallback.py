"""A repository for GPUs on a machine without one: what a server with --gpu-fallback=cpu serves, says and lists, and that check says the same."""

import dataclasses
import json
import pathlib
import subprocess
import sys
import urllib.request

import numpy as np
import onnx
import tritonclient.http as triton
from onnx import TensorProto, helper

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


GPU = "instance_group [ { count: 1 kind: KIND_GPU } ]\n"
BATCHING = "dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 }\n"
TENSORRT = """optimization { execution_accelerators {
  gpu_execution_accelerator : [ { name : "tensorrt"
    parameters { key: "precision_mode" value: "FP16" }
    parameters { key: "max_workspace_size_bytes" value: "1073741824" } } ] } }
"""
WARM = 'model_warmup { name: "w" batch_size: 4 inputs { key: "X" value { data_type: TYPE_FP32 dims: 2 random_data: true } } }\n'
SHAPES = {
    "plain": GPU,
    "all_gpus": "instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] } ]\n",
    "auto": "instance_group [ { count: 1 gpus: [ 0 ] } ]\n",
    "batched": GPU + BATCHING,
    "versions": GPU + BATCHING + "version_policy { latest { num_versions: 1 } }\n",
    "tensorrt": GPU + TENSORRT,
    "tensorrt_batched": GPU + BATCHING + TENSORRT,
    "tensorrt_warm": GPU + BATCHING + TENSORRT + WARM,
    "cuda": GPU
    + 'optimization { graph { level: 1 } cuda { graphs: true } input_pinned_memory { enable: true } execution_accelerators { gpu_execution_accelerator { name: "cuda" '
    'parameters { key: "cudnn_conv_algo_search" value: "HEURISTIC" } } } }\n',
    "parameters": GPU
    + "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
        for key, value in (
            ("cudnn_conv_algo_search", "0"),
            ("gpu_mem_limit", "4294967200"),
            ("arena_extend_strategy", "1"),
            ("do_copy_in_default_stream", "1"),
            ("memory.enable_memory_arena_shrinkage", "gpu:0"),
            ("intra_op_thread_count", "1"),
        )
    ),
    "two_groups": "instance_group [ { kind: KIND_GPU }, { kind: KIND_CPU count: 2 } ]\n",
    "cached": GPU + BATCHING + "response_cache { enable: true }\n",
    "on_cpu": "instance_group [ { kind: KIND_CPU } ]\n",
}
"""The features that public configs with KIND_GPU have together, by the names of models."""


def add(folder: pathlib.Path, name: str, more: str) -> None:
    graph = helper.make_graph(
        [helper.make_node("Add", ["X", "X"], ["Y"])],
        name,
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["n", 2])],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 15)])
    version = folder / name / "1"
    version.mkdir(parents=True)
    onnx.save(model, str(version / "model.onnx"))
    (version.parent / "config.pbtxt").write_text(
        'platform: "onnxruntime_onnx"\nmax_batch_size: 8\n'
        'input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }\noutput { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }\n'
        + more
    )


def test_the_shapes_of_public_configs_for_gpus_are_served(tmp_path: pathlib.Path) -> None:
    for name, more in SHAPES.items():
        add(tmp_path / "models", name, more)
    plan = tmp_path / "models" / "plan" / "1"
    plan.mkdir(parents=True)
    (plan / "model.plan").write_bytes(b"plan")
    (plan.parent / "config.pbtxt").write_text(
        f'platform: "tensorrt_plan"\nmax_batch_size: 8\n{GPU}'
        'input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }\noutput { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }\n'
    )
    program = naiad_program()
    program = dataclasses.replace(program, environ={**program.environ, "CUDA_VISIBLE_DEVICES": ""})
    options = ["--gpu-fallback=cpu", "--exit-on-error=false", "--strict-readiness=false"]
    with (
        ServerProcess(program, [tmp_path / "models"], log=tmp_path / "log", options=options) as server,
        triton.InferenceServerClient(server.http) as client,
    ):  # fmt: skip
        given = triton.InferInput("X", [1, 2], "FP32")
        given.set_data_from_numpy(np.array([[1, 2]], np.float32))
        for name in SHAPES:
            result = client.infer(name, [given]).as_numpy("Y")
            assert result is not None
            assert result.tolist() == [[2, 4]]
        request = urllib.request.Request(f"http://{server.http}/v2/repository/index", data=b"{}")
        with urllib.request.urlopen(request) as reply:
            index = {each["name"]: each for each in json.load(reply)}
    assert [name for name in SHAPES if "--gpu-fallback=cpu" not in index[name].get("reason", "")] == ["on_cpu"]  # fmt: skip
    assert "the accelerator tensorrt" in index["tensorrt_warm"]["reason"]
    assert "the parameter gpu_mem_limit" in index["parameters"]["reason"]
    log = (tmp_path / "log").read_text()
    assert log.count("no GPU is available") == len(SHAPES) - 1
    assert index["plan"]["state"] == "UNAVAILABLE"
    assert "serve the ONNX file that the plan was built from" in log
