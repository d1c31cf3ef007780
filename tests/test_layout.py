"""The layout that imports depend on."""

import pathlib

ROOT = pathlib.Path(__file__).parent.parent


def test_import_roots_are_no_packages() -> None:
    """`operator/__init__.py` would shadow the standard library's operator; `server/` is kept alike."""
    for folder in ("server", "operator"):
        assert (ROOT / folder).is_dir()
        assert not (ROOT / folder / "__init__.py").exists()


def test_every_test_folder_is_a_package() -> None:
    """Else two test files of one name clash, and mypy finds files twice."""
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
