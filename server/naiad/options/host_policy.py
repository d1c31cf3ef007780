"""The value of `--host-policy` (row 17.9). Pure."""

import re

from naiad.hosts.worker.placement import HostPolicy
from naiad.options.usage import UsageError

_SETTING = re.compile(r"([^,=]+),([^,=]+)=(.+)")
_RANGES = re.compile(r"\d+-\d+(,\d+-\d+)*")
_MOST = 4096
"""Processors and nodes that Linux knows."""


def host_policy(option: str, value: str, known: dict[str, HostPolicy]) -> tuple[str, HostPolicy]:
    """The name of a policy and what it says now, of `NAME,numa-node=N` or `NAME,cpu-cores=A-B`; `known`: what was given before."""
    match = _SETTING.fullmatch(value)
    if match is None:
        raise UsageError(
            f"--{option} option format is '<policy name>,<setting>=<value>'. Got {value}: write for example gpu_0,numa-node=0 or fast,cpu-cores=0-3"
        )
    name, setting, text = match.groups()
    policy = known.get(name, HostPolicy())
    if setting == "numa-node":
        if not text.isdecimal() or int(text) >= _MOST:
            raise UsageError(
                f"--{option}={value}: Parsing 'numa-node' value: Can't parse '{text}' to integer: write the number of a node, e.g. numa-node=0"
            )
        return name, policy._replace(numa_node=int(text))
    if setting == "cpu-cores":
        return name, policy._replace(cores=_cores(option, value, text))
    raise UsageError(
        f"--{option}={value}: Unsupported host policy setting '{setting}' is specified, supported settings are 'numa-node', 'cpu-cores'"
    )


def _cores(option: str, value: str, text: str) -> tuple[int, ...]:
    ranges = [tuple(map(int, each.split("-"))) for each in text.split(",")] if _RANGES.fullmatch(text) else []  # fmt: skip
    if not ranges or any(lower > upper or upper >= _MOST for lower, upper in ranges):
        raise UsageError(
            f"--{option}={value}: host policy setting 'cpu-cores' format is '<lower_cpu_core_id>-<upper_cpu_core_id>'. Got {text}: write for example "
            "cpu-cores=0-3, or 0-3,8-11; one core is 2-2"
        )
    return tuple(sorted({core for lower, upper in ranges for core in range(lower, upper + 1)}))
