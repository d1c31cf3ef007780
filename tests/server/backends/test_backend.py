import json

from naiad.backends.backend import WorkerPlan, instance_specs
from naiad.backends.instance import InstanceResource, InstanceSpec, SecondaryDevice
from naiad.config import model_config as configs
from naiad.config.model_config import InstanceGroup, InstanceKind, RateLimiterResource
from naiad.hosts.process.spawn import order
from tests.server.backends.configs import model_config


def test_every_instance_is_named_after_its_group_and_its_place_in_it() -> None:
    config = model_config(
        inputs=(),
        outputs=(),
        instance_groups=(
            InstanceGroup(name="m_0", kind=InstanceKind.CPU, count=2),
            InstanceGroup(name="own", kind=InstanceKind.MODEL, count=1),
        ),
    )
    assert instance_specs(config) == [
        InstanceSpec(name="m_0_0", kind=InstanceKind.CPU, device_id=0),
        InstanceSpec(name="m_0_1", kind=InstanceKind.CPU, device_id=0),
        InstanceSpec(name="own_0", kind=InstanceKind.MODEL, device_id=0),
    ]


def test_an_instance_has_the_settings_of_its_group_and_a_worker_gets_all_of_them() -> None:
    group = InstanceGroup(
        name="g",
        kind=InstanceKind.CPU,
        count=1,
        resources=(RateLimiterResource(name="R", count=2, is_global=True),),
        priority=3,
        passive=True,
        profiles=("7",),
        host_policy="p",
        secondary_devices=(configs.SecondaryDevice(kind="KIND_NVDLA", device_id=4),),
    )
    (spec,) = instance_specs(model_config(inputs=(), outputs=(), instance_groups=(group,)))
    assert spec == InstanceSpec(
        "g_0",
        InstanceKind.CPU,
        0,
        resources=(InstanceResource("R", 2, is_global=True),),
        priority=3,
        passive=True,
        profiles=("7",),
        host_policy="p",
        secondary_devices=(SecondaryDevice("KIND_NVDLA", 4),),
    )
    plan = WorkerPlan(load="m:l", settings={}, executable="python", instances=(spec,))
    (sent,) = json.loads(order(plan))["instances"]
    assert InstanceSpec.from_map(sent) == spec._replace(kind="CPU")


def test_a_gpu_group_gives_each_of_its_devices_the_whole_count() -> None:
    config = model_config(
        inputs=(),
        outputs=(),
        instance_groups=(InstanceGroup(name="g", kind=InstanceKind.GPU, count=2, gpus=(1, 3)),),
    )
    assert [
        (instance_spec.name, instance_spec.device_id) for instance_spec in instance_specs(config)
    ] == [
        ("g_0", 1),
        ("g_0", 3),
        ("g_1", 1),
        ("g_1", 3),
    ]
