"""What is decided of a plan apart from TensorRT: profiles, CUDA graphs, shape tensors, completion, and whether a config fits."""

import pathlib
from typing import Any

import pytest
from google.protobuf import text_format

from naiad.backends import cuda_graph_specs
from naiad.backends.backend import ModelSource, instance_specs
from naiad.backends.cuda_graph_shapes import find
from naiad.backends.files_per_gpu import filename_for, for_device
from naiad.backends.tensorrt.engine import completion, io_check, plan_file, profiles
from naiad.backends.tensorrt.engine.description import EngineDescription, IoTensor, Profile, Range
from naiad.backends.tensorrt.engine.profiles import Shapes, UsedProfile
from naiad.backends.tensorrt.execution import graphs
from naiad.backends.tensorrt.execution.batch_inputs import shape_values
from naiad.backends.tensorrt.settings import Priority, backend_settings_of, dla_core_of, settings_of
from naiad.core.messages import model_config_pb2
from naiad.errors import ErrorCode, InferenceError
from tests.server.backends.tensorrt.models import config_of


def used(
    index: int, least: tuple[int, ...], best: tuple[int, ...], most: tuple[int, ...]
) -> UsedProfile:
    return UsedProfile(
        name=str(index), index=index, shapes={"X": Range(least, best, most)}, values={}
    )


SMALL = used(0, (1, 4), (2, 4), (4, 64))
LARGE = used(1, (1, 4), (16, 64), (32, 128))


@pytest.mark.parametrize(
    ("shape", "index"),
    [((1, 4), 0), ((4, 8), 0), ((5, 4), 1), ((3, 60), 1), ((4, 100), 1), ((99, 4), 0)],
)
def test_a_batch_runs_in_the_profile_whose_best_shapes_are_the_nearest(
    shape: tuple[int, ...], index: int
) -> None:
    assert profiles.choose([SMALL, LARGE], Shapes({"X": shape})).index == index


def test_a_batch_that_fits_no_profile_is_refused_in_tritons_words() -> None:
    with pytest.raises(InferenceError) as refused:
        profiles.check(SMALL, Shapes({"X": (99, 4)}), instance="m_0")
    assert refused.value.code is ErrorCode.INTERNAL
    assert refused.value.message == (
        "request specifies invalid shape for input 'X' for m_0. Error details: model expected the shape of dimension 0 to be between 1 and 4 but "
        "received 99"
    )


@pytest.mark.parametrize(
    ("names", "found"),
    [((), [("default", 0)]), (("1",), [("1", 1)]), (("2", "0", "2x"), [("0", 0), ("2", 2)])],
)
def test_the_profiles_of_an_instance(names: tuple[str, ...], found: list[tuple[str, int]]) -> None:
    assert profiles.used(names, 3, instance="m_0") == found


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ("3",),
            "Can not set the specified optimization profile 3[3] for m_0. Expected optimization profile index range 0-2",
        ),
        (("-1",), "Can not set the specified optimization profile -1[-1]"),
        (("large",), "unable to parse 'large': stoi"),
        (("",), "profile name must not be empty"),
    ],
)
def test_a_profile_that_is_not_there_is_refused(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(InferenceError) as refused:
        profiles.used(names, 3, instance="m_0")
    assert refused.value.message.startswith(message)


def test_the_configs_dims_make_the_memory_of_an_input_smaller() -> None:
    allowed = Range((1, 1), (4, 8), (32, 128))
    found = profiles.narrowed((-1, 16), allowed, rows=8, name="X", model="m")
    assert found.most == (8, 16)
    with pytest.raises(
        InferenceError,
        match="model configuration specified invalid shape for input 'X' for model m",
    ):
        profiles.narrowed((-1, 200), allowed, rows=8, name="X", model="m")


@pytest.mark.parametrize("sent", [(4, 6), (1, 4, 6), (2, 4, 6)])
def test_a_shape_tensor_begins_with_the_rows_of_the_batch(sent: tuple[int, ...]) -> None:
    assert shape_values(sent, (3,), rows=4) == (4, 4, 6)
    assert shape_values((4, 6), (2,), rows=None) == (4, 6)


def message_of(text: str) -> Any:
    return text_format.Parse(text, model_config_pb2.ModelConfig(name="m"))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("max_batch_size: 8", [1, 2, 3, 4, 6, 8]),
        ("max_batch_size: 32", [1, 2, 3, 4, 6, 8, 12, 16, 32]),
        ("max_batch_size: 32 dynamic_batching { preferred_batch_size: [ 4, 20 ] }", [1, 4, 20, 32]),
        ("max_batch_size: 0", [0]),
    ],
)
def test_graphs_without_a_specification(text: str, rows: list[int]) -> None:
    plan = cuda_graph_specs.plan_graphs(message_of(text))
    assert [spec.rows for spec in plan.specs] == rows
    assert not plan.inexact


BOUNDED = """max_batch_size: 8 optimization { cuda { graphs: true
graph_spec { batch_size: 4 input { key: "X" value { dim: 16 } } graph_lower_bound { batch_size: 3 input { key: "X" value { dim: 16 } } } }
graph_spec { batch_size: 8 input { key: "X" value { dim: 16 } } graph_lower_bound { batch_size: 2 input { key: "X" value { dim: 16 } } } } } }"""


