"""Serialised pipelines, read without DALI: what they say, and which are never run."""

import pathlib

import pytest
from hypothesis import given, strategies as st

from naiad.backends.dali.serialized import PipelineTensor, of_bytes, read
from naiad.backends.model_files.wire_format import MalformedError, ModelFileError
from tests.server.backends.dali import pipeline_bytes as made


def test_inputs_outputs_and_the_batch_size_are_read() -> None:
    found = of_bytes(made.IMAGES)
    assert found.batch_size == 8
    assert found.inputs == (PipelineTensor(name="JPEG", data_type="TYPE_UINT8", ndim=1),)
    assert found.outputs == (PipelineTensor(name="__Image_0", data_type="TYPE_UINT8", ndim=3),)
    assert [each.label for each in found.operators] == [
        "ExternalSource",
        "nvidia.dali.fn.decoders.image",
    ]
    assert (found.refusal(), found.needing_gpu()) == ("", "")


def test_what_a_pipeline_does_not_say_is_open() -> None:
    found = of_bytes(made.pipeline(made.external_source("X"), made.tensor(7, "Y")))
    assert found.inputs == (PipelineTensor(name="X"),)
    assert found.outputs == (PipelineTensor(name="Y"),)


@pytest.mark.parametrize(
    "schema",
    [
        "PythonFunction",
        "PythonFunctionImpl",
        "DLTensorPythonFunctionImpl",
        "TorchPythonFunction",
        "NumbaFuncImpl",
        "JaxFunction",
    ],
)
def test_operators_that_call_python_are_never_run(schema: str) -> None:
    data = made.pipeline(made.external_source("X"), made.operator(schema, "f"), made.tensor(7, "f"))
    assert f"its operator {schema} calls a Python function" in of_bytes(data).refusal()


def test_a_second_name_of_an_operator_hides_none() -> None:
    inner = made.text(1, "PythonFunctionImpl") + made.text(1, "Copy")
    data = made.pipeline(made.external_source("X"), made.text(5, inner), made.tensor(7, "f"))
    assert "calls a Python function" in of_bytes(data).refusal()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            made.pipeline(made.operator("experimental__inputs__Video", "V"), made.tensor(7, "V")),
            "splits one video into many responses",
        ),
        (
            made.pipeline(made.operator("readers__File", "R"), made.tensor(7, "R")),
            "it has no external_source",
        ),
        (made.pipeline(made.external_source("X")), "it returns nothing"),
    ],
    ids=["video", "no input", "no output"],
)
def test_pipelines_that_cannot_answer_requests_say_why(data: bytes, said: str) -> None:
    assert said in of_bytes(data).refusal()


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            (made.operator("decoders__Image", "I", device="mixed"), made.tensor(7, "I")),
            "operator decoders__Image (device 'mixed')",
        ),
        ((made.tensor(7, "X", device="gpu"),), "output 'X'"),
    ],
    ids=["operator", "output"],
)
def test_what_needs_a_gpu_is_named(parts: tuple[bytes, ...], said: str) -> None:
    assert of_bytes(made.pipeline(made.external_source("X"), *parts)).needing_gpu() == said


def _refusal(data: bytes) -> str:
    """Why these bytes are not served: they are malformed, or lack something."""
    try:
        return of_bytes(data).refusal()
    except MalformedError as error:
        return str(error)


@pytest.mark.parametrize(
    "data",
    [
        made.pipeline(made.external_source("X"), made.tensor(7, "X"), batch_size=1 << 40),
        made.pipeline(made.external_source("X", ndim=1 << 40), made.tensor(7, "X")),
        made.pipeline(made.external_source("X"), made.tensor(7, "X", ndim=1 << 40)),
    ],
    ids=["samples", "dimensions of an input", "dimensions of an output"],
)
def test_numbers_that_no_config_could_hold_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedError, match="a number in it is too large"):
        of_bytes(data)


@pytest.mark.parametrize("size", range(1, len(made.IMAGES) - 11, 7))
def test_a_pipeline_that_is_cut_off_before_its_last_field_is_refused(size: int) -> None:
    assert _refusal(made.IMAGES[:size])


@given(
    start=st.integers(0, len(made.IMAGES)),
    end=st.integers(0, len(made.IMAGES)),
    noise=st.binary(max_size=60),
)
def test_whatever_the_bytes_are_they_are_a_pipeline_or_malformed(
    start: int, end: int, noise: bytes
) -> None:
    assert isinstance(_refusal(made.IMAGES[:start] + noise + made.IMAGES[end:]), str)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"import nvidia.dali", "is not a serialised DALI pipeline"),
        (b"\xff" * 64, "is not a serialised DALI pipeline"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    ],
    ids=["empty", "text", "noise", "pointer"],
)
def test_a_file_of_another_format_says_so(
    tmp_path: pathlib.Path, content: bytes, said: str
) -> None:
    (tmp_path / "model.dali").write_bytes(content)
    with pytest.raises(ModelFileError, match=said):
        read(tmp_path / "model.dali")
