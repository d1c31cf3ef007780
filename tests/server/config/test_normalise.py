"""Backend, platform and file name, from one another and from the files present (rows 11.3-11.6); and defaults.

Defaults are held against what the real server prints (rows 11.8, 11.21, 11.22, 11.31-11.33).
"""

import pytest
from google.protobuf import text_format

from naiad.backends.catalog import Catalog
from naiad.config.checks import validate
from naiad.config.config_json import to_json
from naiad.config.resolving.normalise import autofill, normalise, normalise_instance_groups
from naiad.core.messages import model_config_pb2


def filled(given: dict[str, str], *, files: dict[str, bool] | None = None, name: str = "m") -> str:
    message = model_config_pb2.ModelConfig(name=name, **given)
    autofill(message, files or {}, Catalog())
    return f"{message.backend}|{message.platform}|{message.default_model_filename}"


@pytest.mark.parametrize(
    ("lies_there", "expected"),
    [
        ({"model.onnx": False}, "onnxruntime|onnxruntime_onnx|model.onnx"),
        ({"model.onnx": True}, "onnxruntime|onnxruntime_onnx|model.onnx"),
        ({"model.py": False}, "python||model.py"),
        ({"model.plan": False}, "tensorrt|tensorrt_plan|model.plan"),
        ({"model.pt": False}, "pytorch|pytorch_libtorch|model.pt"),
        ({"model.pt2": False}, "pytorch|torch_aoti|model.pt2"),
        ({"model.xml": False, "model.bin": False}, "openvino||model.xml"),
        (
            {"model.netdef": False, "init_model.netdef": False},
            "caffe2|caffe2_netdef|model.netdef",
        ),
        ({"model.savedmodel": True}, "tensorflow|tensorflow_savedmodel|model.savedmodel"),
        ({"model.savedmodel": False}, "||"),
        ({"model.graphdef": False}, "tensorflow|tensorflow_graphdef|model.graphdef"),
        ({"model.onnx": False, "model.py": False}, "onnxruntime|onnxruntime_onnx|model.onnx"),
        ({"resnet.onnx": False}, "||"),
        ({}, "||"),
    ],
)
def test_a_file_in_the_version_folder_says_the_backend(
    lies_there: dict[str, bool], expected: str
) -> None:
    assert filled({}, files=lies_there) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"platform": "onnxruntime_onnx"}, "onnxruntime|onnxruntime_onnx|model.onnx"),
        ({"backend": "onnxruntime"}, "onnxruntime|onnxruntime_onnx|model.onnx"),
        (
            {"backend": "onnxruntime", "default_model_filename": "a.onnx"},
            "onnxruntime|onnxruntime_onnx|a.onnx",
        ),
        ({"default_model_filename": "model.onnx"}, "onnxruntime|onnxruntime_onnx|model.onnx"),
        ({"default_model_filename": "model.py"}, "python||model.py"),
        ({"backend": "python"}, "python||model.py"),
        ({"backend": "python", "platform": "foo"}, "python|foo|model.py"),
        ({"platform": "libtorch"}, "pytorch|libtorch|model.pt"),
        ({"platform": "torch_aoti"}, "pytorch|torch_aoti|model.pt2"),
        (
            {"backend": "tensorrt", "platform": "onnxruntime_onnx"},
            "tensorrt|onnxruntime_onnx|model.plan",
        ),
        ({"backend": "mine"}, "mine||"),
        ({"platform": "ensemble"}, "|ensemble|"),
        ({"default_model_filename": "foo.py"}, "|" + "|foo.py"),
    ],
)
def test_what_the_config_says_goes_before_any_file(given: dict[str, str], expected: str) -> None:
    assert filled(given, files={"model.savedmodel": True}) == expected


def test_a_name_with_a_dot_says_the_backend_when_nothing_else_does() -> None:
    assert filled({}, name="a.identity") == "identity||model.identity"
    assert filled({}, name="a.identity", files={"model.py": False}) == "python||model.py"
    assert filled({"platform": "x"}, name="a.identity") == "|x|"


@pytest.mark.parametrize(
    ("platform", "backend", "fits"),
    [
        ("onnxruntime_onnx", "onnxruntime", True),
        ("tensorrt_plan", "onnxruntime", False),
        ("torch_aoti", "pytorch", True),
        ("anything", "python", True),
        ("anything", "of_mine", True),
    ],
)
def test_a_platform_fits_its_own_backend(platform: str, backend: str, *, fits: bool) -> None:
    assert validate.fits(platform, Catalog().find(backend)) is fits


