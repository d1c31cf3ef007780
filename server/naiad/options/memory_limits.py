"""The values of `--model-memory-limit` and `--model-load-gpu-limit` (row 7.38). Pure."""

import re

from naiad.options.usage import UsageError

HOST = -1
"""Stands for the host's memory among the numbers of devices."""

_UNITS = {
    unit: base**power
    for base, units in ((1000, ("", "KB", "MB", "GB", "TB")), (1024, ("", "KIB", "MIB", "GIB", "TIB")))
    for power, unit in enumerate(units)
}  # fmt: skip
_BYTES = re.compile(r"(?:(\d+):)?(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_FRACTION = re.compile(r"(\d+):(\d*\.?\d+)")


def memory_limit(option: str, value: str) -> tuple[int, int]:
    """The device and the bytes of `BYTES` or `ID:BYTES`; HOST without a device."""
    match = _BYTES.fullmatch(value.strip())
    unit = None if match is None else _UNITS.get(match[3].upper())
    if match is None or unit is None or (size := int(float(match[2]) * unit)) <= 0:
        raise UsageError(
            f"--{option}={value}: expected BYTES for the host's memory or ID:BYTES for a GPU's, e.g. 12GiB or 0:40GB "
            "(units KB, MB, GB, TB, and KiB, MiB, GiB, TiB)"
        )
    return HOST if match[1] is None else int(match[1]), size


def gpu_fraction(option: str, value: str) -> tuple[int, float]:
    """The device and the fraction of `ID:FRACTION`."""
    match = _FRACTION.fullmatch(value.strip())
    if match is None or float(match[2]) > 1:
        raise UsageError(
            f"--{option}={value}: expected ID:FRACTION, a GPU's number and the part of its memory from 0 to 1, e.g. 0:0.9"
        )
    return int(match[1]), float(match[2])
