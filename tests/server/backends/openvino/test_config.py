"""What is known of an OpenVINO model without OpenVINO: its file, what a config gets from it, and what is refused."""

import pathlib

import pytest

from naiad.backends.catalog import Catalog
from naiad.backends.model_files.wire_format import ModelFileError
from naiad.backends.openvino import intermediate
from naiad.backends.openvino.settings import Settings, settings_of
from naiad.config.resolving.resolve import Resolution, resolve
from naiad.core import datatypes
from naiad.errors import InferenceError

MODEL = """<?xml version="1.0"?>
<net name="m" version="11">
  <layers>
    <layer id="0" name="x" type="Parameter" version="opset1">
      <data shape="1,2" element_type="f32" />
      <output><port id="0" precision="FP32" names="x,also\\,x"><dim>1</dim><dim>2</dim></port></output>
    </layer>
    <layer id="1" name="loop" type="Loop" version="opset5">
      <body><layers><layer id="0" name="inner" type="Parameter"><output><port precision="I64"/></output></layer></layers></body>
      <output><port id="1" precision="FP32"><dim>9</dim></port></output>
    </layer>
    <layer id="2" name="Result_1" type="Result" version="opset1" output_names="y">
      <input><port id="0" precision="FP16"><dim>1</dim><dim>-1</dim></port></input>
    </layer>
  </layers>
</net>
"""


def write(
    folder: pathlib.Path, config: str = "", model: str = MODEL, *, weights: bool = True
) -> pathlib.Path:
    version = folder / "m" / "1"
    version.mkdir(parents=True)
    (version / "model.xml").write_text(model)
    if weights:
        (version / "model.bin").write_bytes(b"")
    if config:
        (folder / "m" / "config.pbtxt").write_text(config)
    return folder / "m"


def resolved(
    folder: pathlib.Path, config: str = "", model: str = MODEL, *, weights: bool = True
) -> Resolution:
    return resolve(write(folder, config, model, weights=weights), backends=Catalog())


def problems(resolution: Resolution) -> str:
    return "; ".join(f"{each.message} {each.suggestion}" for each in resolution.problems)


def test_parameters_and_results_are_the_tensors(tmp_path: pathlib.Path) -> None:
    found = intermediate.read(write(tmp_path) / "1" / "model.xml", prefer={"also,x"})
    (x,), (y,) = found.inputs, found.outputs
    assert (x.name, x.datatype, x.shape) == ("also,x", datatypes.FP32, (1, 2))
    assert (y.name, y.datatype, y.shape) == ("y", datatypes.FP16, (1, -1))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (MODEL[: len(MODEL) // 2], "is cut off, or is not a model of OpenVINO"),
        ("", "is cut off, or is not a model of OpenVINO"),
        ("<html/>", "its root is <html>, not <net>"),
        ('<!DOCTYPE net [<!ENTITY a "aaaa">]><net>&a;</net>', "it defines entities"),
        (MODEL.replace("<dim>-1</dim>", "<dim>many</dim>"), "is not a model of OpenVINO"),
    ],
)
def test_a_file_that_is_not_a_model_says_so(
    tmp_path: pathlib.Path, content: str, said: str
) -> None:
    with pytest.raises(ModelFileError, match=said):
        intermediate.read(write(tmp_path, model=content) / "1" / "model.xml")


def test_a_model_without_a_config_is_completed(tmp_path: pathlib.Path) -> None:
    config = resolved(tmp_path).config
    assert config is not None
    assert (config.backend, config.max_batch_size, config.dynamic_batching) == ("openvino", 0, None)
    assert [(each.name, each.datatype.name, each.dims) for each in config.inputs] == [
        ("x", "FP32", (1, 2))
    ]
    assert [(each.name, each.datatype.name, each.dims) for each in config.outputs] == [
        ("y", "FP16", (1, -1))
    ]


def test_a_fixed_first_dimension_may_be_batched_and_datatypes_are_converted(
    tmp_path: pathlib.Path,
) -> None:
    text = 'max_batch_size: 4 output { name: "y" data_type: TYPE_FP32 dims: -1 }'
    config = resolved(tmp_path, text).config
    assert config is not None
    assert [(each.name, each.dims) for each in config.inputs] == [("x", (2,))]
    assert config.dynamic_batching is not None


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            'backend: "openvino" input { name: "z" data_type: TYPE_FP32 dims: [ 1, 2 ] }',
            "unexpected inference input 'z', allowed inputs are: x",
        ),
        ('backend: "openvino" input { name: "x" data_type: TYPE_FP32 dims: [ 1, 3 ] }', "dims"),
        (
            'backend: "openvino" input { name: "x" data_type: TYPE_STRING dims: [ 1, 2 ] }',
            "unsupported datatype TYPE_STRING for input 'x'",
        ),
    ],
)
def test_contradictions_are_problems(tmp_path: pathlib.Path, config: str, said: str) -> None:
    assert said in problems(resolved(tmp_path, config))


