"""Which GPUs a worker process sees: its own and no other. Pure.

CUDA numbers the devices that a process sees from 0, so the one device of such a worker is `cuda:0` there, whatever its number
on this machine: `model_instance_device_id` says 0, and a model that writes `f"cuda:{device_id}"`, as models for Triton do, gets its own.
"""

import collections.abc

import msgspec

from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceKind
from naiad.errors import invalid
from naiad.tensors.numbering import DEVICE

PARAMETER = "naiad.visible_gpus"
"""`own` (the default) or `all`: a worker sees every GPU, numbered as the server sees them, as in Triton."""

DEVICES = "CUDA_VISIBLE_DEVICES"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker sees: its instance, the device numbered as the worker sees it, and the variables that it is started with."""

    spec: InstanceSpec
    variables: collections.abc.Mapping[str, str | None]


def beyond_a_thread(
    specs: collections.abc.Iterable[InstanceSpec], slices: collections.abc.Collection[int]
) -> list[int]:
    """The device ids of instances that a thread of the server cannot reach: CUDA opens one MIG slice per process, the first device.

    `slices` are the device ids that are MIG slices.
    """
    devices = sorted({spec.device_id for spec in specs if spec.kind is InstanceKind.GPU})
    return [device for device in devices if device and (device in slices or 0 in slices)]


def seen_by(
    spec: InstanceSpec,
    *,
    model: str,
    parameters: collections.abc.Mapping[str, str],
    environ: collections.abc.Mapping[str, str],
) -> Seen:
    """What the worker of an instance sees. Only KIND_GPU instances have a device of their own; others see what the server sees.

    Where the server itself sees only some devices, by its variables, the numbers in a model's config count among those.

    Raises:
        InferenceError: INVALID_ARG: `naiad.visible_gpus` is not valid, or is `all` for an instance on another MIG slice than the first.
    """
    wanted = parameters.get(PARAMETER, "own")
    if wanted not in {"own", "all"}:
        raise invalid(
            f"unable to load model '{model}': its parameter {PARAMETER} is '{wanted}': it must be own (each worker sees the GPU of its "
            "instance as cuda:0: the default) or all"
        )
    visible = [name.strip() for name in environ.get(DEVICES, "").split(",") if name.strip()]
    if spec.kind is not InstanceKind.GPU or wanted == "all":
        if spec.kind is InstanceKind.GPU and spec.device_id and any(map(_is_slice, visible)):
            raise invalid(
                f"unable to load model '{model}': its parameter {PARAMETER} is all and its instance '{spec.name}' is on GPU {spec.device_id}: "
                "CUDA opens one MIG slice per process, the first that it sees: write own, or take the parameter out"
            )
        return Seen(spec=spec, variables={})
    own = str(spec.device_id)
    if spec.device_id < len(visible):
        own = visible[spec.device_id]
    return Seen(
        spec=spec._replace(device_id=0), variables={DEVICES: own, DEVICE: str(spec.device_id)}
    )


def _is_slice(name: str) -> bool:
    return name.startswith("MIG-")
