"""The other releases that stories of upgrades run: they differ from this tree in what they say, and run."""

import pathlib
import shutil
import subprocess
import sys

import pytest

from e2e.imagebuild import releases
from e2e.imagebuild.releases import LATER_OPERATOR, OLDER_SERVER, REMOVED_OPTION, Release

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(release: Release, folder: pathlib.Path, *arguments: str) -> "subprocess.CompletedProcess[str]":  # fmt: skip
    """Runs the release's program from a copy of this tree's package."""
    shutil.copytree(ROOT / release.part / release.package, folder / release.package)
    for name, text in release.files(ROOT).items():
        (folder / name).write_text(text)
    command = [sys.executable, "-B", "-m", release.package, *arguments]
    return subprocess.run(command, cwd=folder, env={"PATH": ""}, capture_output=True, text=True, check=False)  # fmt: skip


@pytest.mark.parametrize("release", [LATER_OPERATOR, OLDER_SERVER], ids=lambda one: one.image)
def test_a_release_says_its_version(release: Release, tmp_path: pathlib.Path) -> None:
    assert release.version in run(release, tmp_path, "--version").stdout


def test_the_older_server_does_not_know_the_removed_option(tmp_path: pathlib.Path) -> None:
    ended = run(OLDER_SERVER, tmp_path, "serve", "--model-repository=/none", f"{REMOVED_OPTION}=any")  # fmt: skip
    assert ended.returncode
    assert REMOVED_OPTION in ended.stderr


def test_a_change_of_the_tree_that_a_release_does_not_fit_is_named(tmp_path: pathlib.Path) -> None:
    package = tmp_path / "operator" / "naiad_operator"
    (package / "builders" / "workload").mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "0.2.0"\n')
    (package / "builders" / "workload" / "container.py").write_text("")
    with pytest.raises(ValueError, match=r"builders/workload/container\.py should have once"):
        releases.LATER_OPERATOR.files(tmp_path)
