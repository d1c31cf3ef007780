"""What a worker needs: the standard library and numpy, in Python 3.8 and up, so that it lives in a model's own environment."""

import ast
import collections.abc
import json
import pathlib
import subprocess
import sys

import pytest

import naiad
from naiad.hosts import worker

_CHECK = """
import importlib, json, sys
from importlib.abc import MetaPathFinder

class Refuse(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("naiad", "numpy"):
            raise ImportError(f"a worker needs {name}")

sys.meta_path.insert(0, Refuse())
sys.path[:] = [each for each in sys.path if each]
main = importlib.machinery.SourceFileLoader("worker_main", sys.argv[1]).load_module()
main._find_naiad()
for name in ("naiad.hosts.worker.work", "naiad.backends.python.worker_model", "naiad.backends.python.completion"):
    importlib.import_module(name)
ours = [module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "naiad"]
print(json.dumps([*ours, sys.argv[1]]))
"""

_GENERIC = {"list", "dict", "tuple", "set", "frozenset", "type", "deque"} | set(
    collections.abc.__all__
)


@pytest.fixture(scope="module")
def files() -> list[pathlib.Path]:
    """What a worker for Python models loads of this package."""
    main = str(pathlib.Path(worker.__file__).with_name("main.py"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CHECK, main],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document: list[str] = json.loads(done.stdout)
    return [pathlib.Path(each) for each in document]


def test_a_worker_needs_the_standard_library_and_numpy_only(files: list[pathlib.Path]) -> None:
    top = pathlib.Path(naiad.__file__).parent
    names = {str(file.relative_to(top)) for file in files}
    assert "backends/python/instance.py" in names
    assert not any(
        name.startswith(("config/", "core/", "engine/", "scheduling/")) for name in names
    )


def test_its_files_are_python_3_8(files: list[pathlib.Path]) -> None:
    found: list[str] = []
    for path in files:
        tree = ast.parse(path.read_text(), feature_version=(3, 8))
        found += [f"{path}:{line}: {what}" for line, what in _newer(tree)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def f(x: list[int]): ...", [1]),
        ("def f() -> int | None: ...", [1]),
        ("class A:\n    x: dict[str, int]", [2]),
        ("def f():\n    x: dict[str, int | None] = {}\n    self.x: list[int] = []", []),
        ("def f(x: 'list[int]') -> 'int | None': ...", []),
        ("def f():\n    return set[int]()", [2]),
        ("from collections.abc import Callable\nF = Callable[[], None]", [2]),
        ("zip(a, b, strict=True)", [1]),
        ("'x'.removeprefix('y')", [1]),
    ],
)
def test_what_is_newer_is_found(text: str, lines: list[int]) -> None:
    assert [line for line, _ in _newer(ast.parse(text))] == lines


def _newer(tree: ast.AST) -> collections.abc.Iterator[tuple[int, str]]:
    """What 3.8 would stumble over when it executes a module."""
    for node in _executed(tree, in_function=False):
        if isinstance(node, ast.Subscript) and _name(node.value) in _GENERIC:
            yield node.lineno, "a subscript of what 3.8 cannot subscript"
        elif isinstance(node, ast.Call) and any(
            keyword.arg == "strict" for keyword in node.keywords
        ):
            yield node.lineno, "strict="
        elif isinstance(node, ast.Attribute) and node.attr in {"removeprefix", "removesuffix"}:
            yield node.lineno, node.attr


def _executed(node: ast.AST, *, in_function: bool) -> collections.abc.Iterator[ast.AST]:
    """A tree without annotations of local variables, which are not evaluated; a union in an annotation counts as a subscript."""
    yield node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        everything = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        for annotation in [*(each.annotation for each in everything), node.returns]:
            if isinstance(annotation, ast.BinOp):
                yield ast.Subscript(ast.Name("list"), annotation, lineno=annotation.lineno)
        in_function = True
    for field, value in ast.iter_fields(node):
        if field == "annotation" and isinstance(node, ast.AnnAssign) and in_function:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _executed(child, in_function=in_function)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
