"""The way of a request in docs/architecture.md names methods that exist, where the page says."""

import ast
import pathlib
import re

import pytest

_ROOT = pathlib.Path(__file__).parents[2]
_ROW = re.compile(r"\| (\d+) \| `(\w+)\.(\w+)` \| `([\w/]+\.py)` \|")
_ROWS = _ROW.findall((_ROOT / "docs" / "architecture.md").read_text())


def test_the_rows_are_numbered() -> None:
    assert [int(number) for number, *_ in _ROWS] == [*range(1, 17)]


@pytest.mark.parametrize(("owner", "method", "path"), [row[1:] for row in _ROWS])
def test_each_method_is_where_the_page_says(owner: str, method: str, path: str) -> None:
    tree = ast.parse((_ROOT / "server" / "naiad" / path).read_text())
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner]
    assert method in [node.name for node in found.body if isinstance(node, ast.FunctionDef)]
