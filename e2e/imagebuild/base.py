"""The base image where no registry can be reached: a small Debian with Python, under the name that the Dockerfiles ask for.

It is made once, and kept as an archive outside of the tree; remove `$XDG_CACHE_HOME/naiad/images/base.tar` for newer packages.
"""

import pathlib
import shutil
import subprocess
import tempfile
import urllib.parse

from e2e.imagebuild import wheels
from e2e.imagebuild.buildah import Buildah, BuildahError
from tests.toolchain.programs import lock

NAME = "python:3.11-slim"
_NAMES = (f"docker.io/library/{NAME}", f"localhost/{NAME}")
_PACKAGES = "ca-certificates,python3,python3-venv"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def ensure(buildah: Buildah) -> bool:
    """Gives the storage the base image unless it has it.

    Returns:
        Whether it had to be made by debootstrap: half a minute.

    Raises:
        BuildahError: debootstrap is missing or failed.
    """
    archive = wheels.images_folder() / "base.tar"
    with lock(archive):
        is_made = not archive.exists()
        if is_made:
            _debootstrap(buildah)
            buildah.save(_NAMES[0], archive)
        version, known = str(archive.stat().st_mtime_ns), buildah.storage / "base.version"
        if known.exists() and known.read_text() == version and all(map(buildah.has, _NAMES)):
            return False
        # Also one that was made just now: an image has another id once it was in an archive.
        buildah.load(archive)
        buildah.run("tag", *_NAMES)
        known.write_text(version)
    return is_made


def _debootstrap(buildah: Buildah) -> None:
    if shutil.which("debootstrap") is None:
        raise BuildahError("the base image is made by debootstrap, which is not installed: apt-get install debootstrap")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="naiad-base-", dir="/var/tmp") as name:
        root = pathlib.Path(name) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(root), *_mirror()]  # fmt: skip
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode:
            raise BuildahError(f"{' '.join(command)} failed: {finished.stdout[-2000:]}{finished.stderr[-500:]}")  # fmt: skip
        for unneeded in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
            shutil.rmtree(root / unneeded, ignore_errors=True)
        buildah.import_folder(root, _NAMES[0], _PATH)


def _mirror() -> list[str]:
    """The mirror of Debian that this machine's apt uses: the first address whose path ends in `debian`."""
    folder = pathlib.Path("/etc/apt")
    for file in (folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))):
        for word in file.read_text().split() if file.is_file() else ():
            if urllib.parse.urlsplit(word).scheme and word.rstrip("/").endswith("/debian"):
                return [word]
    return []
