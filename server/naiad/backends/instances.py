"""Which instances a model gets: one for each place that its instance groups name (rows 11.31-11.33).

Pure: kinds, counts, device ids and group names are already settled by the config's normalisation.
"""

from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceGroup, InstanceKind, ModelConfig


def instance_specs(config: ModelConfig) -> list[InstanceSpec]:
    """The instances of a model, in the order in which they are made.

    Names are `<group>_<k>` with k from 0 to count - 1 (row 11.32). A KIND_GPU group gives one instance for each k on each of
    its devices; those of one k share a name and differ in `device_id`, as in Triton.
    """
    return [
        InstanceSpec(name=f"{group.name}_{k}", kind=group.kind, device_id=device)
        for group in config.instance_groups
        for k in range(group.count)
        for device in _devices(group)
    ]


def _devices(group: InstanceGroup) -> tuple[int, ...]:
    return group.gpus if group.kind is InstanceKind.GPU else (0,)
