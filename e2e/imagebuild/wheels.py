"""The wheels that the image builds install, so that they need no network: made once per set of requirements, kept outside of the tree.

They lie in `$XDG_CACHE_HOME/naiad/images/wheels-<digest>/` and are copied to the tree's `wheels/`, from where the Dockerfiles take them.
"""

import hashlib
import json
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable

from e2e.imagebuild.buildah import BuildahError
from tests.toolchain.programs import cache_folder, lock

_BUILDERS = ("hatchling", "backports.tarfile")
"""What builds the project, and what only the Python of the base image needs: Debian has 3.11.2."""
_PYTHON = (3, 11)
"""Of the base image."""
_KEPT = 3


def images_folder() -> pathlib.Path:
    """Where the base image and the wheels are kept."""
    return cache_folder().parent / "images"


def ensure(tree: pathlib.Path, extras: str) -> bool:
    """Puts the wheels of everything that the images install into the tree.

    Args:
        tree: the project.
        extras: its extras, by commas.

    Returns:
        Whether they had to be downloaded or built.

    Raises:
        BuildahError: pip failed, or this Python is not that of the base image.
    """
    if sys.version_info[:2] != _PYTHON:
        raise BuildahError(f"wheels are made for the Python that runs this, {platform.python_version()}, and the base image has {_PYTHON[0]}.{_PYTHON[1]}: make the environment with it (make clean, then make images PYTHON=python{_PYTHON[0]}.{_PYTHON[1]})")  # fmt: skip
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    wanted = [project["dependencies"], project["optional-dependencies"], (tree / "constraints.txt").read_text(), extras, _BUILDERS, sys.version, platform.machine()]  # fmt: skip
    home = images_folder() / f"wheels-{hashlib.sha256(json.dumps(wanted).encode()).hexdigest()[:16]}"  # fmt: skip
    made = False
    with lock(images_folder() / "wheels"):
        if not home.is_dir():
            _make(tree, extras, home)
            made = True
        _copy(home, tree / "wheels")
    return made


def _copy(home: pathlib.Path, folder: pathlib.Path) -> None:
    """Copies the wheels that a folder lacks. One that has a wheel's name is whole."""
    folder.mkdir(exist_ok=True)
    for wheel in home.iterdir():
        place = folder / wheel.name
        if not place.exists():
            partial = folder / ".partial"
            shutil.copy2(wheel, partial)
            partial.replace(place)


def download(tree: pathlib.Path, folder: pathlib.Path, packages: Iterable[str]) -> None:
    """Wheels of packages, with all that they need, so that an image's build needs no network.

    Raises:
        BuildahError: pip failed.
    """
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--wheel-dir", str(folder), "-c", "constraints.txt", *packages]  # fmt: skip
    finished = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise BuildahError(f"{' '.join(command)} failed: {finished.stderr[-2000:]}")
    for own in folder.glob("naiad-*.whl"):
        own.unlink()  # the project itself is built in the image, from the tree


def _make(tree: pathlib.Path, extras: str, home: pathlib.Path) -> None:
    for left in home.parent.glob(".wheels.*/"):
        shutil.rmtree(left, ignore_errors=True)  # by one that was ended
    with tempfile.TemporaryDirectory(prefix=".wheels.", dir=home.parent) as name:
        scratch = pathlib.Path(name) / "wheels"
        download(tree, scratch, [f".[{extras}]", *_BUILDERS])
        scratch.rename(home)
    older = sorted(home.parent.glob("wheels-*/"), key=lambda folder: folder.stat().st_mtime)
    for folder in older[:-_KEPT]:
        shutil.rmtree(folder, ignore_errors=True)
