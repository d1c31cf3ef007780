"""Defaults of a model configuration (rows 11.8, 11.21, 11.22, 11.31-11.33).

Every function changes the message it is given, so that `GET …/config` prints what Triton prints. Running one twice
changes nothing more. Pure.
"""

import collections.abc
from typing import Any

from naiad.config.backend_type import BackendType
from naiad.core.messages import model_config_pb2

_Group = model_config_pb2.ModelInstanceGroup


def normalise(message: Any) -> None:
    """Fill in version policy, batcher and buffer defaults.

    Run before a backend completes the config, which then sees what Triton's would, and again after it.
    """
    if not message.HasField("version_policy"):
        message.version_policy.latest.num_versions = 1
    if message.HasField("dynamic_batching"):
        batching = message.dynamic_batching
        if not batching.preferred_batch_size and message.max_batch_size > 0:
            batching.preferred_batch_size.append(message.max_batch_size)
    optimization = message.optimization
    for buffer in ("input_pinned_memory", "output_pinned_memory"):
        if not optimization.HasField(buffer):
            getattr(optimization, buffer).enable = True


def normalise_instance_groups(
    message: Any, gpus: collections.abc.Sequence[int], backend: BackendType | None
) -> None:
    """Give every instance group its name, kind, count and GPUs; make one where there is none.

    Args:
        message: the ModelConfig; `name` must be set.
        gpus: the device ids of this machine.
        backend: the model's; None for an unknown one.
    """
    takes_gpus = backend is None or "KIND_GPU" in backend.instance_kinds
    if not message.instance_group:
        message.instance_group.add(name=message.name)
    for index, group in enumerate(message.instance_group):
        group.name = group.name or f"{message.name}_{index}"
        if group.kind == _Group.KIND_AUTO:
            on_gpus = takes_gpus and bool(gpus) and all(gpu in gpus for gpu in group.gpus)
            group.kind = _Group.KIND_GPU if on_gpus else _Group.KIND_CPU
        if group.count < 1:
            on_cpu = group.kind == _Group.KIND_CPU
            group.count = backend.cpu_instances if on_cpu and backend is not None else 1
        if group.kind == _Group.KIND_GPU and not group.gpus:
            group.gpus.extend(gpus)
