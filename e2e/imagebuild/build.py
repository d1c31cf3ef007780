"""The images of this tree: wheels first, then each Dockerfile, then an archive and an SBOM."""

import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Iterator

from e2e.imagebuild import base, sbom
from e2e.imagebuild.buildah import Buildah, BuildahError

_EXTRAS = {"server": "server,s3,gcs,azure", "operator": "operator"}
_OLDER_PYTHON = ("backports.tarfile",)
"""What only the Python of the base image may need: Debian has 3.11.2."""

_LIMITS_MB = {"server": 280, "operator": 180}


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """A built image.

    Attributes:
        name: with its tag.
        archive: the docker archive.
        megabytes: unpacked, without the base.
        limit: what it may have.
        packages: how many Python packages it holds; the SBOM lists them.
    """

    name: str
    archive: pathlib.Path
    megabytes: float
    limit: int
    packages: int


class Images:
    """Builds the images of a tree.

    Args:
        tree: the project.
        folder: where archives and SBOMs are written.
        version: the tag.
    """

    def __init__(self, tree: pathlib.Path, folder: pathlib.Path, version: str) -> None:
        self._tree = tree
        self._folder = folder
        self._version = version
        folder.mkdir(parents=True, exist_ok=True)
        self._buildah = Buildah(folder / "storage")

    def build(self) -> Iterator[Image]:
        """Builds and gives one image after the other.

        Raises:
            BuildahError: a program is missing or failed.
        """
        base.ensure(self._buildah)
        wanted = (f".[{','.join(_EXTRAS.values())}]", "hatchling", *_OLDER_PYTHON)
        download_wheels(self._tree, self._tree / "wheels", wanted)
        for part, extras in _EXTRAS.items():
            name = f"naiad-{part}:{self._version}"
            arguments = {"VERSION": self._version}
            if part == "server":
                arguments["EXTRAS"] = extras
            self._buildah.build(self._tree, f"Dockerfile.{part}", name, **arguments)
            archive = self._folder / f"naiad-{part}.tar"
            self._buildah.save(name, archive)
            with self._buildah.mounted(name) as root:
                environment = root / "opt" / "naiad"
                size = sum(path.lstat().st_size for path in environment.rglob("*"))
                listed = self._folder / f"naiad-{part}.cdx.json"
                packages = sbom.write(environment, f"naiad-{part}", self._version, listed)
            yield Image(name, archive, size / 1e6, _LIMITS_MB[part], packages)


def download_wheels(tree: pathlib.Path, folder: pathlib.Path, packages: Iterable[str]) -> None:
    """Wheels of packages, with all that they need, so that an image's build needs no network.

    Raises:
        BuildahError: pip failed.
    """
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--wheel-dir", str(folder), "-c", "constraints.txt", *packages]  # fmt: skip
    finished = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise BuildahError(f"{' '.join(command)} failed: {finished.stderr[-2000:]}")
    for own in folder.glob("naiad-*.whl"):
        own.unlink()  # the project itself is built in the image, from the tree
