"""What `make bench-cluster` has measured, as a table with the bounds beside the results, and the size of the machine."""

import dataclasses
import os
import platform
from collections.abc import Iterable

import psutil


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """One result.

    Attributes:
        name: what was measured.
        values: one per run.
        unit: of the values.
        bound: what each may be at most; None for a result without a bound.
    """

    name: str
    values: tuple[float, ...]
    unit: str = "s"
    bound: float | None = None

    @property
    def holds(self) -> bool:
        """Whether every value is within the bound."""
        return self.bound is None or max(self.values) <= self.bound


def machine() -> str:
    """The size of this machine, in a sentence."""
    memory = psutil.virtual_memory().total / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release().partition('-')[0]}; the nodes, the control plane and the load share them."  # fmt: skip


def table(results: Iterable[Result]) -> str:
    """The results as Markdown, one row each; a result that breaks its bound is bold."""
    lines = [f"{machine()}", "", "| | measured | bound |", "|---|---|---|"]
    for result in results:
        digits = ".0f" if result.unit != "s" else ".1f"
        values = ", ".join(f"{value:{digits}}" for value in result.values)
        shown = f"{values} {result.unit}"
        bound = "" if result.bound is None else f"{result.bound:g} {result.unit}"
        lines.append(f"| {result.name} | {shown if result.holds else f'**{shown}**'} | {bound} |")
    return "\n".join(lines)
