"""The models of the soak: echoes in each kind of host, and what schedules requests in other ways.

Besides the echoes there are one that can hang, one that is cached, two that share a resource, a model that answers many times, sums of sequences, and ensembles.

Every answer carries what was asked, so that an answer which reached the wrong request is seen.
"""

import pathlib

import onnx
from onnx import TensorProto, helper

_TENSORS = """\
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "y" data_type: TYPE_FP32 dims: -1 }
"""

_CONFIG = """\
backend: "{backend}"
{tensors}
dynamic_batching {{}}
instance_group {{ kind: KIND_CPU count: {count} {group} }}
parameters {{ key: "naiad.host" value {{ string_value: "{host}" }} }}
{more}
"""

_HANGS = """\
backend: "python"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "y" data_type: TYPE_FP32 dims: -1 }
instance_group { kind: KIND_CPU count: 1 }
parameters { key: "naiad.host" value { string_value: "process" } }
parameters { key: "naiad.execute_timeout" value { string_value: "0.5" } }
"""

_STREAM = """\
backend: "python"
max_batch_size: 0
input { name: "x" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 1 }
instance_group { kind: KIND_CPU count: 1 }
model_transaction_policy { decoupled: true }
parameters { key: "naiad.host" value { string_value: "process" } }
"""

_SEQUENCES = """\
backend: "python"
max_batch_size: 3
input {{ name: "x" data_type: TYPE_FP32 dims: 1 }}
output {{ name: "y" data_type: TYPE_FP32 dims: 1 }}
instance_group {{ kind: KIND_CPU count: {count} }}
sequence_batching {{
  {strategy}
  max_sequence_idle_microseconds: {idle_us}
  control_input [
    {{ name: "START" control {{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }} }},
    {{ name: "READY" control {{ kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] }} }},
    {{ name: "CORRID" control {{ kind: CONTROL_SEQUENCE_CORRID data_type: {corrid} }} }}
  ]
}}
parameters {{ key: "naiad.host" value {{ string_value: "process" }} }}
"""

_STEP = (
    '{{ model_name: "{}" model_version: -1 input_map {{ key: "x" value: "{}" }} '
    'output_map {{ key: "y" value: "{}" }} }}'
)

_RESOURCE = 'rate_limiter {{ resources {{ name: "device" count: 1 }} priority: {} }}'

_ECHO_MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            while x[0, 0] < 0:  # asked to hang
                pass
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", x)]))
        return responses
"""

_STREAM_MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            sender = request.get_response_sender()
            for _ in range(ANSWERS):
                if request.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", x)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

_SUM_MODEL = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        return [self.add(request) for request in requests]

    def add(self, request):
        def value(name):
            return pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]

        total = 0.0
        if value("READY"):
            key = value("CORRID")
            total = self.sums.pop(key, -1e9) if not value("START") else 0.0
            total += float(value("x"))
            self.sums[key] = total
            if len(self.sums) > 1000:  # sequences that were left open
                del self.sums[next(iter(self.sums))]
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([[total]], np.float32))])
"""

IDLE_S = 3
"""After so long without a request a sequence is over."""

STREAMED = 5
"""Answers to one request of `stream`."""

THREADED, PROCESS, HANGS, STREAM, ONNX = "threaded", "pair", "hangs", "stream", "add"
DIRECT, OLDEST = "direct", "oldest"
CHAIN, NESTED = "chain", "nested"
CACHED = "cached"
LIMITED, LIMITED_PROCESS = "limited", "limited_pair"

SEQUENCES = (DIRECT, OLDEST)
"""Models of which a client asks for sequences."""

ENSEMBLES = (CHAIN, NESTED)

ALL = (
    THREADED, PROCESS, HANGS, STREAM, ONNX, DIRECT, OLDEST, CACHED, LIMITED, LIMITED_PROCESS, CHAIN, NESTED,
)  # fmt: skip
"""The steps of an ensemble are before it."""

WORKERS = {PROCESS: 2, HANGS: 1, STREAM: 1, DIRECT: 2, OLDEST: 1, LIMITED_PROCESS: 1}
"""How many worker processes a model has."""

