"""Where a model's instances run."""

import pytest

from naiad.config.model_config import InstanceGroup, InstanceKind, ModelConfig
from naiad.engine.instances import host_of
from naiad.errors import InferenceError
from tests.server.backends.configs import model_config


def on_gpus(*gpus: int, host: str = "") -> ModelConfig:
    group = InstanceGroup(name="g", kind=InstanceKind.GPU, count=1, gpus=gpus)
    parameters = {"naiad.host": host} if host else {}
    return model_config(inputs=[], outputs=[], instance_groups=(group,), parameters=parameters)


@pytest.mark.parametrize(
    ("gpus", "slices", "host"),
    [
        ((0, 1), (), "thread"),
        ((0,), (0, 1), "thread"),
        ((0, 1), (0, 1), "process"),
        ((1,), (0,), "process"),
        ((0,), (1,), "thread"),
        ((1,), (1,), "process"),
    ],
)
def test_instances_on_slices_that_a_thread_cannot_reach_run_in_processes(
    gpus: tuple[int, ...], slices: tuple[int, ...], host: str
) -> None:
    assert host_of(on_gpus(*gpus), "thread", {}, frozenset(slices)) == host
    assert host_of(on_gpus(*gpus), "process", {}, frozenset(slices)) == "process"


def test_a_thread_that_cannot_reach_the_slice_is_refused() -> None:
    slices = frozenset((0, 1, 2))
    assert host_of(on_gpus(0, host="thread"), "process", {}, slices) == "thread"
    with pytest.raises(
        InferenceError, match=r"instances on GPU 1, 2 and host=thread: CUDA opens one MIG slice"
    ):
        host_of(on_gpus(0, 1, 2, host="thread"), "process", {}, slices)
    with pytest.raises(InferenceError, match=r"write gpus: \[ 0 \]"):
        host_of(on_gpus(1), "process", {"host": "thread"}, slices)


def test_the_models_setting_takes_precedence() -> None:
    assert host_of(on_gpus(0, host="process"), "thread", {"host": "thread"}) == "process"
    assert host_of(on_gpus(0), "thread", {"host": "process"}) == "process"
    with pytest.raises(InferenceError, match="is not a valid host: choose thread or process"):
        host_of(on_gpus(0, host="elsewhere"), "thread", {})
