"""The values of `--rate-limit` and `--rate-limit-resource` (rows 14.16, 14.18). Pure."""

import re

from naiad.options.usage import UsageError
from naiad.scheduling.rate_limiter.keys import ResourceKey

_RESOURCE = re.compile(r"([^:]+):(\d+)(?::(\d+))?")


def rate_limit_mode(option: str, value: str) -> bool:
    """Whether instances are limited; the value in any case, as in Triton."""
    mode = value.lower()
    if mode not in ("off", "execution_count"):
        raise UsageError(f"--{option}={value}: expected off or execution_count")
    return mode == "execution_count"


def rate_limit_resource(option: str, value: str) -> tuple[ResourceKey, int]:
    """The resource and how much of it there is, of `NAME:COUNT` or `NAME:COUNT:DEVICE`."""
    match = _RESOURCE.fullmatch(value)
    if match is None:
        raise UsageError(
            f"--{option} option format is '<resource_name>:<count>:<device>' or '<resource_name>:<count>'. Got {value}: write a name, how much of it "
            "there is, 0 or more, and the number of the device if it is for one device only, e.g. R1:4 or R1:4:0"
        )
    return ResourceKey(match[1], None if match[3] is None else int(match[3])), int(match[2])
