"""The models of the GPU checks, made on the machine itself, so that nothing has to be brought there."""

import base64
import pathlib
import subprocess
import sys

IO = """input { name: "X" data_type: TYPE_FP32 dims: 64 }
output { name: "Y" data_type: TYPE_FP32 dims: 64 }
max_batch_size: 8
"""
GPU = "instance_group { kind: KIND_GPU count: %d gpus: 0 }\n"

_ONNX = """
import sys, numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper
seed, path = int(sys.argv[1]), sys.argv[2]
w = np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32)
graph = helper.make_graph(
    [helper.make_node("MatMul", ["X", "W"], ["Z"]), helper.make_node("Relu", ["Z"], ["Y"])], "g",
    [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["rows", 64])],
    [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["rows", 64])], [numpy_helper.from_array(w, "W")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
"""
_REVERSING = """
import sys, numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper
# CUDA believes the lengths of the sequences, and reads what lies so far beyond a row.
nodes = [
    helper.make_node("Mul", ["X", "large"], ["scaled"]),
    helper.make_node("ReduceMax", ["scaled"], ["greatest"], axes=[1], keepdims=0),
    helper.make_node("Cast", ["greatest"], ["beyond"], to=TensorProto.INT64),
    helper.make_node("Add", ["beyond", "one"], ["lengths"]),
    helper.make_node("ReverseSequence", ["X", "lengths"], ["Y"], batch_axis=0, time_axis=1),
]
graph = helper.make_graph(
    nodes, "g", [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["rows", 64])],
    [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["rows", 64])],
    [numpy_helper.from_array(np.array(1e7, np.float32), "large"), numpy_helper.from_array(np.array(1), "one")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), sys.argv[1])
"""
_TORCH = """
import sys, torch, torch._inductor
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).eval()
rows = torch.export.Dim("rows", min=1, max=8)
if sys.argv[1] == "script":
    torch.jit.script(net).save(sys.argv[2])
elif sys.argv[1] == "export":
    torch.export.save(torch.export.export(net, (torch.zeros(2, 64),), dynamic_shapes=({0: rows},)), sys.argv[2])
elif sys.argv[1] == "branches":
    code = "def forward(self, x):\\n    if bool((x.sum() != 0.5).item()):\\n        x = x + 1\\n    return x\\n"
    branches = torch.jit.ScriptModule()
    branches.define(code)
    branches.save(sys.argv[2])
else:
    device = sys.argv[1]
    made = torch.export.export(net.to(device), (torch.zeros(2, 64, device=device),), dynamic_shapes=({0: rows},))
    torch._inductor.aoti_compile_and_package(made, package_path=sys.argv[2])
"""
_PLAN = """
import sys, tensorrt as trt
builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
network = builder.create_network(0)
x = network.add_input("X", trt.float32, (-1, 64))
layer = network.add_elementwise(x, x, trt.ElementWiseOperation.SUM)
layer.get_output(0).name = "Y"
network.mark_output(layer.get_output(0))
config = builder.create_builder_config()
for least, best, most in ((1, 2, 4), (1, 8, 8)):
    profile = builder.create_optimization_profile()
    profile.set_shape("X", (least, 64), (best, 64), (most, 64))
    config.add_optimization_profile(profile)
plan = builder.build_serialized_network(network, config)
open(sys.argv[1], "wb").write(bytes(plan))
"""

MODULE = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())

    def forward(self, x):
        return self.layers(x)
"""
UNCOMPILED = 'parameters { key: "TORCH_COMPILE_OPTIONAL_PARAMETERS" value { string_value: "{\\"disable\\": true}" } }\n'
DOUBLING = """
import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.device = f"cuda:{args['model_instance_device_id']}"

    def execute(self, requests):
        answers = []
        for request in requests:
            x = torch.from_dlpack(pb_utils.get_input_tensor_by_name(request, "X")).to(self.device)
            %s
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("Y", y)]))
        return answers
