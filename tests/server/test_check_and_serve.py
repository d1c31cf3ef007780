"""`naiad check` says of a broken model what the server says of it, in the same words."""

import contextlib
import io
import json
import pathlib
import re
import urllib.request
from typing import Any

import msgspec
import pytest

from naiad.check import main
from naiad.config.problem import Position, Problem
from naiad.config.report import one_line
from tests.reference.process import ServerProcess, naiad_program
from tests.server.broken_repositories import BROKEN

_OPTIONS = [
    "--backend-config=python,host=thread",
    "--rate-limit=execution_count",
    "--rate-limit-resource=R:1",
]


_PLACE = re.compile(r"^[a-z.]+(:\d+:\d+)?: (?=unable to load|failed)")
"""The server begins the reason of a model whose completion fails with the file; the check may know the line, too."""


class Compared(msgspec.Struct):
    """What both say: reasons of the index and answers of the check, by model."""

    reasons: dict[str, str]
    problems: dict[str, list[Problem]]
    notes: dict[str, list[str]]
    loaded: dict[str, list[Problem]]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """One server and two checks for all models."""
    root = tmp_path_factory.mktemp("models")
    for name, broken in BROKEN.items():
        broken.write(root / name)
    log = tmp_path_factory.mktemp("log") / "server.log"
    options = [
        "--model-control-mode=explicit", "--load-model=*", "--exit-on-error=false", "--strict-readiness=false",
        *_OPTIONS,
    ]  # fmt: skip
    with ServerProcess(naiad_program(), [root], log=log, options=options) as server:
        request = urllib.request.Request(f"http://{server.http}/v2/repository/index", method="POST")
        with urllib.request.urlopen(request) as reply:
            index = json.load(reply)
    assert {entry["name"] for entry in index} == set(BROKEN)
    assert {entry["state"] for entry in index} == {"UNAVAILABLE"}
    problems, notes = _checked(root)
    loaded, _ = _checked(root, "--load")
    # Of a version that would load the index says that it was unloaded: another one has failed.
    reasons = {each["name"]: each["reason"] for each in index if each["reason"] != "unloaded"}
    return Compared(reasons, problems, notes, loaded)


def _checked(
    root: pathlib.Path, *options: str
) -> tuple[dict[str, list[Problem]], dict[str, list[str]]]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main([str(root), "--format=json", "--gpus=0", *_OPTIONS, *options])
    answer = json.loads(output.getvalue())
    problems: dict[str, list[Problem]] = {name: [] for name in BROKEN}
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


def _same_words(reason: str, problems: list[Problem]) -> bool:
    """Whether a reason is the message of a problem, with its place or without, or a list of whole problems."""
    words = _PLACE.sub("", reason)
    if words in [problem.message for problem in problems]:
        return True
    rest = reason
    for problem in problems:
        rest = rest.replace(one_line(problem), "", 1)
    return not rest.replace("; ", "")


@pytest.mark.parametrize("name", [name for name, broken in BROKEN.items() if not broken.note])
def test_the_check_gives_the_reason_of_the_index(name: str, compared: Compared) -> None:
    problems = (compared.loaded if BROKEN[name].load else compared.problems)[name]
    assert _same_words(compared.reasons[name], problems), (
        compared.reasons[name],
        list(map(one_line, problems)),
    )


@pytest.mark.parametrize("name", [name for name, broken in BROKEN.items() if broken.note])
def test_what_may_be_right_elsewhere_is_a_note_with_the_same_words(
    name: str, compared: Compared
) -> None:
    assert compared.problems[name] == []
    assert f"on this machine: {compared.reasons[name]}" in compared.notes[name]
