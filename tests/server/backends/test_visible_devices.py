"""Which GPUs a worker sees."""

import pytest

from naiad.backends.instance import InstanceSpec
from naiad.backends.visible_devices import Seen, seen_by
from naiad.config.model_config import InstanceKind
from naiad.errors import InferenceError
from naiad.tensors.numbering import DEVICE


def seen(
    spec: InstanceSpec,
    parameters: dict[str, str] | None = None,
    environ: dict[str, str] | None = None,
) -> Seen:
    return seen_by(spec, model="m", parameters=parameters or {}, environ=environ or {})


def gpu(number: int) -> InstanceSpec:
    return InstanceSpec(name="m_0_0", kind=InstanceKind.GPU, device_id=number)


def test_a_worker_sees_the_gpu_of_its_instance_and_calls_it_0() -> None:
    worker_sees = seen(gpu(3))
    assert worker_sees.variables == {"CUDA_VISIBLE_DEVICES": "3", DEVICE: "3"}
    assert worker_sees.spec == gpu(0)


def test_where_the_server_sees_only_some_its_numbers_count_among_those() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "GPU-a, GPU-b,7"}
    for number, name in ((1, "GPU-b"), (2, "7")):
        variables = seen(gpu(number), environ=environ).variables
        assert variables == {"CUDA_VISIBLE_DEVICES": name, DEVICE: str(number)}


@pytest.mark.parametrize("kind", [InstanceKind.CPU, InstanceKind.MODEL])
def test_instances_without_a_gpu_of_their_own_see_what_the_server_sees(kind: InstanceKind) -> None:
    spec = InstanceSpec(name="m_0_0", kind=kind, device_id=0)
    assert seen(spec) == Seen(spec=spec, variables={})


def test_a_model_can_ask_to_see_all() -> None:
    worker_sees = seen(gpu(3), {"naiad.visible_gpus": "all"})
    assert worker_sees == Seen(spec=gpu(3), variables={})
    with pytest.raises(InferenceError, match=r"naiad\.visible_gpus is 'some'.*own.*all"):
        seen(gpu(3), {"naiad.visible_gpus": "some"})


def test_a_worker_that_sees_all_slices_could_open_only_the_first() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b"}
    assert seen(gpu(0), {"naiad.visible_gpus": "all"}, environ).variables == {}
    with pytest.raises(InferenceError, match="CUDA opens one MIG slice per process"):
        seen(gpu(1), {"naiad.visible_gpus": "all"}, environ)