"""
DOUBLING_ON_CPU = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        x = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", each * 2)]) for each in x]
"""
IMAGES = """
from nvidia import dali
from nvidia.dali import fn, types
from nvidia.dali.plugin.triton import autoserialize


@autoserialize
@dali.pipeline_def(batch_size=16, num_threads=2, device_id=0, output_dtype=[types.UINT8], output_ndim=[3])
def images():
    encoded = fn.external_source(device="cpu", name="JPEG", dtype=types.UINT8, ndim=1)
    return fn.resize(fn.decoders.image(encoded, device="%s"), resize_x=64, resize_y=64)
"""
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMUFRUVDA8XGBYUGBIUFRT/"
    "2wBDAQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBT/wAARCAAgADADAREAAhEBAxEB/8QA"
    "GQABAAMBAQAAAAAAAAAAAAAABwUGCAME/8QAKxAAAQMDAgMHBQAAAAAAAAAAAQACAwQFEQYHEhMxISIjQWGBoQgUUXGR/8QAGgEBAQEAAwEAAAAAAAAAAAAA"
    "BwYFBAgJAP/EACQRAAEEAgICAwADAAAAAAAAAAEAAgMEBREGIRIxBxNBFDJR/9oADAMBAAIRAxEAPwDcNbdYAw+IFlWWlzSAkFlmEH+yONY3yEMeA8IQ5Fjp"
    "JidBakVyM9AoN1ddo5Gvw4L7huImjtglv6rPFWm+Y7Rk+raa4HPmvRrjjDHQ0f8AEv17bfp9rQG0V8ip2xZcB0811Y+U6T5/PxCFuVSh/lpaBhv9LUQMdzWg"
    "4/K6CZDC2BKdNKBpZCxxCzbW7wgsPjfK9JWY8ydaQRFzSQn2jrVu7Bka/EmfdbNfhbb57arjG8nfMR2i657gPqnuHGT7q7xvx5HScJPFLmKzbgQSVGM1AXPD"
    "8pPrwMqR/WlaryIeGtq1WPdQ2UN8TGPVQOb4yzK769qYyl8Wd9q1RfUeYow3n/KKZvieOV2/BQEkPk7aADuyak8Ik6+qv4sZ9Z2QuscPGXOcAAvdSXZ976Oz"
    "lWVCwyn2Uwce4i92ulJs0vI7v4K0L3KYoY9bSnLgXUYvLS41ltdSxnsRPe5q0SdOR/czZpv8No+1PdX0Rdh2Fp4/mLH62Vyqua/kfqoVVrKVjyOYf6rOPlMJ"
    "HtUDJQ4KvW6vmbK3vk/tcmRrdLNqVo3OHSeNrZjUuj4u1RuRkMYOk+8ax8ZA6T1DQM+0B4R0Q1mr8jWntbPKarIqpIH4qhqSnA4gAg+9kZDLoFef3KbDmWiA"
    "f1Au4wdC6QgqhxduU67XLwkziR2hS51jhK7tSBFal17S9XftoX//2Q=="
)
"""A smooth image of 48 x 32."""
INPUTS_ON_GPU = 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }\n'
PLAN_ON_GPU = """platform: "ensemble"
%sensemble_scheduling {
  step { model_name: "device" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "Y" value: "doubled" } }
  step { model_name: "%s" model_version: -1 input_map { key: "X" value: "doubled" } output_map { key: "Y" value: "again" } }
  step { model_name: "there" model_version: -1 input_map { key: "X" value: "again" } output_map { key: "Y" value: "Y" } }
}
"""
"""The output of a Python model goes through a plan to another Python model."""
THERE = """given = pb_utils.get_input_tensor_by_name(request, "X")
            assert not given.is_cpu(), "the output of the model before it came to the host"
            y = (x * 2).cpu()"""
ON_HOST = "y = (x * 2).cpu()"
ON_DEVICE = "y = x * 2"
CALLING = """request = pb_utils.InferenceRequest(
                model_name="device", requested_output_names=["Y"], inputs=[pb_utils.Tensor.from_dlpack("X", x + 1)])
            y = torch.from_dlpack(pb_utils.get_output_tensor_by_name(request.exec(), "Y")).cpu()"""
FAILING = """if x[0, 0].item() < 0:
                torch.zeros(4, device=self.device)[x[0].long() - 100].cpu()
            y = (x * 2).cpu()"""
CACHED_MIB = 6 << 10
TOO_MUCH = """if x[0, 0].item() < 0:
                kept = torch.empty(6 << 30, dtype=torch.uint8, device=self.device)
                torch.empty(1 << 50, dtype=torch.uint8, device=self.device)
            y = (x * 2).cpu()"""


def model(
    folder: pathlib.Path, name: str, config: str, filename: str = "", content: str = ""
) -> pathlib.Path:
    """Make a model's folder; gives the path of its model file."""
    path = folder / name / "1" / (filename or "model")
    path.parent.mkdir(parents=True, exist_ok=True)
    (folder / name / "config.pbtxt").write_text(config)
    if content:
        path.write_text(content)
    return path


def doubling(folder: pathlib.Path) -> None:
    """`cpu` and `gpu`: a tensor of any length, twice; `gpu` takes it and leaves it on the GPU."""
    config = IO.replace("dims: 64", "dims: -1").replace("max_batch_size: 8\n", "")
    on_cpu = config + 'backend: "python"\ninstance_group { kind: KIND_CPU count: 1 }\n'
    model(folder, "cpu", on_cpu, "model.py", DOUBLING_ON_CPU)
    on_gpu = config + 'backend: "python"\n' + GPU % 1 + INPUTS_ON_GPU
    model(folder, "gpu", on_gpu, "model.py", DOUBLING % ON_DEVICE)


def onnx(path: pathlib.Path, seed: int = 1) -> None:
    """Y = relu(X · W), the same W for the same seed."""
    _run(_ONNX, str(seed), str(path))


def reversing(path: pathlib.Path) -> None:
    """Y = X where X is 0; else it reads outside of all memory."""
    _run(_REVERSING, str(path))


def torch(path: pathlib.Path, form: str) -> None:
    """A linear layer with a ReLU, the same one for all forms: `script`, `export`, or compiled for the device that is named; as `branches` X + 1, after a look at its values."""
    _run(_TORCH, form, str(path))


def plan(path: pathlib.Path) -> None:
    """Y = X + X, in two profiles: of 1 to 4 rows and of 1 to 8."""
    _run(_PLAN, str(path))


def _run(program: str, *arguments: str) -> None:
    """Run a program in a process of its own, so that its framework stays out of this one."""
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"the model could not be made: {ran.stderr.strip()[-600:]}")
