"""Writes one repository with a model of each framework side by side: `python make_models.py FOLDER`.

Each computes `scores = features @ W + b` with the same numbers, so that all answer alike:

- `in_onnx`: model.onnx, for ONNX Runtime
- `in_torchscript`: model.pt
- `in_torch_export`: model.pt2, a program of torch.export
- `in_tensorflow`: model.savedmodel, a folder
- `in_openvino`: model.xml with model.bin
- `in_python`: model.py

What writes a framework that is not installed is left out, and named. Each framework is imported in a process of its own, as the server has it: torch and
TensorFlow cannot be in one.
"""

import pathlib
import subprocess
import sys

import numpy as np

FEATURES, SCORES = 4, 3
WEIGHTS = np.linspace(-1, 1, FEATURES * SCORES, dtype=np.float32).reshape(FEATURES, SCORES)
BIASES = np.array([0.5, 0, -0.5], np.float32)

CONFIG = """{head}
max_batch_size: 16
dynamic_batching {{ }}
input {{ name: "{features}" data_type: TYPE_FP32 dims: [ 4 ] }}
output {{ name: "{scores}" data_type: TYPE_FP32 dims: [ 3 ] }}
"""

CODE = """import numpy as np
import triton_python_backend_utils as pb_utils

WEIGHTS = np.array({weights}, np.float32)
BIASES = np.array({biases}, np.float32)


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            features = pb_utils.get_input_tensor_by_name(request, "features").as_numpy()
            scores = pb_utils.Tensor("scores", features @ WEIGHTS + BIASES)
            responses.append(pb_utils.InferenceResponse([scores]))
        return responses
"""


def onnx(folder: pathlib.Path) -> None:
    """Needs the package onnx."""
    from onnx import TensorProto, helper, numpy_helper, save

    graph = helper.make_graph(
        [helper.make_node("Gemm", ["features", "W", "b"], ["scores"])],
        "scores",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["rows", FEATURES])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["rows", SCORES])],
        [numpy_helper.from_array(WEIGHTS, "W"), numpy_helper.from_array(BIASES, "b")],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    save(model, version(folder, "in_onnx") / "model.onnx")


def torch(folder: pathlib.Path) -> None:
    """Needs the package torch."""
    import torch

    net = torch.nn.Linear(FEATURES, SCORES).eval()
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(WEIGHTS.T.copy()))
        net.bias.copy_(torch.from_numpy(BIASES))
    example = torch.zeros(2, FEATURES)
    script = torch.jit.trace(net, example)
    torch.jit.save(script, version(folder, "in_torchscript", "INPUT__0", "OUTPUT__0") / "model.pt")
    rows = torch.export.Dim("rows", min=1, max=16)
    program = torch.export.export(net, (example,), dynamic_shapes={"input": {0: rows}})
    head = 'platform: "torch_aoti"'
    exported = version(folder, "in_torch_export", "INPUT__0", "OUTPUT__0", head=head)
    torch.export.save(program, exported / "model.pt2")


def tensorflow(folder: pathlib.Path) -> None:
    """Needs the package tensorflow or tensorflow-cpu."""
    import tensorflow as tf

    class Net(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weights = tf.Variable(WEIGHTS)
            self.biases = tf.Variable(BIASES)

        @tf.function(input_signature=[tf.TensorSpec([None, FEATURES], tf.float32, "features")])  # type: ignore[untyped-decorator]
        def scores(self, features: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"scores": features @ self.weights + self.biases}

    net = Net()
    where = version(folder, "in_tensorflow") / "model.savedmodel"
    tf.saved_model.save(net, str(where), signatures=net.scores)


def openvino(folder: pathlib.Path) -> None:
    """Needs the package openvino."""
    import openvino
    from openvino import opset13 as ops

    features = ops.parameter([-1, FEATURES], np.float32, name="features")
    product = ops.matmul(features, ops.constant(WEIGHTS), transpose_a=False, transpose_b=False)
    scores = ops.add(product, ops.constant(BIASES))
    features.output(0).tensor.names = {"features"}
    scores.output(0).tensor.names = {"scores"}
    model = openvino.Model([scores], [features])
    # Where a processor computes BF16 faster, OpenVINO would choose that.
    precision = 'key: "INFERENCE_PRECISION_HINT" value { string_value: "f32" }'
    head = f'backend: "openvino"\nparameters {{ {precision} }}'
    path = version(folder, "in_openvino", head=head) / "model.xml"
    openvino.save_model(model, path, compress_to_fp16=False)


def python(folder: pathlib.Path) -> None:
    """Needs nothing."""
    code = CODE.format(weights=WEIGHTS.tolist(), biases=BIASES.tolist())
    where = version(folder, "in_python", head='backend: "python"')
    (where / "model.py").write_text(code)


def version(
    folder: pathlib.Path,
    model: str,
    features: str = "features",
    scores: str = "scores",
    *,
    head: str = "",
) -> pathlib.Path:
    """The folder of version 1 of a model that has its config."""
    made = folder / model / "1"
    made.mkdir(parents=True, exist_ok=True)
    config = CONFIG.format(head=head, features=features, scores=scores)
    (made.parent / "config.pbtxt").write_text(config.lstrip())
    return made


WRITERS = {each.__name__: each for each in (onnx, torch, tensorflow, openvino, python)}


def main(folder: str, *names: str) -> None:
    """Write the models of the named frameworks, or of all, each in a process."""
    if len(names) == 1:
        WRITERS[names[0]](pathlib.Path(folder))
        return
    for name in names or WRITERS:
        command = [sys.executable, __file__, folder, name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this file
        if done.returncode:
            print(f"{name} is left out: {done.stderr.strip().splitlines()[-1]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
