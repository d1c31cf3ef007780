"""Every field of `optimization` that is written and has no effect is noted, with the reason, by backend and device (row 11.21)."""

import pathlib

import pytest

from naiad.backends.catalog import Catalog
from naiad.config.checks.optimization import FIELDS
from naiad.core.messages import model_config_pb2
from tests.server.config.model_folders import make_model, resolve

TENSORS = 'input { name: "X" data_type: TYPE_FP32 dims: 1 } output { name: "Y" data_type: TYPE_FP32 dims: 1 }'
GPU = "instance_group { kind: KIND_GPU }"
CPU = "instance_group { kind: KIND_CPU }"
MODEL = "instance_group { kind: KIND_MODEL }"
THREAD = 'parameters { key: "naiad.host" value { string_value: "thread" } }'
PROCESS = 'parameters { key: "naiad.host" value { string_value: "process" } }'
FILES = {"onnxruntime": "model.onnx", "pytorch": "model.pt", "tensorflow": "model.savedmodel/saved_model.pb", "tensorrt": "model.plan",
         "openvino": "model.xml", "python": "model.py"}  # fmt: skip

ALL = """priority: PRIORITY_MAX graph { level: 1 }
cuda { graphs: true graph_spec { batch_size: 1 } busy_wait_events: true output_copy_stream: true }
execution_accelerators { gpu_execution_accelerator { name: "cuda" } cpu_execution_accelerator { name: "openvino" } }
input_pinned_memory { enable: true } output_pinned_memory { enable: true } gather_kernel_buffer_threshold: 1 eager_batching: true"""
TENSORRT = """priority: PRIORITY_MAX cuda { graphs: true graph_spec { batch_size: 1 } busy_wait_events: true output_copy_stream: true }
output_pinned_memory { enable: false }"""
CUDA = ["cuda.graphs", "cuda.graph_spec", "cuda.busy_wait_events", "cuda.output_copy_stream"]
ACCELERATORS = ["execution_accelerators.gpu_execution_accelerator", "execution_accelerators.cpu_execution_accelerator"]  # fmt: skip
PINNED = ["input_pinned_memory", "output_pinned_memory"]
ALWAYS = ["gather_kernel_buffer_threshold", "eager_batching"]
ON_CPU = ["priority", *CUDA, ACCELERATORS[0], *PINNED, *ALWAYS]


def notes(
    folder: pathlib.Path, backend: str, optimization: str, more: str, *, host: str = ""
) -> dict[str, str]:
    """The reasons by field; the machine has GPU 0."""
    text = f'backend: "{backend}" {TENSORS} optimization {{ {optimization} }} {more}'
    model = make_model(folder, text, files={f"1/{FILES[backend]}": b""})
    options = {backend: {"host": host}} if host else {}
    found = resolve(model, gpus=(0,), auto_complete=False, backend_options=options).notes
    middle = " has no effect: "
    return {
        note.partition(middle)[0].removeprefix("optimization."): note.partition(middle)[2]
        for note in found
        if note.startswith("optimization.")
    }


def test_every_field_of_the_message_is_listed() -> None:
    def leaves(descriptor: object, prefix: str = "") -> list[str]:
        names: list[str] = []
        for field in descriptor.fields:  # type: ignore[attr-defined]
            if field.name in ("cuda", "graph", "execution_accelerators"):
                names += leaves(field.message_type, f"{prefix}{field.name}.")
            else:
                names.append(prefix + field.name)
        return names

    listed = leaves(model_config_pb2.ModelOptimizationPolicy.DESCRIPTOR)
    assert sorted(FIELDS) == sorted(listed)
    for backend in Catalog():
        assert set(backend.optimization_without_effect) <= set(listed), backend.name


@pytest.mark.parametrize(
    ("backend", "group", "fields"),
    [
        ("onnxruntime", GPU, ["priority", *CUDA[2:], ACCELERATORS[1], *PINNED, *ALWAYS]),
        ("onnxruntime", CPU, ON_CPU),
        ("onnxruntime", MODEL, [field for field in ON_CPU if field != ACCELERATORS[0]]),
        ("onnxruntime", "", ["priority", *CUDA[2:], ACCELERATORS[1], *PINNED, *ALWAYS]),
        ("onnxruntime", "instance_group [ { kind: KIND_CPU }, { kind: KIND_GPU } ]", ["priority", *CUDA[2:], *PINNED, *ALWAYS]),
        ("onnxruntime", "instance_group { gpus: 7 }", ON_CPU),
        ("pytorch", GPU, ["graph.level", *CUDA[2:], *ACCELERATORS, *ALWAYS]),
        ("pytorch", CPU, ["graph.level", "priority", *CUDA, *ACCELERATORS, *PINNED, *ALWAYS]),
        ("tensorflow", GPU, ["priority", *CUDA, ACCELERATORS[1], *PINNED, *ALWAYS]),
        ("tensorflow", CPU, ON_CPU),
        ("tensorrt", GPU, ["graph.level", *ACCELERATORS, *ALWAYS]),
        ("openvino", CPU, ["graph.level", "priority", *CUDA, *ACCELERATORS, *PINNED, *ALWAYS]),
        ("python", GPU, [*FIELDS]),
        ("python", CPU, [*FIELDS]),
    ],
)  # fmt: skip
def test_what_has_no_effect_by_backend_and_device(
    tmp_path: pathlib.Path, backend: str, group: str, fields: list[str]
) -> None:
    found = notes(tmp_path, backend, ALL, group)
    assert sorted(found) == sorted(fields)
    assert all(found.values())


