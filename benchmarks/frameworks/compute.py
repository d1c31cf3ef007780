"""What an instance adds to the framework that it runs: a batch through an instance beside the framework's own call, in turns, in one process.

    .venv-frameworks/bin/python -m benchmarks.frameworks.compute [ROUNDS [FRAMEWORKS]]

The model is the same convolutional network of about 1 ms per row in PyTorch, TensorFlow, OpenVINO and ONNX Runtime, with one thread each, 8 rows; for DALI it is a pipeline that resizes and normalises images. Each
round times both ways once; printed are the medians, and the median of the rounds' ratios.
"""

import collections.abc
import importlib
import itertools
import pathlib
import statistics
import sys
import tempfile
import time
import typing
import warnings

import numpy as np

from naiad.backends.backend import Backend, ModelSource, PlansWorkers
from naiad.backends.catalog import Catalog
from naiad.backends.instance import InstanceSpec, LoadedModel
from naiad.backends.registry import Registry
from naiad.config.model_config import InstanceKind
from naiad.config.resolving.resolve import resolve
from naiad.core import datatypes
from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor

Array = np.ndarray[typing.Any, typing.Any]
_Method = typing.TypeVar("_Method")
Call = collections.abc.Callable[[], typing.Any]

ROWS = 8
SHAPE = (3, 64, 64)
CHANNELS = (3, 32, 64, 64)
SIDE = 224
"""Of the images that the pipeline makes."""


def weights() -> list[Array]:
    """Of three convolutions of 3 x 3."""
    random = np.random.default_rng(1)
    return [
        random.normal(size=(out, into, 3, 3), scale=0.05).astype(np.float32)
        for into, out in itertools.pairwise(CHANNELS)
    ]


def pytorch(folder: pathlib.Path, rows: Array) -> tuple[str, Call]:
    """The model as TorchScript, and the call of it."""
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
    given = torch.from_numpy(rows)

    def call() -> None:
        with torch.inference_mode():
            module(given)

    parameters = 'parameters { key: "INTRA_OP_THREAD_COUNT" value { string_value: "1" } }'
    return f'platform: "pytorch_libtorch" {_tensors("x__0", "y__0")} {parameters}', call


def tensorflow(folder: pathlib.Path, rows: Array) -> tuple[str, Call]:
    """The model as a SavedModel, and the call of its session."""
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
    return f'platform: "tensorflow_savedmodel" {_tensors("x", "y")} {threads}', lambda: bare(rows)


def openvino(folder: pathlib.Path, rows: Array) -> tuple[str, Call]:
    """The model in the intermediate representation, and the call of a request."""
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
    return (
        f'backend: "openvino" {_tensors("x", "y")} {threads}',
        lambda: request.infer([rows], share_inputs=True, share_outputs=True),
    )


def onnxruntime(folder: pathlib.Path, rows: Array) -> tuple[str, Call]:
    """The model as ONNX, and the call of a session."""
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
    return (
        f'platform: "onnxruntime_onnx" {_tensors("x", "y")} {threads}',
        lambda: session.run(["y"], {"x": rows}),
    )


def dali(folder: pathlib.Path, rows: Array) -> tuple[str, Call]:
    """A serialised pipeline that resizes and normalises images, and a run of it, fed with the rows."""
    from nvidia.dali import fn, pipeline_def, types  # noqa: PLC0415
    from nvidia.dali.pipeline import Pipeline  # noqa: PLC0415

    def graph() -> typing.Any:
        images = fn.external_source(name="x", dtype=types.FLOAT, ndim=3, layout="CHW")
        resized = fn.resize(images, resize_x=SIDE, resize_y=SIDE, antialias=True)
        return fn.normalize(resized, axes=[1, 2])

    define = pipeline_def(graph)
    serialized = define(batch_size=16, num_threads=1, device_id=None).serialize()
    (folder / "1" / "model.dali").write_bytes(serialized)
    bare = Pipeline.deserialize(
        serialized,
        batch_size=16,
        device_id=None,
        prefetch_queue_depth=1,
        exec_dynamic=True,
        exec_async=True,
        exec_pipelined=True,
    )
    fed = list(rows)

    def call() -> None:
        bare.feed_input("x", fed)
        bare.run()

    config = (
        f'backend: "dali" max_batch_size: 16 input {{ name: "x" data_type: TYPE_FP32 dims: {list(SHAPE)} }} '
        f'output {{ name: "y" data_type: TYPE_FP32 dims: {[SHAPE[0], SIDE, SIDE]} }}'
    )
    return config, call


