"""The package runs in the interpreter of a model's own environment: standard library, numpy, Python 3.8."""

import ast
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

import naiad.backends.python.api

FOLDER = pathlib.Path(naiad.backends.python.api.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))
ALLOWED = "naiad.backends.python.api"


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_imports_the_standard_library_numpy_its_own_package_and_that_of_tensors(
    path: pathlib.Path,
) -> None:
    for name in imported(ast.parse(path.read_text())):
        top = name.partition(".")[0]
        assert (
            top in sys.stdlib_module_names
            or top == "numpy"
            or name.startswith((ALLOWED, "naiad.tensors"))
        ), name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_python_38_and_quotes_annotations_that_38_cannot_evaluate(
    path: pathlib.Path,
) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    local = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        annotations: list[ast.expr | None] = []
        if isinstance(node, ast.FunctionDef):
            arguments = node.args
            every = [*arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            annotations = [node.returns, *(running.annotation for running in every if running)]
        elif (
            isinstance(node, ast.AnnAssign) and node not in local
        ):  # a function's own are never evaluated
            annotations = [node.annotation]
        for annotation in annotations:
            assert not isinstance(annotation, ast.BinOp | ast.Subscript), ast.unparse(annotation)


def test_the_module_can_be_imported_where_nothing_but_numpy_is() -> None:
    code = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("numpy", "naiad"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import {ALLOWED}.triton_python_backend_utils as pb_utils
assert all(hasattr(pb_utils, name) for name in pb_utils.__all__)
print(sorted(name for name in sys.modules if name.startswith("naiad.") and not name.startswith("{ALLOWED}")))
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": str(pathlib.Path(naiad.__file__).parents[1])},
    )
    assert result.stdout.strip() == (
        "['naiad.backends', 'naiad.backends.python', 'naiad.tensors', 'naiad.tensors.device_array', 'naiad.tensors.dlpack', 'naiad.tensors.memory']"
    )