NO_GPU = "no instance of the model is of KIND_GPU"


@pytest.mark.parametrize(
    ("backend", "optimization", "more", "reason"),
    [
        ("tensorflow", "cuda { graphs: true }", GPU, "captures no CUDA graphs"),
        ("onnxruntime", "cuda { graphs: true }", CPU, NO_GPU),
        ("onnxruntime", "input_pinned_memory { enable: false }", GPU, "chooses the memory"),
        ("onnxruntime", "input_pinned_memory { enable: true }", CPU, NO_GPU),
        ("onnxruntime", "priority: PRIORITY_MAX", GPU, "onnxruntime makes the streams"),
        ("onnxruntime", "priority: PRIORITY_MAX", CPU, "only streams of a GPU can have a higher priority"),
        ("onnxruntime", "priority: PRIORITY_MIN", CPU, "naiad.host = process"),
        ("pytorch", "priority: PRIORITY_MIN", GPU + THREAD, "naiad.host = process"),
        ("tensorrt", "cuda { graph_spec { batch_size: 1 } }", GPU, "without optimization.cuda.graphs"),
        ("tensorrt", "graph { level: 1 }", GPU, "a plan is optimised when it is built"),
    ],
)  # fmt: skip
def test_the_reason_fits_the_device(
    tmp_path: pathlib.Path, backend: str, optimization: str, more: str, reason: str
) -> None:
    (found,) = notes(tmp_path, backend, optimization, more).values()
    assert reason in found


@pytest.mark.parametrize(
    ("backend", "optimization", "more", "host"),
    [
        ("onnxruntime", "priority: PRIORITY_DEFAULT eager_batching: false cuda { graphs: false }", GPU, ""),
        ("onnxruntime", "graph { level: 1 }", CPU, ""),
        ("onnxruntime", "input_pinned_memory { enable: false }", CPU, ""),
        ("onnxruntime", "priority: PRIORITY_MIN", GPU, ""),
        ("onnxruntime", "priority: PRIORITY_MIN", CPU + PROCESS, ""),
        ("onnxruntime", "priority: PRIORITY_MIN", CPU, "process"),
        ("python", "priority: PRIORITY_MIN", CPU, ""),
        ("pytorch", "priority: PRIORITY_MAX input_pinned_memory { enable: false }", GPU, ""),
        ("tensorrt", TENSORRT, GPU, ""),
    ],
)  # fmt: skip
def test_what_has_an_effect_or_asks_for_nothing_is_not_noted(
    tmp_path: pathlib.Path, backend: str, optimization: str, more: str, host: str
) -> None:
    assert notes(tmp_path, backend, optimization, more, host=host) == {}


def test_defaults_that_are_filled_in_are_not_noted(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path, f'backend: "python" {TENSORS} {CPU}')
    assert resolve(folder, gpus=(0,)).notes == ()


def test_a_plan_without_a_gpu_is_refused_for_that_alone(tmp_path: pathlib.Path) -> None:
    text = f'backend: "tensorrt" {TENSORS} optimization {{ {TENSORRT} }}'
    folder = make_model(tmp_path, text, files={"1/model.plan": b""})
    assert resolve(folder, gpus=(), auto_complete=False).notes == ()


def test_an_accelerator_of_the_cpu_depends_on_the_machine_where_the_kind_is_left_open(
    tmp_path: pathlib.Path,
) -> None:
    asked = 'execution_accelerators { cpu_execution_accelerator { name: "openvino" } }'
    open_kind = notes(tmp_path / "a", "onnxruntime", asked, "")[ACCELERATORS[1]]
    assert open_kind.startswith("on a machine with a GPU every instance of the model is of KIND_GPU: write kind: KIND_CPU")  # fmt: skip
    chosen = notes(tmp_path / "b", "onnxruntime", asked, GPU)[ACCELERATORS[1]]
    assert chosen == "every instance of the model is of KIND_GPU"
    assert ACCELERATORS[1] not in notes(tmp_path / "c", "onnxruntime", asked, CPU)
