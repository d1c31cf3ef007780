"""What a config gets from its SavedModel, and what is refused of it without TensorFlow."""

import pathlib
import re

import pytest

from naiad.backends.catalog import Catalog
from naiad.backends.tensorflow import init_ops
from naiad.backends.tensorflow.preflight import preflight
from naiad.backends.tensorflow.settings import Settings, settings_of
from naiad.config.document import Document
from naiad.config.resolving.resolve import Resolution, resolve
from naiad.errors import InferenceError
from tests.server.backends.configs import model_config
from tests.server.backends.tensorflow.saved_models import (
    COMPLEX64,
    FLOAT,
    INT64,
    STRING,
    graph_def,
    saved_model,
    signature,
    tensor,
)

BATCHED = signature(
    {"x": tensor("x:0", FLOAT, [-1, 2]), "s": tensor("s:0", STRING, [-1])},
    {"y": tensor("y:0", INT64, [-1, 3])},
)
FIXED = signature({"x": tensor("x:0", FLOAT, [2])}, {"y": tensor("y:0", FLOAT, [2])})


def resolved(folder: pathlib.Path, config: str, definition: bytes = BATCHED) -> Resolution:
    model = folder / "m"
    saved_model(model / "1" / "model.savedmodel", {"serving_default": definition})
    if config:
        (model / "config.pbtxt").write_text(config)
    return resolve(model, backends=Catalog())


def problems(resolution: Resolution) -> str:
    return "; ".join(f"{each.message} {each.suggestion}" for each in resolution.problems)


def test_a_model_without_a_config_is_completed(tmp_path: pathlib.Path) -> None:
    config = resolved(tmp_path, "").config
    assert config is not None
    assert (config.backend, config.platform, config.max_batch_size) == (
        "tensorflow",
        "tensorflow_savedmodel",
        4,
    )
    assert [(each.name, each.dims, each.reshape) for each in config.inputs] == [
        ("s", (1,), ()),
        ("x", (2,), None),
    ]
    assert [(each.name, each.dims) for each in config.outputs] == [("y", (3,))]
    assert config.dynamic_batching is not None


def test_what_a_config_leaves_out_is_filled_in(tmp_path: pathlib.Path) -> None:
    config = resolved(tmp_path, 'max_batch_size: 16 input { name: "x" }').config
    assert config is not None
    assert [(each.name, each.datatype.name, each.dims) for each in config.inputs] == [
        ("x", "FP32", (2,)),
        ("s", "BYTES", (1,)),
    ]


def test_dims_with_the_batch_in_them_mean_no_batches(tmp_path: pathlib.Path) -> None:
    config = resolved(tmp_path, 'input { name: "x" data_type: TYPE_FP32 dims: [ -1, 2 ] }').config
    assert config is not None
    assert config.max_batch_size == 0
    assert [(each.name, each.dims) for each in config.inputs] == [("x", (-1, 2)), ("s", (-1,))]


@pytest.mark.parametrize(
    ("config", "definition", "said"),
    [
        (
            "max_batch_size: 4",
            FIXED,
            "configuration specified max-batch 4 but model signature does not support batching",
        ),
        (
            'input [ { name: "x" dims: [ 2 ] }, { name: "s" dims: [ -1 ] } ]',
            BATCHED,
            "model tensor configurations are contradicting each other",
        ),
        (
            'input { name: "nope" data_type: TYPE_FP32 dims: [ 2 ] }',
            BATCHED,
            "unexpected inference input 'nope', allowed inputs are: s, x",
        ),
        (
            'max_batch_size: 4 input { name: "x" data_type: TYPE_INT64 dims: [ 2 ] }',
            BATCHED,
            "configuration expects datatype TYPE_INT64 for input 'x', model provides TYPE_FP32",
        ),
        (
            "",
            signature(
                {"c": tensor("c:0", COMPLEX64, [-1, 1])}, {"y": tensor("y:0", FLOAT, [-1, 1])}
            ),
            "unable to process input 'c' for 'm', unsupported datatype 'DT_COMPLEX64'",
        ),
        (
            "",
            signature({"u": tensor("u:0", FLOAT, None)}, {"y": tensor("y:0", FLOAT, [-1, 1])}),
            "the rank of model tensor 'u' is 0 and dimensions are not defined",
        ),
        (
            'parameters { key: "TF_SIGNATURE_DEF" value { string_value: "other" } }',
            BATCHED,
            "expected 'other' signature",
        ),
        (
            'parameters { key: "TF_GRAPH_TAG" value { string_value: "train" } }',
            BATCHED,
            "expected 'train' tag",
        ),
    ],
)
def test_contradictions_are_problems(
    tmp_path: pathlib.Path, config: str, definition: bytes, said: str
) -> None:
    assert said in problems(resolved(tmp_path, config, definition))