def groups(config: str, *, gpus: tuple[int, ...] = ()) -> list[tuple[str, str, int, list[int]]]:
    message = text_format.Parse(f'name: "m" {config}', model_config_pb2.ModelConfig())
    normalise_instance_groups(message, gpus, Catalog().find(message.backend))
    once = to_json(message)
    normalise_instance_groups(message, gpus, Catalog().find(message.backend))
    assert to_json(message) == once
    return [(g["name"], g["kind"], g["count"], g["gpus"]) for g in once["instance_group"]]


@pytest.mark.parametrize(
    ("config", "gpus", "expected"),
    [
        ('backend: "python"', (), [("m", "KIND_CPU", 1, [])]),
        ('backend: "onnxruntime"', (), [("m", "KIND_CPU", 2, [])]),
        ('backend: "tensorflow"', (), [("m", "KIND_CPU", 2, [])]),
        ('backend: "onnxruntime"', (0, 1), [("m", "KIND_GPU", 1, [0, 1])]),
        ('backend: "onnxruntime" instance_group {}', (), [("m_0", "KIND_CPU", 2, [])]),
        ('backend: "onnxruntime" instance_group { count: 3 }', (), [("m_0", "KIND_CPU", 3, [])]),
        ('backend: "onnxruntime" instance_group { count: -3 }', (), [("m_0", "KIND_CPU", 2, [])]),
        (
            'backend: "onnxruntime" instance_group { kind: KIND_CPU }',
            (0,),
            [("m_0", "KIND_CPU", 2, [])],
        ),
        (
            'backend: "onnxruntime" instance_group { kind: KIND_MODEL }',
            (0,),
            [("m_0", "KIND_MODEL", 1, [])],
        ),
        ('backend: "x" instance_group { gpus: [1] }', (0, 1), [("m_0", "KIND_GPU", 1, [1])]),
        ('backend: "x" instance_group { gpus: [0, 5] }', (0, 1), [("m_0", "KIND_CPU", 1, [0, 5])]),
        (
            'backend: "x" instance_group { kind: KIND_GPU gpus: [5] }',
            (0, 1),
            [("m_0", "KIND_GPU", 1, [5])],
        ),
        (
            'backend: "x" instance_group { name: "a" } instance_group {} instance_group { count: 2 }',
            (),
            [("a", "KIND_CPU", 1, []), ("m_1", "KIND_CPU", 1, []), ("m_2", "KIND_CPU", 2, [])],
        ),
    ],
)
def test_instance_groups_get_name_kind_count_and_gpus(
    config: str, gpus: tuple[int, ...], expected: list[tuple[str, str, int, list[int]]]
) -> None:
    assert groups(config, gpus=gpus) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("", "version_policy { latest { num_versions: 1 } }"),
        ("version_policy { all {} }", "version_policy { all {} }"),
        (
            "max_batch_size: 8 dynamic_batching {}",
            (
                "max_batch_size: 8 version_policy { latest { num_versions: 1 } } "
                "dynamic_batching { preferred_batch_size: 8 }"
            ),
        ),
        (
            "dynamic_batching {}",
            "version_policy { latest { num_versions: 1 } } dynamic_batching {}",
        ),
        (
            "max_batch_size: 8 dynamic_batching { preferred_batch_size: [2, 4] }",
            (
                "max_batch_size: 8 version_policy { latest { num_versions: 1 } } "
                "dynamic_batching { preferred_batch_size: [2, 4] }"
            ),
        ),
    ],
)
def test_version_policy_and_batcher_get_their_defaults(config: str, expected: str) -> None:
    message = text_format.Parse(config, model_config_pb2.ModelConfig())
    normalise(message)
    optimization = message.optimization
    assert optimization.input_pinned_memory.enable
    assert optimization.output_pinned_memory.enable
    message.ClearField("optimization")
    assert message == text_format.Parse(expected, model_config_pb2.ModelConfig())


def test_pinned_memory_that_is_switched_off_stays_off() -> None:
    message = text_format.Parse(
        "optimization { input_pinned_memory { enable: false } }", model_config_pb2.ModelConfig()
    )
    normalise(message)
    assert not message.optimization.input_pinned_memory.enable
    assert message.optimization.output_pinned_memory.enable
