"""The example that calls other models, and its client."""

import pathlib
import subprocess
import sys

import pytest

from tests.reference.process import ServerProcess, naiad_program

pytestmark = pytest.mark.slow

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


@pytest.mark.timeout(600)
def test_the_example_tells_kind_and_words_of_files(tmp_path: pathlib.Path) -> None:
    text = tmp_path / "note.md"
    text.write_text("# A note\n\n* one line\n* [another](line.md)\n")
    program = EXAMPLES / "first_request.py"
    repository = EXAMPLES / "model_repository"
    with ServerProcess(naiad_program(), [repository], log=tmp_path / "log") as server:
        command: list[str | pathlib.Path] = [
            sys.executable,
            EXAMPLES / "describe_files.py",
            "--address",
            server.http,
        ]
        shown = subprocess.run(
            [*command, text, program], check=True, capture_output=True, text=True, timeout=60
        ).stdout
    words = len(program.read_text().split())
    assert shown.splitlines() == [f"{text}: markdown, 8 words", f"{program}: python, {words} words"]