def test_names_of_a_graph_def_are_compared(tmp_path: pathlib.Path) -> None:
    model = tmp_path / "m"
    graph_def(
        model / "1" / "model.graphdef", {"A": "Placeholder", "B": "Placeholder", "SUM": "AddV2"}
    )
    tensors = 'input { name: "A" data_type: TYPE_FP32 dims: 1 } output { name: "SUM:0" data_type: TYPE_FP32 dims: 1 }'
    (model / "config.pbtxt").write_text(tensors)
    assert not resolve(model, backends=Catalog()).problems
    (model / "config.pbtxt").write_text(tensors.replace('"A"', '"SUM"').replace("SUM:0", "TOTAL"))
    said = problems(resolve(model, backends=Catalog()))
    assert "unexpected inference input 'SUM', allowed inputs are: A, B" in said
    assert "unexpected inference output 'TOTAL', allowed outputs are: SUM" in said


def settings(**parameters: str) -> Settings:
    return settings_of(
        model_config(inputs=[], outputs=[], backend="tensorflow", parameters=parameters), {}
    )


def test_parameters_become_settings() -> None:
    assert settings() == Settings()
    assert settings(
        TF_NUM_INTRA_THREADS="2",
        TF_NUM_INTER_THREADS="3",
        TF_USE_PER_SESSION_THREADS="on",
        TF_GRAPH_TAG="t",
        TF_SIGNATURE_DEF="s",
        TF_INIT_OPS_FILE="i.json",
        MAX_SESSION_SHARE_COUNT="2",
    ) == Settings(
        intra_op_threads=2,
        inter_op_threads=3,
        own_threads=True,
        tag="t",
        signature="s",
        init_ops_file="i.json",
        sharing=2,
    )


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            "MAX_SESSION_SHARE_COUNT",
            "0",
            "parameter 'MAX_SESSION_SHARE_COUNT' must be positive number for TensorFlow model 'm'",
        ),
        (
            "TF_NUM_INTRA_THREADS",
            "-1",
            "parameter 'TF_NUM_INTRA_THREADS' must be non-negative number for TensorFlow model 'm'",
        ),
        (
            "TF_NUM_INTER_THREADS",
            "x",
            "failed to convert TF_NUM_INTER_THREADS 'x' to integral number",
        ),
        (
            "TF_USE_PER_SESSION_THREADS",
            "perhaps",
            "failed to convert TF_USE_PER_SESSION_THREADS 'perhaps' to boolean value",
        ),
    ],
)
def test_other_values_are_refused(key: str, value: str, said: str) -> None:
    with pytest.raises(InferenceError) as caught:
        settings(**{key: value})
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("level", "xla"),
    [
        ("", ""),
        ("graph { level: 0 }", ""),
        ("graph { level: -1 }", "OFF"),
        ("graph { level: 1 }", "ON_1"),
        ("graph { level: 2 }", "ON_2"),
    ],
)
def test_the_graph_level_is_that_of_xla(tmp_path: pathlib.Path, level: str, xla: str) -> None:
    config = resolved(tmp_path, f"optimization {{ {level} }}").config
    assert config is not None
    assert settings_of(config, {}).xla == xla


@pytest.mark.parametrize(
    ("accelerators", "said"),
    [
        (
            'gpu_execution_accelerator { name: "tensorrt" }',
            "TensorFlow has had no TensorRT since 2.18",
        ),
        (
            'gpu_execution_accelerator { name: "nope" }',
            "unknown Execution Accelerator 'nope' is requested",
        ),
        (
            'cpu_execution_accelerator { name: "openvino" }',
            "CPU Execution Accelerator is not supported in TensorFlow backend",
        ),
    ],
)
def test_accelerators_that_there_are_not_are_refused(
    tmp_path: pathlib.Path, accelerators: str, said: str
) -> None:
    model = tmp_path / "m"
    saved_model(model / "1" / "model.savedmodel", {"serving_default": BATCHED})
    text = f"instance_group {{ kind: KIND_GPU }} optimization {{ execution_accelerators {{ {accelerators} }} }}"
    (model / "config.pbtxt").write_text(text)
    config = resolve(model, backends=Catalog(), gpus=(0,)).config
    assert config is not None
    with pytest.raises(InferenceError, match=said):
        settings_of(config, {})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"unable to find 'ops.json' \(TF_INIT_OPS_FILE\) in .*/m/1 or .*/m"),
        ("[]", 'write {"init_ops": \\["init"\\]}'),
        ('{"init_ops": "init"}', "init_ops is not a list of names"),
        ('{"init_ops": ["init"]}', ""),
    ],
)
def test_the_check_reads_the_file_of_operations(
    tmp_path: pathlib.Path, content: str | None, said: str
) -> None:
    version = tmp_path / "m" / "1"
    version.mkdir(parents=True)
    if content is not None:
        (version.parent / "ops.json").write_text(content)
    if not said:
        assert init_ops.read(version, "ops.json", "m") == ["init"]
        return
    with pytest.raises(InferenceError, match=said):
        init_ops.read(version, "ops.json", "m")
    config = model_config(
        inputs=[], outputs=[], backend="tensorflow", parameters={"TF_INIT_OPS_FILE": "ops.json"}
    )
    document = Document(path=tmp_path, text="", message=config.message, positions={}, problems=())
    (problem,) = preflight(
        config, document=document, model_dir=version.parent, versions=[1], options={}, host=""
    )
    assert re.search(said, problem.message)
