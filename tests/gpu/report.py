"""What a run of the GPU checks has shown: a table for people, and JSON. Pure."""

import collections.abc
import dataclasses
import json
import typing
from typing import Any

State = typing.Literal["passed", "failed", "skipped"]

NO_GPU = 3
"""The exit status where there is no GPU, so that nothing was checked."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of one check; `detail` is what it saw, or why it failed or was skipped, `log` the end of the server's log where it failed."""

    name: str
    state: State
    detail: str
    seconds: float
    log: str = ""


def table(outcomes: collections.abc.Sequence[Outcome]) -> str:
    """One line for each check, and a line that counts them."""
    width = max((len(each.name) for each in outcomes), default=0)
    lines = [
        f"{each.name:{width}}  {each.state:7}  {each.seconds:6.1f} s  {_one_line(each.detail)}"
        for each in outcomes
    ]
    counts = [f"{_count(outcomes, state)} {state}" for state in typing.get_args(State)]
    return "\n".join([*lines, ", ".join(counts)])


def document(
    gpu: str, versions: dict[str, str], outcomes: collections.abc.Iterable[Outcome]
) -> str:
    """All of it as JSON; `gpu` is "" where there is none."""
    found: dict[str, Any] = {
        "gpu": gpu or None,
        "versions": versions,
        "checks": [dataclasses.asdict(each) for each in outcomes],
    }
    return json.dumps(found, indent=1) + "\n"


def status(outcomes: collections.abc.Sequence[Outcome]) -> int:
    """The exit status: 1 if a check failed, or none passed."""
    return int(_count(outcomes, "failed") > 0 or not _count(outcomes, "passed"))


def _count(outcomes: collections.abc.Iterable[Outcome], state: State) -> int:
    return sum(each.state == state for each in outcomes)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:700]
