"""The limit on the memory of devices while models are loaded (`--model-load-gpu-limit`, row 7.38)."""

import collections.abc
import math

from naiad.config.model_config import ModelConfig
from naiad.engine.memory.sizes import HOST, places
from naiad.errors import unavailable
from naiad.metrics.device_memory import DeviceMemory


class GpuLoadLimit:
    """Refuses loads on devices of which too much is in use.

    Args:
        fractions: of each device's memory that may be in use.
        devices: the memory of the GPUs.
    """

    def __init__(
        self, fractions: collections.abc.Mapping[int, float], devices: DeviceMemory
    ) -> None:
        self._fractions = fractions
        self._devices = devices

    def concerns(self, config: ModelConfig) -> bool:
        """Whether a device of a model's instances has a limit."""
        return any(place != HOST and place[1] in self._fractions for place in places(config))

    def check(self, config: ModelConfig) -> None:
        """Check the devices of a model's instances, before it is loaded and, as in the reference, afterwards. Blocking.

        Raises:
            InferenceError: UNAVAILABLE: more is in use than the limit.
        """
        for place in places(config):
            _, device = place
            fraction = self._fractions.get(device, math.inf)
            if place == HOST or fraction == math.inf:
                continue
            used, total = self._devices.used_and_total(device)
            if used > int(total * fraction):
                raise unavailable(
                    f"can not create model '{config.name}': memory limit set for GPU {device} has exceeded, model loading is rejected: "
                    f"{used:,} of {total:,} bytes are in use, and --model-load-gpu-limit={device}:{fraction:g} allows "
                    f"{int(total * fraction):,}"
                )