MODELS = (pytorch, tensorflow, openvino, onnxruntime, dali)


def main(rounds: int, names: collections.abc.Collection[str] = ()) -> None:
    """Print a line for each framework, or for those that are named."""
    print(
        f"{'':14}{'bare loop':>12}{'instance':>12}{'compute':>12}   instance / bare   compute / bare   ({rounds} rounds of {ROWS} rows)"
    )
    rows = np.random.default_rng(2).normal(size=(ROWS, *SHAPE)).astype(np.float32)
    for make in (each for each in MODELS if not names or each.__name__ in names):
        with tempfile.TemporaryDirectory() as root:
            folder = pathlib.Path(root) / "m"
            (folder / "1").mkdir(parents=True)
            config, bare = make(folder, rows)
            (folder / "config.pbtxt").write_text(config)
            times = _times(bare, *_instance(folder, rows), rounds)
        middle = [statistics.median(column) / 1e6 for column in zip(*times, strict=True)]
        whole = statistics.median(instance / loop for loop, instance, _ in times)
        compute = statistics.median(inside / loop for loop, _, inside in times)
        print(
            f"{make.__name__:14}"
            + "".join(f"{value:9.2f} ms" for value in middle)
            + f"   {whole:15.3f}   {compute:14.3f}",
            flush=True,
        )


def _instance(folder: pathlib.Path, rows: Array) -> tuple[Call, Call]:
    """A call of an instance with the rows in requests of one, and how long the model ran in its last one, in ns."""
    config = resolve(folder, backends=Catalog()).config
    assert config is not None
    clock = SystemClock()
    backend: Backend = Registry(clock=clock).get(config.backend)
    source = ModelSource(config=config, version=1, model_dir=folder, options={})
    spec = InstanceSpec("m_0_0", InstanceKind.CPU, 0)
    instance = _loaded(backend, source, spec).make_instance(spec)
    (given,) = config.inputs

    def ignore(_response: InferResponse) -> None:
        pass

    batch = [
        Inference(
            InferRequest("m", 1, "", [Tensor(given.name, datatypes.FP32, row.shape, row)], [], {}),
            ignore,
            batch_size=1,
            received_ns=0,
        )
        for row in np.split(rows, len(rows))
    ]
    ran = 0

    def call() -> None:
        nonlocal ran
        execution = instance.execute(batch)
        ran = execution.output_start_ns - execution.input_end_ns

    return call, lambda: ran


def _loaded(backend: Backend, source: ModelSource, spec: InstanceSpec) -> LoadedModel:
    """The model as the process of its instances has it."""
    if not isinstance(backend, PlansWorkers):
        return backend.load(source)
    plan = backend.worker_plan(source, spec)
    module, _, name = plan.load.partition(":")
    loaded: LoadedModel = getattr(importlib.import_module(module), name)(dict(plan.settings))
    return loaded


def _times(bare: Call, call: Call, ran: Call, rounds: int) -> list[tuple[int, int, int]]:
    """Of each round in ns: the bare call, the instance's, and the model inside of it."""
    times: list[tuple[int, int, int]] = []
    for number in range(rounds + 5):
        begun = time.perf_counter_ns()
        bare()
        between = time.perf_counter_ns()
        call()
        ended = time.perf_counter_ns()
        if number >= 5:  # noqa: PLR2004 - the first ones warm both up
            times.append((between - begun, ended - between, ran()))
    return times


def _tensors(given: str, made: str) -> str:
    dims, out = list(SHAPE), [CHANNELS[-1], *SHAPE[1:]]
    return (
        f'max_batch_size: 16 input {{ name: "{given}" data_type: TYPE_FP32 dims: {dims} }} '
        f'output {{ name: "{made}" data_type: TYPE_FP32 dims: {out} }}'
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50, sys.argv[2:])
