"""Model files by the GPU's compute capability (row 11.7), and plans: seen without a GPU and without a framework."""

import pathlib
import sys

import pytest

from naiad.backends.catalog import Catalog
from naiad.config.resolving.resolve import Resolution, resolve
from tests.server.config.model_folders import make_model
from tests.support.made_up_gpu import plans

IN = 'input { name: "X" data_type: TYPE_FP32 dims: [ 4 ] }\noutput { name: "Y" data_type: TYPE_FP32 dims: [ 4 ] }\nmax_batch_size: 8\n'
PLAN = plans.doubling()


def checked(tmp_path: pathlib.Path, config: str | None, **files: bytes) -> Resolution:
    named = {f"1/{name.replace('_', '.')}": content for name, content in files.items()}
    return resolve(make_model(tmp_path, config, files=named), backends=Catalog(), gpus=(0,))


def test_a_plan_needs_no_config_and_no_tensorrt(tmp_path: pathlib.Path) -> None:
    found = checked(tmp_path, None, model_plan=PLAN)
    assert found.problems == ()
    assert found.draft is not None
    assert (found.draft.platform, found.draft.backend) == ("tensorrt_plan", "tensorrt")
    (note,) = found.notes
    assert note.startswith("only tensorrt reads the model's file: a server loads the model")
    assert "tensorrt" not in sys.modules


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "it is empty"),
        (PLAN[:20], "it is cut off"),
        (
            b"\x08\x07\x12\x07pytorch",
            "it begins with b'\\x08\\x07\\x12\\x07' where a plan has b'ftrt'",
        ),
    ],
)
def test_a_file_that_is_not_a_plan_is_a_problem(
    tmp_path: pathlib.Path, content: bytes, fault: str
) -> None:
    (problem,) = checked(tmp_path, IN, model_plan=content).problems
    assert f"model.plan' is not a TensorRT plan: {fault}. Build it again" in problem.message


def test_each_gpu_may_have_a_file_of_its_own(tmp_path: pathlib.Path) -> None:
    config = (
        IN
        + 'backend: "tensorrt"\ncc_model_filenames [ { key: "8.6" value: "a.plan" }, { key: "9.0" value: "b.plan" } ]'
    )
    found = checked(tmp_path, config, a_plan=PLAN, b_plan=PLAN)
    assert (found.problems, found.warnings) == ((), ())


def test_files_of_gpus_that_are_not_there_or_not_plans_are_found(tmp_path: pathlib.Path) -> None:
    config = (
        IN
        + 'backend: "tensorrt"\ncc_model_filenames [ { key: "8.6" value: "a.plan" }, { key: "9.0" value: "b.plan" }, { key: "90" value: "b.plan" } ]'
    )
    found = checked(tmp_path, config, model_plan=PLAN, a_plan=b"text")
    (problem,) = found.problems
    assert "a.plan' is not a TensorRT plan" in problem.message
    assert [text.replace(str(tmp_path), "") for text in found.warnings] == [
        "cc_model_filenames: '/m/1/b.plan' is not there, so that no GPU of compute capability 9.0 can load version 1",
        "cc_model_filenames: '90' is not a compute capability such as 8.6, so that no GPU loads 'b.plan'",
    ]


def test_without_any_file_the_default_one_is_missing(tmp_path: pathlib.Path) -> None:
    config = IN + 'backend: "tensorrt"\ncc_model_filenames [ { key: "8.6" value: "a.plan" } ]'
    (problem,) = checked(tmp_path, config, notes_txt=b"").problems
    assert problem.message.startswith("unable to load model 'm': unable to find '")
    assert problem.message.endswith("model.plan'")
