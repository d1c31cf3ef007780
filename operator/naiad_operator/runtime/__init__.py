"""The running operator: its parts, put together, and the order of start and stop."""

from naiad_operator.runtime.operator import Runtime, running

__all__ = ["Runtime", "running"]
