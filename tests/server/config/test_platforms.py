"""Backend, platform and file name, from one another and from the files present (rows 11.3-11.6)."""

import pytest

from naiad.backends.catalog import Catalog
from naiad.config import platforms
from naiad.core.messages import model_config_pb2


def filled(given: dict[str, str], *, files: dict[str, bool] | None = None, name: str = "m") -> str:
    message = model_config_pb2.ModelConfig(name=name, **given)
    platforms.autofill(message, files or {}, Catalog())
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
    assert platforms.fits(platform, Catalog().find(backend)) is fits
