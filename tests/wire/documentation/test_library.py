"""The programs on the page about the server as a library print what the page shows."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "library.md").read_text()
SNIPPETS = re.findall(
    r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", PAGE, re.DOTALL | re.MULTILINE
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "server")}


def test_the_page_has_programs() -> None:
    assert len(SNIPPETS) >= 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "shown"), [each for each in SNIPPETS if "import pytest" not in each[0]]
)
def test_a_program_prints_what_is_shown(program: str, shown: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=False, timeout=60, cwd=ROOT, env=ENVIRONMENT,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == shown


@pytest.mark.slow
def test_the_test_on_the_page_passes(tmp_path: pathlib.Path) -> None:
    [program] = [each for each, _ in SNIPPETS if "import pytest" in each]
    file = tmp_path / "test_page.py"
    file.write_text(program.replace("examples/", f"{ROOT}/examples/"))
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", file],
        capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path, env=ENVIRONMENT,
    )  # fmt: skip
    assert "1 passed" in ended.stdout, ended.stdout
