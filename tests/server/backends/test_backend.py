from naiad.backends.backend import instance_specs
from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceGroup, InstanceKind
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
