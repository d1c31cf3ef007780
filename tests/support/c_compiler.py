"""Builds shared libraries of C sources with the C compiler of this machine; a test without one is skipped, in words."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
IDENTITY = ROOT / "examples" / "backends" / "identity"


def make(folder: pathlib.Path, into: pathlib.Path, library: str) -> pathlib.Path:
    """Build an example in a copy of its folder, by its Makefile.

    Args:
        folder: the example.
        into: where the library goes, a folder that is made.
        library: its file name.
    """
    if shutil.which("cc") is None or shutil.which("make") is None:
        pytest.skip(
            "there is no C compiler on this machine (cc and make): the libraries of C backends cannot be built"
        )
    shutil.copytree(folder, into, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so"))
    _run(["make", "-C", str(into), f"PYTHON={sys.executable}", library], ROOT / "server")
    return into / library


def compile_library(source: str, into: pathlib.Path, *options: str) -> pathlib.Path:
    """Build one source text as a library."""
    if shutil.which("cc") is None:
        pytest.skip(
            "there is no C compiler on this machine (cc): the libraries of C backends cannot be built"
        )
    into.parent.mkdir(parents=True, exist_ok=True)
    file = into.with_suffix(".c")
    file.write_text(source)
    include = subprocess.run(
        [sys.executable, "-m", "naiad.backends.c"],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "server")},
    ).stdout.strip()  # fmt: skip
    _run(
        ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-std=gnu11", "-fPIC", "-shared", f"-I{include}", *options, "-o", str(into), str(file)],
        ROOT,
    )  # fmt: skip
    file.unlink()
    return into


def _run(command: list[str], pythonpath: pathlib.Path) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(pythonpath)}
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