@pytest.mark.parametrize(
    ("batch", "index"),
    [
        ((4, 16), 0),
        ((3, 16), 0),
        ((2, 16), 1),
        ((5, 16), 1),
        ((8, 16), 1),
        ((1, 16), -1),
        ((4, 15), -1),
    ],
)
def test_a_batch_runs_in_the_graph_of_its_shapes_or_one_of_the_fewest_more_rows(
    batch: tuple[int, ...], index: int
) -> None:
    engine = EngineDescription(
        (IoTensor(name="X", is_input=True, type_name="FLOAT", shape=(-1, -1)),), ()
    )
    plan = cuda_graph_specs.plan_graphs(message_of(BOUNDED))
    profile = used(0, (1, 1), (4, 16), (8, 32))
    shapes = [graphs.shapes_of(spec, engine, profile) for spec in plan.specs]
    assert find(shapes, {"X": batch}, inexact=plan.inexact) == index
    exact = [(4, 16), (8, 16)]
    assert find(shapes, {"X": batch}, inexact=False) == (
        exact.index(batch) if batch in exact else -1
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("batch_size: 9", "graph spec expects 'batch_size' to be >= 1 and <= 8"),
        ("batch_size: 0", "graph spec expects 'batch_size' to be >= 1 and <= 8"),
        (
            "batch_size: 2 graph_lower_bound { batch_size: 3 }",
            "graph lower bound spec expects 'batch_size' to be <= graph spec 'batch_size'",
        ),
        (
            'batch_size: 2 input { key: "X" value { dim: 4 } } graph_lower_bound { batch_size: 1 }',
            "graph lower bound spec expects shape for input 'X'",
        ),
        (
            'batch_size: 2 input { key: "X" value { dim: -1 } }',
            "graph spec expects input 'X' to have dimension >= 0",
        ),
    ],
)
def test_a_graph_that_no_batch_could_have_is_refused(spec: str, message: str) -> None:
    with pytest.raises(InferenceError) as refused:
        cuda_graph_specs.plan_graphs(
            message_of(f"max_batch_size: 8 optimization {{ cuda {{ graph_spec {{ {spec} }} }} }}")
        )
    assert refused.value.message.startswith(message)


def engine_of(*tensors: IoTensor, most: int = 8) -> EngineDescription:
    shapes = {
        each.name: Range((1, *each.shape[1:]), (1, *each.shape[1:]), (most, *each.shape[1:]))
        for each in tensors
        if each.is_input
    }
    return EngineDescription(tensors, (Profile(shapes),))


X = IoTensor(name="X", is_input=True, type_name="FLOAT", shape=(-1, 4))
Y = IoTensor(name="Y", is_input=False, type_name="HALF", shape=(-1,))


@pytest.mark.parametrize(
    ("text", "max_batch_size", "dims", "batcher"),
    [
        ("", 8, [4], "dynamic_batching"),
        ("max_batch_size: 3", 3, [4], "dynamic_batching"),
        ('input { name: "X" dims: [ -1, 4 ] }', 0, [-1, 4], None),
        ('input { name: "X" dims: 4 }', 8, [4], "dynamic_batching"),
        ("sequence_batching { }", 8, [4], "sequence_batching"),
    ],
)
def test_a_config_is_completed(
    text: str, max_batch_size: int, dims: list[int], batcher: str | None
) -> None:
    message = message_of(text)
    completion.complete(message, engine_of(X, Y))
    assert message.max_batch_size == max_batch_size
    assert (list(message.input[0].dims), message.input[0].data_type) == (
        dims,
        model_config_pb2.TYPE_FP32,
    )
    assert message.WhichOneof("scheduling_choice") == batcher
    (output,) = message.output
    if max_batch_size:
        assert (list(output.dims), output.HasField("reshape"), output.data_type) == (
            [1],
            True,
            model_config_pb2.TYPE_FP16,
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "max_batch_size: 9",
            "autofill failed for model 'm': configuration specified max-batch 9 but TensorRT engine only supports max-batch 8",
        ),
        ('input { name: "Z" }', "unexpected inference input 'Z', allowed inputs are: X"),
        (
            'instance_group { profile: "4" }',
            "unable to autofill for 'm', configuration specified invalid profile 4 .",
        ),
        (
            'input { name: "X" is_shape_tensor: true }',
            "'X' is incorrectly specified as a shape tensor.",
        ),
        (
            'input { name: "X" dims: 4 } output { name: "Y" dims: -1 }',
            "unable to autofill for 'm', model tensor configurations are contradicting",
        ),
    ],
)
def test_a_config_that_contradicts_the_plan_is_not_completed(text: str, message: str) -> None:
    with pytest.raises(InferenceError) as refused:
        completion.complete(message_of(text), engine_of(X, Y))
    assert refused.value.message.startswith(message)


