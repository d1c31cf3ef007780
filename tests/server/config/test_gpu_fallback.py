"""`--gpu-fallback=cpu`: configs for GPUs, in the shapes of real ones, on a machine without any."""

import pathlib

import pytest

from naiad.backends.catalog import Catalog
from naiad.config.checks.features import ServerFeatures
from naiad.config.model_config import InstanceKind
from naiad.config.resolving.resolve import Resolution, resolve as resolve_config
from tests.server.config.model_folders import make_model

IN = 'input { name: "x" data_type: TYPE_FP32 dims: [ 2 ] }\noutput { name: "y" data_type: TYPE_FP32 dims: [ 2 ] }\n'
PYTHON = f'backend: "python"\nmax_batch_size: 8\n{IN}'
ONNX = f'platform: "onnxruntime_onnx"\nmax_batch_size: 8\n{IN}'
TENSORRT = """optimization { cuda { graphs: true } execution_accelerators {
  gpu_execution_accelerator : [ { name : "tensorrt" parameters { key: "precision_mode" value: "FP16" } } ] } }
"""


def resolve(
    folder: pathlib.Path, *, gpus: tuple[int, ...] = (), fallback: bool = True
) -> Resolution:
    return resolve_config(
        folder,
        backends=Catalog(),
        gpus=gpus,
        features=ServerFeatures(gpu_fallback=fallback),
        auto_complete=False,
    )


@pytest.mark.parametrize(
    ("groups", "counts"),
    [
        ("instance_group [ { kind: KIND_GPU } ]", [1]),
        ("instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] } ]", [2]),
        ("instance_group [ { count: 1 gpus: [ 0 ] } ]", [1]),
        ("instance_group [ { kind: KIND_GPU }, { count: 3 kind: KIND_CPU } ]", [1, 3]),
    ],
)
def test_groups_run_on_the_cpu_with_one_warning(
    tmp_path: pathlib.Path, groups: str, counts: list[int]
) -> None:
    found = resolve(make_model(tmp_path, PYTHON + groups))
    assert found.problems == ()
    assert found.config is not None
    assert [(group.kind, group.gpus) for group in found.config.instance_groups] == [
        (InstanceKind.CPU, ())
    ] * len(counts)
    assert len(found.warnings) == 1
    assert found.remark == found.warnings[0]
    assert found.remark == (
        "no GPU is available: what asks for one (m_0: KIND_GPU) runs on the CPU (--gpu-fallback=cpu)"
    )


def test_settings_of_gpus_are_taken_out_and_named(tmp_path: pathlib.Path) -> None:
    text = PYTHON + (
        "instance_group [ { kind: KIND_GPU } ]\n"
        + TENSORRT
        + 'parameters { key: "gpu_mem_limit" value { string_value: "1000" } }\n'
        'parameters { key: "mine" value { string_value: "gpu" } }\n'
    )
    found = resolve(make_model(tmp_path, text))
    assert found.config is not None
    assert found.config.optimization.gpu_accelerators == ()
    assert dict(found.config.parameters) == {"mine": "gpu"}
    assert found.remark.endswith(
        "runs on the CPU, without the accelerator tensorrt, optimization.cuda, the parameter gpu_mem_limit (--gpu-fallback=cpu)"
    )


def test_the_default_refuses_and_names_the_option(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path, PYTHON + "instance_group { kind: KIND_GPU }")
    (problem,) = resolve(folder, fallback=False).problems
    assert "has kind KIND_GPU but no GPUs are available" in problem.message
    assert "--gpu-fallback=cpu" in problem.suggestion


def test_nothing_changes_where_there_is_a_gpu(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path, PYTHON + "instance_group { kind: KIND_GPU }\n" + TENSORRT)
    found = resolve(folder, gpus=(0,))
    assert found.config is not None
    assert found.config.instance_groups[0].kind is InstanceKind.GPU
    assert (found.warnings, found.remark) == ((), "")
    (wrong,) = resolve(
        make_model(tmp_path / "b", PYTHON + "instance_group { kind: KIND_GPU gpus: 3 }"), gpus=(0,)
    ).problems
    assert "specifies invalid or unsupported gpu id 3" in wrong.message


def test_a_model_that_asks_for_no_gpu_has_no_warning(tmp_path: pathlib.Path) -> None:
    found = resolve(make_model(tmp_path, PYTHON + "instance_group { kind: KIND_CPU }"))
    assert (found.problems, found.warnings, found.remark) == ((), (), "")


def test_a_tensorrt_plan_is_refused_with_the_ways_out(tmp_path: pathlib.Path) -> None:
    text = f'platform: "tensorrt_plan"\nmax_batch_size: 8\n{IN}instance_group {{ kind: KIND_GPU }}'
    found = resolve(make_model(tmp_path, text, files={"1/model.plan": b"x"}))
    assert found.config is None
    assert found.remark == ""
    suggestions = [problem.suggestion for problem in found.problems]
    assert any("serve the ONNX file that the plan was built from" in each for each in suggestions)
