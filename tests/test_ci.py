"""Which tests CI runs: every module belongs to a command of the Makefile that `.ci/run` calls, or stands here with the reason why not."""

import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import typing

import pytest

from naiad.serve import interpreter

ROOT = pathlib.Path(__file__).parent.parent
TESTS = ROOT / "tests"

NOT_IN_CI = {
    "tests/engines/interop": "programs of other projects, of which each run would fetch gigabytes: `make interop`",
    "tests/stores/clients/test_azure.py": "its emulator comes from npm: `make test-stores-full`",
}
"""Folders and modules that `.ci/run` does not run, and why."""


PARTS = ("test", "test-conformance", "test-operator", "test-tools", "test-stores")
"""The commands that divide the tests of `.venv`; `test-engines` runs some of theirs again, over other engines."""


class Selection(typing.NamedTuple):
    """What one call of pytest runs: the folders and files that it is given, and those that it is to ignore."""

    given: list[pathlib.Path]
    ignored: list[pathlib.Path]

    def has(self, module: pathlib.Path) -> bool:
        return any(map(module.is_relative_to, self.given)) and not any(
            map(module.is_relative_to, self.ignored)
        )


def called_by_ci() -> list[str]:
    """The commands of the Makefile that `.ci/run` calls, in order."""
    calls = re.findall(r"^part \"[^\"]+\" make (.+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)  # fmt: skip
    return [word for call in calls for word in call.split() if re.fullmatch("[a-z][a-z0-9-]+", word)]  # fmt: skip


def selections(command: str) -> list[Selection]:
    """What the calls of pytest in a command's recipe run, as make writes them out."""
    written = subprocess.run(
        ["make", "--dry-run", "--always-make", command],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.replace("\\\n", " ")  # fmt: skip
    calls = [call for line in written.splitlines() for call in line.split(";")]
    return [selection(shlex.split(call)) for call in calls if re.search(r"\bpytest\b", call)]


def selection(words: list[str]) -> Selection:
    given = [path for word in words if word.startswith("tests/") for path in ROOT.glob(word)]
    ignored = [ROOT / word.partition("=")[2] for word in words if word.startswith("--ignore=")]
    return Selection(given or [TESTS], ignored)


@functools.cache
def modules() -> list[pathlib.Path]:
    return sorted(TESTS.rglob("test_*.py"))


def test_every_module_belongs_to_a_command_that_ci_runs() -> None:
    commands = called_by_ci()
    assert {*PARTS, "test-engines", "test-frameworks"} <= {*commands}
    run = [each for command in commands for each in selections(command)]
    left_out = [ROOT / path for path in NOT_IN_CI]
    missed = [
        str(module.relative_to(ROOT))
        for module in modules()
        if not any(each.has(module) for each in run) and not any(map(module.is_relative_to, left_out))
    ]  # fmt: skip
    assert missed == []


def test_a_module_that_a_mark_leaves_out_has_a_reason() -> None:
    """`make test-stores` leaves out what is marked `stores`; of every other module at least some tests are run."""
    whole = [
        str(module.relative_to(ROOT))
        for module in modules()
        if re.search(r"^pytestmark = .*mark\.stores", module.read_text(), re.MULTILINE)
    ]
    assert [each for each in whole if each not in NOT_IN_CI] == []


def test_each_module_of_a_framework_is_run_in_its_environment_and_no_other() -> None:
    """`tests/frameworks/conftest.py` leaves these folders out where their framework is not installed, so that `make test` cannot count for them."""
    [*frameworks] = selections("test-frameworks")
    folders = {path.name for each in frameworks for path in each.given}
    assert folders == {
        path.parent.name
        for path in (TESTS / "frameworks").glob("*/test_*.py")
        if path.parent.name != "onnx"
    }


@pytest.mark.parametrize("command", PARTS)
def test_commands_share_no_module(command: str) -> None:
    [mine] = selections(command)
    shared = [each for other in PARTS if other != command for each in selections(other)]
    found = [module for module in modules() if mine.has(module)]
    assert found
    assert [module for module in found if any(each.has(module) for each in shared)] == []


@pytest.mark.parametrize(
    ("optimized", "system_has_venv", "chosen"),
    [(True, True, "python3"), (False, True, "the system's"), (False, False, "python3")],
)
def test_the_environment_is_made_with_an_optimized_python(
    tmp_path: pathlib.Path, *, optimized: bool, system_has_venv: bool, chosen: str
) -> None:
    """A `python3` of pyenv comes first on many PATHs, and runs Python code a third slower than the system's own."""
    system = tmp_path / "system"
    for program, succeeds in ((tmp_path / "python3", not optimized), (system, system_has_venv)):
        program.write_text(f"#!/bin/sh\nexit {int(not succeeds)}\n")
        program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SYSTEM_PYTHON": str(system)}
    printed = subprocess.run(
        [ROOT / ".ci" / "python"], env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()
    assert printed == {"the system's": str(system)}.get(chosen, chosen)


def test_the_rule_of_the_environment_is_the_servers() -> None:
    """`.ci/python` runs before there is an environment, so it cannot import the server."""
    rule = re.search(r"unoptimized='(.+?)'\n", (ROOT / ".ci" / "python").read_text(), re.DOTALL)
    assert rule is not None
    ended = subprocess.run([sys.executable, "-c", rule[1]], check=False)
    assert bool(ended.returncode) is interpreter.is_optimized()
