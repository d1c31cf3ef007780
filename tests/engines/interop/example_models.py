"""The models that the examples of Triton's Python client ask for, in a few lines of Python each: what they compute is what the examples expect."""

import pathlib

_HEAD = """
import io
import numpy as np
import triton_python_backend_utils as pb_utils

def tensor(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()

def answer(**outputs):
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in outputs.items()])
"""

_SUMS = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(OUTPUT0=self.of(a + b, a), OUTPUT1=self.of(a - b, a)) for a, b in map(self.read, requests)]

    def read(self, request):
        return tensor(request, "INPUT0"), tensor(request, "INPUT1")

    def of(self, value, like):
        return value.astype(like.dtype)
"""

_STRING_SUMS = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(OUTPUT0=strings(a + b), OUTPUT1=strings(a - b)) for a, b in map(self.read, requests)]

    def read(self, request):
        return tensor(request, "INPUT0").astype(np.int64), tensor(request, "INPUT1").astype(np.int64)

def strings(numbers):
    return numbers.astype("S").astype(np.object_)
"""

_IDENTITY = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(OUTPUT0=tensor(request, "INPUT0")) for request in requests]
"""

_SEQUENCE = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(OUTPUT=tensor(request, "INPUT") + tensor(request, "START")) for request in requests]
"""

_DYNA_SEQUENCE = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(OUTPUT=self.of(request)) for request in requests]

    def of(self, request):
        added = tensor(request, "START") + tensor(request, "END") * tensor(request, "CORRID").astype(np.int64)
        return (tensor(request, "INPUT") + added).astype(np.int32)
"""

_STRING_DYNA_SEQUENCE = """
class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        return [answer(OUTPUT=self.of(request)) for request in requests]

    def of(self, request):
        name = tensor(request, "CORRID").reshape(-1)[0]
        total = self.sums.get(name, 0) if not tensor(request, "START").any() else 0
        total = total + tensor(request, "INPUT")
        self.sums[name] = total
        return total + tensor(request, "END") * int(name)
"""

_REPEAT = """
import time

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            values, waits = tensor(request, "IN"), tensor(request, "DELAY")
            for index, (value, milliseconds) in enumerate(zip(values, waits)):
                time.sleep(milliseconds / 1e5)
                sender.send(answer(OUT=np.array([value], np.int32), IDX=np.array([index], np.uint32)))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

_CLASSIFIER = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(scores=self.of(tensor(request, "pixels"))) for request in requests]

    def of(self, pixels):
        means = pixels.reshape(len(pixels), -1).mean(axis=1, keepdims=True)
        return (means + np.linspace(0, 1, 1000, dtype=np.float32)[None, :]).astype(np.float32)
"""

_DENSENET = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(fc6_1=self.of(tensor(request, "data_0"))) for request in requests]

    def of(self, pixels):
        return pixels.mean() + np.linspace(0, 1, 1000, dtype=np.float32)
"""

_DECODER = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(pixels=np.stack([self.decoded(row[0]) for row in tensor(request, "image")])) for request in requests]

    def decoded(self, file):
        brightness = np.frombuffer(file, np.uint8).mean() / 255  # the examples show any classes
        return np.full((3, 224, 224), brightness, np.float32)
