"""Shows what a check has found: for a terminal, and as JSON."""

import collections.abc
import os
import sys
from typing import Any

from naiad.check.checked_model import Checked
from naiad.check.completed import completed_lines
from naiad.config.report import as_json, render

_MOST_NAMES = 10
"""The names of models in the summary."""


def in_colour(choice: str) -> bool:
    """Whether to use colours: in a terminal, unless NO_COLOR is set (no-color.org)."""
    if choice == "auto":
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return choice == "always"


def text_of(models: collections.abc.Sequence[Checked], *, colour: bool) -> str:
    """Problems with their lines, then the models that are clean, then the count."""
    bad = [model for model in models if model.problems]
    count = sum(len(model.problems) for model in bad)
    parts = [_bad(model, colour=colour) for model in bad]
    good = [_good(model) for model in models if not model.problems]
    if good:
        parts.append("\n".join(good) + "\n")
    if bad:
        names = ", ".join(dict.fromkeys(model.path.name for model in bad[:_MOST_NAMES]))
        names += ", …" if len(bad) > _MOST_NAMES else ""
        parts.append(
            f"{_counted(count, 'problem')} in {len(bad)} of {_counted(len(models), 'model')}: {names}\n"
        )
    else:
        parts.append(f"{_counted(len(models), 'model')} checked, no problems\n")
    return "\n".join(parts)


def json_of(models: collections.abc.Sequence[Checked]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "models": [
            {
                "name": model.path.name,
                "path": str(model.path),
                "ok": not model.problems,
                "versions": list(model.resolution.versions),
                "warnings": list(model.notes),
                "completed": completed_lines(model.resolution),
            }
            for model in models
        ],
        "problems": as_json(problem for model in models for problem in model.problems),
    }


def _bad(model: Checked, *, colour: bool) -> str:
    notes = "".join(f"note: {model.path.name}: {note}\n" for note in model.notes)
    return render(model.problems, colour=colour) + (f"\n{notes}" if notes else "")


def _good(model: Checked) -> str:
    if model.agents:
        return f"ok  {model.path.name}: files not checked, repository agents may change them: {', '.join(model.agents)}"
    config = model.resolution.config
    assert config is not None, "a model without problems has a config"
    numbers = model.resolution.versions
    label = "version" if len(numbers) == 1 else "versions"
    line = f"ok  {model.path.name}: {config.backend or config.platform}, {label} {', '.join(map(str, numbers))}"
    line += f", max_batch_size {config.max_batch_size}"
    completed = completed_lines(model.resolution)
    return "\n".join(
        [
            line,
            *(f"    note: {note}" for note in model.notes),
            *(["    completed, as lines for config.pbtxt:"] if completed else []),
            *(f"        {each}" for each in completed),
        ]
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
