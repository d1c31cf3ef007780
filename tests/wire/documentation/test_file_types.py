"""The ensemble that tells kinds of files: its client gets what the `magika` package says, and the tutorial builds just this."""

import collections.abc
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.wire.documentation.sample_files import ROOT, by_the_package, samples, truth

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CLIENT = ROOT / "examples" / "file_types.py"
PAGE = (ROOT / "docs/tutorials/file-types.md").read_text()
BUILDING, USING = PAGE.split("## Ask it")
REPOSITORY = ROOT / "examples" / "model_repository"
MODELS = ("file_features", "file_type", "magika")

LIKELY = 0.002
"""Scores below differ between builds of the framework."""


def snippets(text: str, language: str) -> list[str]:
    """The blocks of a language; "" for those that say none."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [body for named, body in blocks if named == language]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder in which the page was followed up to the start of the server."""
    folder = tmp_path_factory.mktemp("tutorial")
    for name in ("examples", "Makefile", "README.md"):
        (folder / name).symlink_to(ROOT / name)
    for snippet in snippets(BUILDING, "sh"):
        kept = [line for line in snippet.splitlines() if not line.startswith((". ", "naiad "))]
        subprocess.run(["sh", "-ec", "\n".join(kept)], cwd=folder, check=True, timeout=30)
    return folder


@pytest.fixture(scope="module")
def server(built: pathlib.Path) -> collections.abc.Iterator[ServerProcess]:
    with ServerProcess(naiad_program(), [built / "models"], log=built / "log") as started:
        yield started


def asked(server: ServerProcess, *files: str, cwd: pathlib.Path) -> list[str]:
    """What the client prints."""
    command = [sys.executable, str(CLIENT), "--address", server.http, *files]
    return subprocess.run(
        command, cwd=cwd, check=True, capture_output=True, text=True, timeout=60
    ).stdout.splitlines()


def test_the_page_builds_the_models_of_the_example_repository(built: pathlib.Path) -> None:
    files = [
        file
        for name in MODELS
        for file in (REPOSITORY / name).rglob("*")
        if file.is_file() and file.name != ".gitkeep" and "__pycache__" not in file.parts
    ]
    assert len(files) == 6
    for file in files:
        assert (built / "models" / file.relative_to(REPOSITORY)).read_bytes() == file.read_bytes()


def test_check_says_what_the_page_shows(built: pathlib.Path) -> None:
    command = [sys.executable, "-m", "naiad", "check", "models"]
    output = subprocess.run(
        command,
        cwd=built,
        env={**os.environ, "PYTHONPATH": str(ROOT / "server")},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    [shown] = snippets(BUILDING, "")
    assert [line for line in output.splitlines() if line.startswith("ok")] == [
        line for line in shown.splitlines() if line.startswith("ok")
    ]


def test_the_client_shows_what_the_page_shows(server: ServerProcess, built: pathlib.Path) -> None:
    [command] = [each for each in snippets(USING, "sh") if "file_types.py" in each]
    [shown] = snippets(USING, "")
    # The files change, so only what is likeliest is compared, and not how likely it is.
    assert [line.split(" ")[:2] for line in asked(server, *command.split()[2:], cwd=built)] == [
        line.split(" ")[:2] for line in shown.splitlines()
    ]


def test_tritons_client_gets_the_class_of_the_comment(
    server: ServerProcess, built: pathlib.Path
) -> None:
    [python] = snippets(USING, "python")
    command = [sys.executable, "-c", python.replace("localhost:8000", server.http)]
    text = subprocess.run(
        command, cwd=built, check=True, capture_output=True, text=True, timeout=60
    ).stdout
    assert text.strip().split(":")[1:] == python.rstrip().rpartition("# ")[2].split(":")[1:]


def _kinds(line: str) -> list[tuple[str, float]]:
    pairs = [each.rsplit(" ", maxsplit=1) for each in line.partition(": ")[2].split(", ")]
    return [(name, float(score[:-1]) / 100) for name, score in pairs]


def test_the_client_gets_what_the_package_says(
    server: ServerProcess, tmp_path: pathlib.Path
) -> None:
    for name, content in samples().items():
        (tmp_path / name).write_bytes(content)
    lines = asked(server, *samples(), cwd=tmp_path)
    expected: dict[str, list[list[Any]]] = truth()
    assert [line.partition(":")[0] for line in lines] == list(expected)
    for line, kinds in zip(lines, expected.values(), strict=True):
        likely = [(name, score) for name, score in kinds if score > LIKELY]
        found = _kinds(line)[: len(likely)]
        assert [name for name, _ in found] == [name for name, _ in likely], line
        assert [score for _, score in found] == pytest.approx(
            [score for _, score in likely], abs=0.001
        )


def test_more_files_than_fit_into_a_request(server: ServerProcess, tmp_path: pathlib.Path) -> None:
    names = [f"{number}.py" for number in range(130)]
    for name in names:
        (tmp_path / name).write_bytes(samples()["total.py"])
    lines = asked(server, *names, cwd=tmp_path)
    assert [line.split(" ")[:2] for line in lines] == [[f"{name}:", "python"] for name in names]


def test_a_file_of_few_bytes_is_too_short(server: ServerProcess, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(b"\n\n  short")
    (tmp_path / "b").write_bytes(b"")
    lines = asked(server, "a", "b", cwd=tmp_path)
    assert sorted(lines) == ["a: too short to tell", "b: too short to tell"]


@pytest.mark.skipif(importlib.util.find_spec("magika") is None, reason="magika is not installed")
def test_what_was_written_down_is_what_the_package_says() -> None:
    for name, kinds in by_the_package().items():
        said = [kind for kind, score in truth()[name] if score > LIKELY]
        assert [kind for kind, score in kinds if score > LIKELY] == said
