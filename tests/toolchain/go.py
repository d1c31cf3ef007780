"""Where Go is."""

import os
import pathlib
import shutil
import sys

FOLDERS = (pathlib.Path(sys.executable).parent, pathlib.Path("/usr/local/go/bin"))
"""Searched after PATH: `make` puts a Go into the environment where the machine has none, and go.dev's archive is unpacked to the other."""


def path() -> "str | None":
    """The program `go`, or None where there is none."""
    folders = [os.environ.get("PATH", os.defpath), *(str(folder) for folder in FOLDERS)]
    return shutil.which("go", path=os.pathsep.join(folders))
