"""When an image is built again: after a change of a file that it is made of, and only then."""

import pathlib

import pytest

from e2e.imagebuild import build

FILES = (*build.SHARED_FILES, "Dockerfile.server", "Dockerfile.operator", "server/naiad/a.py", "operator/naiad_operator/b.py", "wheels/numpy-2.0.whl")  # fmt: skip


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    for name in FILES:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("server/naiad/a.py", {"server"}),
        ("server/naiad/new.py", {"server"}),
        ("operator/naiad_operator/b.py", {"operator"}),
        ("Dockerfile.operator", {"operator"}),
        ("constraints.txt", {"server", "operator"}),
        ("wheels/numpy-2.1.whl", {"server", "operator"}),
        ("server/naiad/__pycache__/a.pyc", set()),
        ("docs/new.md", set()),
    ],
)
def test_an_image_is_built_again_when_a_file_of_it_has_changed(
    tree: pathlib.Path, name: str, parts: set[str]
) -> None:
    before = {part: build.digest(tree, part) for part in build.PARTS}
    file = tree / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("changed")
    assert {part for part in build.PARTS if build.digest(tree, part) != before[part]} == parts