CONFIG = """max_batch_size: 8 input { name: "X" data_type: TYPE_FP32 dims: 4 }
output { name: "Y" data_type: TYPE_FP16 dims: 1 reshape { } }"""


@pytest.mark.parametrize(
    ("change", "tensors", "message"),
    [
        (("", ""), (X, Y), ""),
        (('"X"', '"Z"'), (X, Y), "unexpected inference input 'Z', allowed inputs are: X"),
        (
            ("TYPE_FP32", "TYPE_INT32"),
            (X, Y),
            "unexpected datatype TYPE_FP32 for inference input 'X', expecting TYPE_INT32 for m",
        ),
        (
            ("TYPE_FP32", "TYPE_FP64"),
            (X, Y),
            "unsupported datatype TYPE_FP64 for input 'X' for model 'm'",
        ),
        (
            ("dims: 4", "dims: 5"),
            (X, Y),
            "model 'm', tensor 'X': the model expects 2 dimensions (shape [-1,4]) but the model configuration specifies 2",
        ),
        (
            ("dims: 4", "dims: 4 is_shape_tensor: true"),
            (X, Y),
            "input 'X' for model 'm' is incorrectly marked as a shape tensor",
        ),
        (
            ("", ""),
            (IoTensor(name="X", is_input=True, type_name="FLOAT", shape=(-1, 4), layout="CHW4"), Y),
            "input 'X' of model 'm' has the layout CHW4, which is not supported yet",
        ),
        (
            ("", ""),
            (X, IoTensor(name="W", is_input=True, type_name="FLOAT", shape=(-1, 4)), Y),
            "unable to load model 'm', the plan needs the input 'W'",
        ),
    ],
)
def test_a_config_is_held_against_the_plan(
    change: tuple[str, str], tensors: tuple[IoTensor, ...], message: str
) -> None:
    config = config_of(CONFIG.replace(*change) if change[0] else CONFIG)
    if not message:
        io_check.check(config, engine_of(*tensors))
        return
    with pytest.raises(InferenceError) as refused:
        io_check.check(config, engine_of(*tensors))
    assert refused.value.message.startswith(message)


def test_a_plan_says_which_release_built_it() -> None:
    head = b"ftrt" + bytes(20) + bytes((10, 13, 0, 35))
    assert plan_file.version_of(head) == (10, 13, 0, 35)
    assert plan_file.version_of(b"ptrt" + bytes(24)) is None
    assert plan_file.other_release((10, 13, 0, 35), "10.13.3.9") == ""
    assert "pip install 'tensorrt==10.13.0.35'" in plan_file.other_release(
        (10, 13, 0, 35), "11.4.0.106"
    )
    for broken, why in ((b"", "empty"), (b"\x08\x07\x12", "begins with"), (head[:20], "cut off")):
        with pytest.raises(ValueError, match=why):
            plan_file.version_of(broken)


def test_settings() -> None:
    message = message_of(
        "optimization { priority: PRIORITY_MAX cuda { graphs: true busy_wait_events: true output_copy_stream: true } input_pinned_memory { enable: false } }"
    )
    found = settings_of(
        "m", message, {"execution_context_allocation_strategy": "ON_PROFILE_CHANGE"}
    )
    assert (found.priority, found.graphs, found.busy_wait, found.output_stream) == (
        Priority.FIRST,
        True,
        True,
        True,
    )
    assert (found.pinned_inputs, found.pinned_outputs, found.allocation) == (
        False,
        True,
        "ON_PROFILE_CHANGE",
    )
    for text, priority in (("PRIORITY_MIN", Priority.LAST), ("PRIORITY_DEFAULT", Priority.DEFAULT)):
        other = message_of(f"optimization {{ priority: {text} }}")
        assert settings_of("m", other, {}).priority is priority
    with pytest.raises(
        InferenceError, match="Supported values are 'STATIC' and 'ON_PROFILE_CHANGE'"
    ):
        settings_of("m", message, {"execution_context_allocation_strategy": "static"})
    with pytest.raises(InferenceError, match="one engine on several GPUs is not supported"):
        settings_of("m", message, {"enable_multi_device": "true"})
    backend = backend_settings_of({"version-compatible": "TRUE", "plugins": "/a.so;/b.so"})
    assert (backend.version_compatible, backend.plugins) == (True, ("/a.so", "/b.so"))
    text = (
        CONFIG
        + "instance_group { kind: KIND_GPU gpus: 0 count: 1 secondary_devices { kind: KIND_NVDLA device_id: 1 } }"
    )
    assert [dla_core_of(spec) for spec in instance_specs(config_of(text))] == [1]


def test_a_gpu_loads_the_file_of_its_compute_capability(tmp_path: pathlib.Path) -> None:
    config = config_of(CONFIG + ' cc_model_filenames { key: "9.0" value: "hopper.plan" }')
    source = ModelSource(config=config, version=1, model_dir=tmp_path, options={})
    chosen = for_device(source, 0, lambda device: (9, 0)).config
    assert chosen.default_model_filename == chosen.message.default_model_filename == "hopper.plan"
    assert config.default_model_filename == "model.plan"
    assert filename_for(config.message, (8, 6)) == "model.plan"
