"""Loads are refused on a device of which too much is in use, by a made-up NVML (row 7.38)."""

import types
import typing

import pytest

from naiad.config.model_config import InstanceGroup, InstanceKind
from naiad.engine.memory.gpu_limit import GpuLoadLimit
from naiad.errors import ErrorCode, InferenceError
from naiad.metrics.device_memory import DeviceMemory


class Monitor:
    """100 bytes on each device."""

    def __init__(self, used: int) -> None:
        self.used = used

    def memory(self, uuid: str) -> tuple[int, int]:
        return self.used, 100


def limit(used: int, **fractions: float) -> GpuLoadLimit:
    monitor: typing.Any = Monitor(used)
    devices = DeviceMemory(monitor, {0: "GPU-a", 1: "GPU-b"})
    return GpuLoadLimit({int(name[3:]): part for name, part in fractions.items()}, devices)


def config(*gpus: int) -> typing.Any:
    kind = InstanceKind.GPU if gpus else InstanceKind.CPU
    group = InstanceGroup(name="g", kind=kind, count=1, gpus=gpus)
    return types.SimpleNamespace(name="m", instance_groups=(group,))


@pytest.mark.parametrize(
    ("used", "fractions", "gpus"),
    [
        (50, {"gpu0": 0.5}, (0,)),
        (51, {"gpu1": 0.5}, (0,)),
        (51, {"gpu0": 0.5}, (1,)),
        (51, {"gpu0": 0.5}, ()),
        (100, {}, (0, 1)),
        (100, {"gpu7": 0.0}, (7,)),
    ],
)
def test_a_load_within_the_limit_passes(
    used: int, fractions: dict[str, float], gpus: tuple[int, ...]
) -> None:
    limit(used, **fractions).check(config(*gpus))


def test_a_load_on_a_device_over_its_limit_is_refused_with_tritons_words() -> None:
    with pytest.raises(InferenceError) as caught:
        limit(51, gpu1=0.5).check(config(0, 1))
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert caught.value.message.startswith(
        "can not create model 'm': memory limit set for GPU 1 has exceeded, model loading is rejected"
    )
    assert "--model-load-gpu-limit=1:0.5" in caught.value.message
