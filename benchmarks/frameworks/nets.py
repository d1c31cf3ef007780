"""The same convolutional network for each framework of networks, and beside it the framework's own call: three convolutions of 3 x 3, about 1 ms per row, with one thread, 8 rows."""

import collections.abc
import itertools
import pathlib
import typing

import numpy as np

from benchmarks.frameworks.made import Array, Made

_Method = typing.TypeVar("_Method")

ROWS = 8
SHAPE = (3, 64, 64)
CHANNELS = (3, 32, 64, 64)


def images() -> Array:
    """What goes in: FP32 [8, 3, 64, 64]."""
    return np.random.default_rng(2).normal(size=(ROWS, *SHAPE)).astype(np.float32)


def weights() -> list[Array]:
    """Of three convolutions of 3 x 3."""
    random = np.random.default_rng(1)
    return [
        random.normal(size=(out, into, 3, 3), scale=0.05).astype(np.float32)
        for into, out in itertools.pairwise(CHANNELS)
    ]


def pytorch(folder: pathlib.Path) -> Made:
    """As TorchScript; bare is the call of the module."""
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)
    layers: list[torch.nn.Module] = []
    for values in weights():
        layer = torch.nn.Conv2d(values.shape[1], values.shape[0], 3, padding=1, bias=False)
        layer.weight.data = torch.from_numpy(values)
        layers += [layer, torch.nn.ReLU()]
    path = folder / "1" / "model.pt"
    torch.jit.script(torch.nn.Sequential(*layers).eval()).save(str(path))
    module = torch.jit.load(str(path)).eval()
    rows = images()
    given = torch.from_numpy(rows)

    def call() -> None:
        with torch.inference_mode():
            module(given)

    parameters = 'parameters { key: "INTRA_OP_THREAD_COUNT" value { string_value: "1" } }'
    return Made(f'platform: "pytorch_libtorch" {_tensors("x__0", "y__0")} {parameters}', rows, call)


def tensorflow(folder: pathlib.Path) -> Made:
    """As a SavedModel; bare is the call of its session."""
    import tensorflow as tf  # noqa: PLC0415

    v1 = tf.compat.v1
    function: collections.abc.Callable[..., collections.abc.Callable[[_Method], _Method]] = (
        tf.function
    )

    kernels = [np.transpose(values, (2, 3, 1, 0)) for values in weights()]

    class Net(tf.Module):
        @function(input_signature=[tf.TensorSpec([None, *SHAPE], tf.float32, name="x")])
        def serve(self, x: typing.Any) -> typing.Any:
            y = tf.transpose(x, (0, 2, 3, 1))
            for kernel in kernels:
                y = tf.nn.relu(tf.nn.conv2d(y, kernel, 1, "SAME"))
            return {"y": tf.transpose(y, (0, 3, 1, 2))}

    net = Net()
    path = folder / "1" / "model.savedmodel"
    tf.saved_model.save(net, str(path), signatures={"serving_default": net.serve})
    graph = tf.Graph()
    session = v1.Session(
        graph=graph,
        config=v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1),
    )
    with graph.as_default():
        loaded = v1.saved_model.loader.load(session, ["serve"], str(path))
    signature = loaded.signature_def["serving_default"]
    feed, fetch = signature.inputs["x"].name, signature.outputs["y"].name
    bare = session.make_callable(
        [graph.get_tensor_by_name(fetch)], [graph.get_tensor_by_name(feed)]
    )
    threads = "".join(
        f'parameters {{ key: "TF_NUM_{kind}_THREADS" value {{ string_value: "1" }} }}'
        for kind in ("INTRA", "INTER")
    )
    rows = images()
    config = f'platform: "tensorflow_savedmodel" {_tensors("x", "y")} {threads}'
    return Made(config, rows, lambda: bare(rows))


def openvino(folder: pathlib.Path) -> Made:
    """In the intermediate representation; bare is the call of a request."""
    import openvino as ov  # noqa: PLC0415
    from openvino import opset13 as ops  # noqa: PLC0415

    x = ops.parameter([-1, *SHAPE], np.float32, name="x")
    x.output(0).set_names({"x"})
    y: typing.Any = x
    for values in weights():
        y = ops.relu(ops.convolution(y, ops.constant(values), [1, 1], [1, 1], [1, 1], [1, 1]))
    y.output(0).set_names({"y"})
    path = folder / "1" / "model.xml"
    ov.save_model(ov.Model([ops.result(y)], [x], "m"), str(path), compress_to_fp16=False)
    properties = {"INFERENCE_NUM_THREADS": "1"}
    request = ov.Core().compile_model(str(path), "CPU", properties).create_infer_request()
    threads = 'parameters { key: "INFERENCE_NUM_THREADS" value { string_value: "1" } }'
    rows = images()
    return Made(
        f'backend: "openvino" {_tensors("x", "y")} {threads}',
        rows,
        lambda: request.infer([rows], share_inputs=True, share_outputs=True),
    )


def onnxruntime(folder: pathlib.Path) -> Made:
    """As ONNX; bare is the call of a session."""
    import onnxruntime as ort  # noqa: PLC0415
    from onnx import TensorProto, helper, numpy_helper, save  # noqa: PLC0415

    nodes, name = [], "x"
    values = weights()
    for index in range(len(values)):
        nodes.append(helper.make_node("Conv", [name, f"w{index}"], [f"c{index}"], pads=[1] * 4))
        name = "y" if index == len(values) - 1 else f"r{index}"
        nodes.append(helper.make_node("Relu", [f"c{index}"], [name]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *SHAPE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", CHANNELS[-1], *SHAPE[1:]])],
        [numpy_helper.from_array(each, f"w{index}") for index, each in enumerate(values)],
    )
    path = folder / "1" / "model.onnx"
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10),
        str(path),
    )
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    threads = 'parameters { key: "intra_op_thread_count" value { string_value: "1" } }'
    rows = images()
    return Made(
        f'platform: "onnxruntime_onnx" {_tensors("x", "y")} {threads}',
        rows,
        lambda: session.run(["y"], {"x": rows}),
    )


def _tensors(given: str, made: str) -> str:
    dims, out = list(SHAPE), [CHANNELS[-1], *SHAPE[1:]]
    return (
        f'max_batch_size: 16 input {{ name: "{given}" data_type: TYPE_FP32 dims: {dims} }} '
        f'output {{ name: "{made}" data_type: TYPE_FP32 dims: {out} }}'
    )