def test_other_dims_are_those_of_the_config_with_reshape(tmp_path: pathlib.Path) -> None:
    text = """
        backend: "openvino" input { name: "x" data_type: TYPE_FP32 dims: [ 1, 3 ] }
        parameters { key: "RESHAPE_IO_LAYERS" value { string_value: "yes" } }
    """
    assert not resolved(tmp_path, text).problems


def test_missing_weights_are_named(tmp_path: pathlib.Path) -> None:
    assert "model.bin', which holds its weights: copy it there" in problems(
        resolved(tmp_path, weights=False)
    )


def test_instances_on_gpus_are_refused(tmp_path: pathlib.Path) -> None:
    model = write(tmp_path, 'backend: "openvino" instance_group { kind: KIND_GPU }')
    assert "KIND_GPU" in problems(resolve(model, backends=Catalog(), gpus=(0,)))


def test_parameters_become_settings() -> None:
    assert settings_of("m", {}) == Settings(properties={})
    assert settings_of(
        "m",
        {
            "INFERENCE_NUM_THREADS": "2",
            "COMPILATION_NUM_THREADS": "3",
            "HINT_BF16": "YES",
            "NUM_STREAMS": "auto",
            "PERFORMANCE_HINT": "latency",
            "TARGET_DEVICE": "AUTO",
            "CPU_EXTENSION_PATH": "/x.so",
            "SKIP_OV_DYNAMIC_BATCHSIZE": "yes",
            "ENABLE_BATCH_PADDING": "YES",
            "RESHAPE_IO_LAYERS": "Yes",
        },
    ) == Settings(
        properties={
            "INFERENCE_NUM_THREADS": "2",
            "COMPILATION_NUM_THREADS": "3",
            "INFERENCE_PRECISION_HINT": "bf16",
            "NUM_STREAMS": "AUTO",
            "PERFORMANCE_HINT": "LATENCY",
        },
        device="AUTO",
        extension="/x.so",
        fixed_batch=True,
        padding=True,
        reshapes=True,
    )


def test_the_numbers_in_which_it_computes_can_be_chosen() -> None:
    chosen = settings_of("m", {"INFERENCE_PRECISION_HINT": "F32", "HINT_BF16": "YES"})
    assert chosen.properties == {"INFERENCE_PRECISION_HINT": "f32"}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("INFERENCE_NUM_THREADS", "-1", "a non-negative number, got -1"),
        ("COMPILATION_NUM_THREADS", "x", "a non-negative number, got x"),
        ("HINT_BF16", "no", "YES, got no"),
        ("INFERENCE_PRECISION_HINT", "int8", "f32/f16/bf16, got int8"),
        ("NUM_STREAMS", "Many", "either AUTO/NUMA/<int_value>, got many"),
        ("PERFORMANCE_HINT", "fast", "LATENCY/THROUGHPUT/CUMULATIVE_THROUGHPUT, got fast"),
    ],
)
def test_other_values_are_refused(key: str, value: str, expected: str) -> None:
    with pytest.raises(InferenceError) as caught:
        settings_of("m", {key: value})
    assert f"expected the parameter '{key}' to be {expected}" in caught.value.message


WEIGHTED = MODEL.replace(
    "</layers>\n</net>",
    '<layer id="3" name="c" type="Const"><data element_type="f32" shape="2" offset="16" size="8"/></layer></layers></net>',
)


@pytest.mark.parametrize("size", [0, 23, 24])
def test_a_file_of_weights_has_every_byte_that_the_model_takes(
    tmp_path: pathlib.Path, size: int
) -> None:
    model = write(tmp_path, model=WEIGHTED)
    (model / "1" / "model.bin").write_bytes(bytes(size))
    said = problems(resolve(model, backends=Catalog()))
    expected = (
        f"model.bin' has {size} bytes, and 'model.xml' takes values from 24: copy both files again"
    )
    assert (expected in said) == (size < 24), said