INSTANCES = {ONNX: 2, PROCESS: 2, DIRECT: 2}
"""How many instances a model has, where it is not one."""

KILLED = frozenset({*WORKERS, CHAIN, NESTED})
"""Models of which a request may fail because a worker was killed."""

OPTIONS = (
    "--rate-limit=execution_count",
    "--rate-limit-resource=device:1",
    "--cache-config=local,size=1048576",
)
"""Of the server that serves them."""


def make(folder: pathlib.Path) -> pathlib.Path:
    """Writes them all into a folder and gives it back."""
    _echo(folder, THREADED, host="thread")
    _echo(folder, PROCESS, host="process", count=WORKERS[PROCESS])
    _echo(folder, CACHED, host="thread", more="response_cache { enable: true }")
    _echo(folder, LIMITED, host="thread", group=_RESOURCE.format(1))
    _echo(folder, LIMITED_PROCESS, host="process", group=_RESOURCE.format(2))
    _python(folder, HANGS, _HANGS, _ECHO_MODEL)
    _python(folder, STREAM, _STREAM, _STREAM_MODEL.replace("ANSWERS", str(STREAMED)))
    idle_us = IDLE_S * 1_000_000
    direct = _SEQUENCES.format(
        count=WORKERS[DIRECT], strategy="direct { }", corrid="TYPE_UINT64", idle_us=idle_us
    )
    _python(folder, DIRECT, direct, _SUM_MODEL)
    strategy = "oldest { max_candidate_sequences: 4 }"
    oldest = _SEQUENCES.format(
        count=WORKERS[OLDEST], strategy=strategy, corrid="TYPE_STRING", idle_us=idle_us
    )
    _python(folder, OLDEST, oldest, _SUM_MODEL)
    _onnx(folder, ONNX)
    _ensemble(folder, CHAIN, THREADED, ONNX, PROCESS)
    _ensemble(folder, NESTED, CHAIN, CACHED)
    return folder


def touch(folder: pathlib.Path, model: str) -> None:
    """Changes a model's folder, so that a load of it is a reload."""
    version = folder / model / "1"
    (version / "touched").write_text("")
    (version / "touched").unlink()
    for file in version.iterdir():
        file.touch()


def _echo(
    folder: pathlib.Path, name: str, *, host: str, count: int = 1, group: str = "", more: str = ""
) -> None:
    config = _CONFIG.format(
        backend="python", tensors=_TENSORS, count=count, host=host, group=group, more=more
    )
    _python(folder, name, config, _ECHO_MODEL)


def _ensemble(folder: pathlib.Path, name: str, *models: str) -> None:
    """Each step gets what the one before it gives."""
    tensors = ["x", *(f"t{number}" for number in range(1, len(models))), "y"]
    steps = ", ".join(
        _STEP.format(model, before, after)
        for model, before, after in zip(models, tensors, tensors[1:], strict=False)
    )
    version = folder / name / "1"
    version.mkdir(parents=True)
    (version / "kept").write_text("a folder without a file is not in every archive\n")
    (folder / name / "config.pbtxt").write_text(
        f'platform: "ensemble"\n{_TENSORS}ensemble_scheduling {{ step [ {steps} ] }}\n'
    )


def _python(folder: pathlib.Path, name: str, config: str, code: str) -> None:
    version = folder / name / "1"
    version.mkdir(parents=True)
    (folder / name / "config.pbtxt").write_text(config)
    (version / "model.py").write_text(code)


def _onnx(folder: pathlib.Path, name: str) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        name,
        [value("x", TensorProto.FLOAT, ["N", "M"])],
        [value("y", TensorProto.FLOAT, ["N", "M"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    version = folder / name / "1"
    version.mkdir(parents=True)
    (folder / name / "config.pbtxt").write_text(
        _CONFIG.format(
            backend="onnxruntime",
            tensors=_TENSORS,
            count=INSTANCES[ONNX],
            host="thread",
            group="",
            more="",
        )
    )
    onnx.save(model, version / "model.onnx")
