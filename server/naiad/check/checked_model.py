"""A model that was checked."""

import dataclasses
import pathlib

from naiad.config.problem import Problem
from naiad.config.resolving.resolve import Resolution


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A model that was checked, with its folder and what that says.

    Attributes:
        problems: everything wrong, its place among the repositories included.
        notes: what does not stop the model, and what may be right on the machine that serves it.
        agents: repository agents that may change its files, which are not checked therefore.
    """

    path: pathlib.Path
    resolution: Resolution
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    agents: tuple[str, ...] = ()
