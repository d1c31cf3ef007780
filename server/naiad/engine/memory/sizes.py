"""The sizes of a model version before it is loaded: the bytes of its files, and where its instances will hold them. Blocking reads of names only."""

from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.metrics.memory import Kind
from naiad.repository.plan import VersionPlan
from naiad.repository.polling.fingerprint import fingerprint

Place = tuple[Kind, int]
"""A memory: its kind, and the number of the device (0 for the host's)."""

HOST: Place = ("CPU", 0)

BYTES_PER_FILE_BYTE = 1.2
"""What a model takes per byte of its files, before it has ever been measured."""


def file_bytes(plan: VersionPlan) -> int:
    """The bytes of a version's files, those that all versions of the model share included."""
    return sum(
        size
        for entry, files in fingerprint(plan.model_dir).items()
        if not entry.isdecimal() or entry == str(plan.version)
        for _, _, size in files
    )


def places(config: ModelConfig) -> tuple[Place, ...]:
    """Where a model's instances hold it: the devices of its GPU instances, or else the host's memory."""
    devices = sorted(
        {
            gpu
            for group in config.instance_groups
            if group.kind is InstanceKind.GPU
            for gpu in group.gpus
        }
    )
    return tuple(("GPU", gpu) for gpu in devices) or (HOST,)


def expected(config: ModelConfig, size: int) -> dict[Place, int]:
    """The bytes that a model will take of each memory, by the bytes of its files."""
    return dict.fromkeys(places(config), int(size * BYTES_PER_FILE_BYTE))
