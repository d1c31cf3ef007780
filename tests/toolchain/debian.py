"""Programs of Debian packages, unpacked into the cache and not installed: they work without root rights and change nothing on the machine."""

import pathlib
import shutil
import subprocess
import tempfile

from tests.toolchain.build import BuildError
from tests.toolchain.programs import cache_folder, lock

PACKAGES = {
    "runc": "usr/sbin/runc",
    "containernetworking-plugins": "usr/lib/cni",
    "busybox-static": "bin/busybox",
    "openssl": "usr/bin/openssl",
    "libfaketime": "usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
}
"""What is used of each package, relative to the root."""


def unpacked(package: str) -> pathlib.Path:
    """The program or folder of a package, downloaded and unpacked first if it is not in the cache.

    Raises:
        BuildError: the package cannot be downloaded.
    """
    home = cache_folder() / "debian" / package
    if not home.is_dir():
        with lock(home):
            if not home.is_dir():
                _unpack(package, home)
    return home / PACKAGES[package]


def _unpack(package: str, home: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory(dir=home.parent) as name:
        scratch = pathlib.Path(name)
        command = ["apt-get", "download", package]
        finished = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        archives = list(scratch.glob("*.deb"))
        if finished.returncode or not archives:
            raise BuildError(
                f"{' '.join(command)} failed: {finished.stderr.strip()[-500:]} (apt-get update brings the list of packages up to date)"
            )
        subprocess.run(["dpkg", "-x", str(archives[0]), str(scratch / "root")], check=True)
        shutil.move(scratch / "root", home)
