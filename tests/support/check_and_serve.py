"""What a server and `naiad check` say of models that are refused: both are asked, and their words compared."""

import contextlib
import io
import json
import pathlib
import re
import urllib.request
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from naiad.check import main
from naiad.config.problem import Position, Problem
from naiad.config.report import one_line
from tests.reference.process import ServerProcess, naiad_program

_PLACE = re.compile(r"^[a-z.]+(:\d+:\d+)?: (?=unable to load|failed)")
"""The server begins the reason of a model whose completion fails with the file; the check may know the line, too."""


class Compared(msgspec.Struct):
    """What both say: reasons of the index and answers of the check, by model."""

    reasons: dict[str, str]
    problems: dict[str, list[Problem]]
    notes: dict[str, list[str]]
    loaded: dict[str, list[Problem]]


def compare(
    root: pathlib.Path,
    names: Iterable[str],
    *,
    log: pathlib.Path,
    options: Sequence[str] = (),
    load: bool = True,
) -> Compared:
    """Ask one server and two checks, or one without `load`, about a repository of models of which none can be served."""
    expected = set(names)
    starting = [
        "--model-control-mode=explicit", "--load-model=*", "--exit-on-error=false", "--strict-readiness=false",
        *options,
    ]  # fmt: skip
    with ServerProcess(naiad_program(), [root], log=log, options=starting) as server:
        request = urllib.request.Request(f"http://{server.http}/v2/repository/index", method="POST")
        with urllib.request.urlopen(request) as reply:
            index = json.load(reply)
    assert {entry["name"] for entry in index} == expected
    assert {entry["state"] for entry in index} == {"UNAVAILABLE"}
    problems, notes = checked(root, expected, options)
    loaded = checked(root, expected, [*options, "--load"])[0] if load else {}
    # Of a version that would load the index says that it was unloaded: another one has failed.
    reasons = {each["name"]: each["reason"] for each in index if each["reason"] != "unloaded"}
    return Compared(reasons, problems, notes, loaded)


def checked(
    root: pathlib.Path, names: Iterable[str], options: Sequence[str]
) -> tuple[dict[str, list[Problem]], dict[str, list[str]]]:
    """What a check says of a repository: the problems of each of these models, and the warnings."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main([str(root), "--format=json", "--gpus=0", *options])
    answer = json.loads(output.getvalue())
    problems: dict[str, list[Problem]] = {name: [] for name in names}
    for problem in answer["problems"]:
        path = pathlib.Path(problem["path"])
        problems[path.relative_to(root).parts[0]].append(_problem(problem))
    return problems, {each["name"]: each["warnings"] for each in answer["models"]}


def _problem(shown: dict[str, Any]) -> Problem:
    position = None
    if shown["line"] is not None:
        position = Position(shown["line"], shown["column"], shown["width"])
    return Problem(
        path=pathlib.Path(shown["path"]),
        position=position,
        message=shown["message"],
        suggestion=shown["suggestion"],
    )


def same_words(reason: str, problems: list[Problem]) -> bool:
    """Whether a reason is the message of a problem, with its place or without, or a list of whole problems."""
    words = _PLACE.sub("", reason)
    if words in [problem.message for problem in problems]:
        return True
    rest = reason
    for problem in problems:
        rest = rest.replace(one_line(problem), "", 1)
    return not rest.replace("; ", "")
