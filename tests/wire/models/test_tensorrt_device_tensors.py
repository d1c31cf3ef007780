"""A TensorRT plan between two models on its GPU: its inputs are opened where they are, its outputs stay there. The GPUs and TensorRT are made up."""

import pathlib

import pytest

from tests.support import cuda, made_up_gpu
from tests.support.made_up_gpu import plans
from tests.support.waiting import wait_until
from tests.wire.models.device_models import ask, gpu, serving

pytestmark = pytest.mark.slow  # a server and worker processes

IO = """input { name: "X" data_type: TYPE_FP32 dims: -1 }
output { name: "Y" data_type: TYPE_FP32 dims: -1 }
"""
ENSEMBLE = """platform: "ensemble"
%soutput { name: "WHERE" data_type: TYPE_STRING dims: 1 }
ensemble_scheduling {
  step { model_name: "producer" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "Y" value: "doubled" } }
  step { model_name: "plan" model_version: -1 input_map { key: "X" value: "doubled" } output_map { key: "Y" value: "tripled" } }
  step { model_name: "same_gpu" model_version: -1 input_map { key: "X" value: "tripled" }
    output_map { key: "Y" value: "Y" } output_map { key: "WHERE" value: "WHERE" } }
}
"""
BLOCK = 1 << 21


def test_a_plan_takes_and_leaves_tensors_on_its_gpu(tmp_path: pathlib.Path) -> None:
    models = tmp_path / "models"
    tripling = plans.plan(
        [plans.tensor("X", [-1]), plans.tensor("Y", [-1], value="X * 3")],
        [plans.profile(X=[[1], [4], [8]])],
    )
    for name, config in (("plan", 'backend: "tensorrt"\n' + IO + gpu(0)), ("all", ENSEMBLE % IO)):
        (models / name / "1").mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(config)
    (models / "plan" / "1" / "model.plan").write_bytes(tripling)
    packages = made_up_gpu.install(tmp_path / "packages")
    with serving(tmp_path, packages=packages) as (server, state):
        opened = state.counts.opens
        for first in range(3):
            assert ask(server, "all", [first, 2]) == ([first * 6 + 1, 13], "gpu 0")
        assert state.counts.opens - opened >= 2, (
            "the plan opens its input, and the last model opens the plan's output"
        )
        assert BLOCK in state.live(cuda.ALLOCATED), "the output is in memory that is lent"
    wait_until(lambda: not state.live(cuda.ALLOCATED))