"""


def _tensors(kind: str, **tensors: tuple[str, str]) -> str:
    listed = [f'{{ name: "{name}" data_type: {datatype} dims: [ {dims} ] }}' for name, (datatype, dims) in tensors.items()]  # fmt: skip
    return f"{kind} [ {', '.join(listed)} ]\n"


def _sums(datatype: str) -> str:
    two = (datatype, "16")
    return _tensors("input", INPUT0=two, INPUT1=two) + _tensors("output", OUTPUT0=two, OUTPUT1=two)


def _control(name: str, kind: str, value: str) -> str:
    return f'control_input [ {{ name: "{name}" control [ {{ kind: CONTROL_SEQUENCE_{kind} {value} }} ] }} ]\n'


def _sequence(*controls: str, strategy: str = "") -> str:
    number = ("TYPE_INT32", "1")
    batching = f"sequence_batching {{ {strategy} {''.join(controls)} }}\n"
    return batching + _tensors("input", INPUT=number) + _tensors("output", OUTPUT=number)


def _classifier(pixels: str, scores: str) -> str:
    taken = _tensors("input", **{pixels: _PIXELS}).replace(" dims", " format: FORMAT_NCHW dims")
    return taken + _tensors("output", **{scores: _SCORES}).replace(
        " dims", ' label_filename: "labels.txt" dims'
    )


_SWITCH = "int32_false_true: [ 0, 1 ]"
_START, _END = _control("START", "START", _SWITCH), _control("END", "END", _SWITCH)
_OLDEST = "oldest { max_candidate_sequences: 1024 }"
_PIXELS, _SCORES = ("TYPE_FP32", "3, 224, 224"), ("TYPE_FP32", "1000")

MODELS: dict[str, tuple[str, str]] = {
    "simple": (_SUMS, _sums("TYPE_INT32")),
    "simple_int8": (_SUMS, _sums("TYPE_INT8")),
    "simple_string": (_STRING_SUMS, _sums("TYPE_STRING")),
    "simple_identity": (
        _IDENTITY,
        _tensors("input", INPUT0=("TYPE_STRING", "-1")) + _tensors("output", OUTPUT0=("TYPE_STRING", "-1")),
    ),
    "identity_fp32": (
        _IDENTITY,
        "max_batch_size: 0\n" + _tensors("input", INPUT0=("TYPE_FP32", "-1")) + _tensors("output", OUTPUT0=("TYPE_FP32", "-1")),
    ),
    "simple_sequence": (_SEQUENCE, _sequence(_START)),
    "simple_dyna_sequence": (
        _DYNA_SEQUENCE,
        _sequence(_START, _END, _control("CORRID", "CORRID", "data_type: TYPE_UINT64"), strategy=_OLDEST),
    ),
    "simple_string_dyna_sequence": (
        _STRING_DYNA_SEQUENCE,
        _sequence(_START, _END, _control("CORRID", "CORRID", "data_type: TYPE_STRING"), strategy=_OLDEST),
    ),
    "repeat_int32": (
        _REPEAT,
        "model_transaction_policy { decoupled: true }\n"
        + _tensors("input", IN=("TYPE_INT32", "-1"), DELAY=("TYPE_UINT32", "-1"), WAIT=("TYPE_UINT32", "1"))
        + _tensors("output", OUT=("TYPE_INT32", "1"), IDX=("TYPE_UINT32", "1")),
    ),
    "classifier": (_CLASSIFIER, _classifier("pixels", "scores")),
    "densenet_onnx": (_DENSENET, "max_batch_size: 0\n" + _classifier("data_0", "fc6_1")),
    "decoder": (_DECODER, _tensors("input", image=("TYPE_STRING", "1")) + _tensors("output", pixels=_PIXELS)),
}  # fmt: skip
"""Source and config by name."""

_ENSEMBLE = f"""
name: "preprocess_inception_ensemble"
platform: "ensemble"
max_batch_size: 8
{_tensors("input", INPUT=("TYPE_STRING", "1"))}{_tensors("output", OUTPUT=_SCORES)}
ensemble_scheduling {{
  step [ {{ model_name: "decoder" model_version: -1 input_map {{ key: "image" value: "INPUT" }} output_map {{ key: "pixels" value: "pixels" }} }},
         {{ model_name: "classifier" model_version: -1 input_map {{ key: "pixels" value: "pixels" }} output_map {{ key: "scores" value: "OUTPUT" }} }} ]
}}
"""


def put(repository: pathlib.Path, *names: str) -> None:
    """Write models of the table, and the ensemble of those for images if both are among them, into a repository."""
    for name in names:
        source, config = MODELS[name]
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "1" / "model.py").write_text(_HEAD + source)
        (repository / name / "labels.txt").write_text("".join(f"class {n}\n" for n in range(1000)))
        batch = "" if "decoupled" in config or "max_batch_size" in config else "max_batch_size: 8\n"
        head = f'name: "{name}"\nbackend: "python"\n{batch}instance_group [ {{ count: 1 kind: KIND_CPU }} ]\n'
        (repository / name / "config.pbtxt").write_text(head + config)
    if {"classifier", "decoder"} <= set(names):
        ensemble = repository / "preprocess_inception_ensemble"
        (ensemble / "1").mkdir(parents=True)
        (ensemble / "config.pbtxt").write_text(_ENSEMBLE)
