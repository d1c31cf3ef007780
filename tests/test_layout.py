"""The layout that imports depend on, and which tests know nothing of the modules inside."""

import ast
import pathlib
import shutil
import subprocess

import pytest

from naiad_operator.builders import KINDS
from tests.apiserver import objects

ROOT = pathlib.Path(__file__).parent.parent


def test_import_roots_are_not_packages() -> None:
    """`operator/__init__.py` would shadow the standard library's operator; `server/` is kept alike."""
    for folder in ("server", "operator"):
        assert (ROOT / folder).is_dir()
        assert not (ROOT / folder / "__init__.py").exists()


_AT_THE_ROOT = {
    ".ci", ".dockerignore", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile.operator", "Dockerfile.server", "LICENSE", "Makefile",
    "README.md", "benchmarks", "charts", "constraints-frameworks.txt", "constraints.txt", "crds", "docs", "e2e", "examples", "images", "manifests",
    "operator", "pyproject.toml", "server", "tests",
}  # fmt: skip


def test_nothing_else_is_at_the_root() -> None:
    """A file that was written beside the code, for a look at something, is easily committed with it."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a checkout: an archive may have other files at its root")
    listed = subprocess.run([git, "-C", str(ROOT), "ls-files", "-z"], check=True, capture_output=True, timeout=60)  # fmt: skip
    names = {path.partition("/")[0] for path in listed.stdout.decode().split("\0") if path}
    assert names - _AT_THE_ROOT == set(), "take it away, or list it here"
    assert _AT_THE_ROOT - names == set(), "it is gone: take it out here"


def test_every_test_folder_is_a_package() -> None:
    """Else two test files of one name clash, and mypy finds files twice."""
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


BLACK_BOX = ("wire", "conformance", "soak", "operator/live", "apiserver", "reference")
"""These drive the programs from outside, so that the code inside can be moved without touching them."""


def imported(file: pathlib.Path) -> set[str]:
    """The top-level packages that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module.partition(".")[0])
    return names


def test_tests_from_outside_import_no_module_of_the_product() -> None:
    files = [file for folder in BLACK_BOX for file in (ROOT / "tests" / folder).rglob("*.py")]
    assert len(files) > 100
    inside = {"naiad", "naiad_operator"}
    assert [str(file) for file in files if imported(file) & inside] == []


def test_the_kinds_of_children_that_tests_from_outside_know_are_all_there_are() -> None:
    assert set(objects.CHILDREN) == {kind.kind for kind in KINDS}
