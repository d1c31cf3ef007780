"""The images of this tree: base and wheels first, then each Dockerfile, then an archive and an SBOM. What has not changed is not built again."""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import pathlib
import tomllib
import typing
from collections.abc import Callable, Iterator

from e2e.imagebuild import base, sbom, wheels
from e2e.imagebuild.buildah import Buildah

_EXTRAS = {"server": "server,s3,gcs,azure,huggingface,oci", "operator": "operator"}
PARTS = tuple(_EXTRAS)
"""The images, by the folder of their sources."""

_LIMITS_MB = {"server": 280, "operator": 180}
SHARED_FILES = ("pyproject.toml", "constraints.txt", "README.md", "LICENSE", "images/trim.py")
"""What both Dockerfiles copy beside their own sources."""


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """A built image.

    Attributes:
        name: with its tag.
        archive: the docker archive.
        megabytes: unpacked, without the base.
        limit: what it may have.
        packages: how many Python packages it holds; the SBOM lists them, and those of the base.
        is_new: whether it was built just now.
    """

    name: str
    archive: pathlib.Path
    megabytes: float
    limit: int
    packages: int
    is_new: bool


class Images:
    """Builds the images of a tree; a context, at whose end no mount is left. One process at a time enters it for a folder.

    Args:
        tree: the project.
        folder: where archives and SBOMs are written.
        say: called with each step that took long.

    Attributes:
        folder: as in the arguments.
        version: of the tree, the images' tag.
        buildah: the storage with the images.
    """

    def __init__(
        self, tree: pathlib.Path, folder: pathlib.Path, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._tree = tree
        self.folder = folder
        self._say = say
        project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
        self.version = str(project["version"])
        folder.mkdir(parents=True, exist_ok=True)
        self.buildah = Buildah(folder / "storage")
        self._held = contextlib.ExitStack()

    def __enter__(self) -> typing.Self:
        # Two would write the same archives, and the first to end would unmount what the other builds in.
        handle = self._held.enter_context((self.folder / ".lock").open("w"))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._say(f"waiting for another process that builds images in {self.folder}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        self.buildah.clean()
        return self

    def __exit__(self, *_: object) -> None:
        with self._held:
            self.buildah.unmount()

    def prepare(self) -> None:
        """Gets what both builds need: the base image and the wheels.

        Raises:
            BuildahError: a program is missing or failed.
        """
        if base.ensure(self.buildah):
            self._say("base image made by debootstrap")
        if wheels.ensure(self._tree, ",".join(_EXTRAS.values())):
            self._say("wheels downloaded")

    def build(self, part: str) -> Image:
        """Builds an image unless its archive is one of the same inputs. Both may be built at the same time.

        Args:
            part: one of `PARTS`.

        Raises:
            BuildahError: a program is missing or failed.
        """
        name = f"naiad-{part}:{self.version}"
        archive, note = self.folder / f"naiad-{part}.tar", self.folder / f"naiad-{part}.json"
        inputs = f"{digest(self._tree, part)} {self.buildah.id_of(base.NAME)}"
        known = json.loads(note.read_text()) if note.exists() and archive.exists() else {}
        is_new = known.get("inputs") != inputs
        if is_new:
            note.unlink(missing_ok=True)
            arguments = {"EXTRAS": _EXTRAS[part]} if part == "server" else {}
            self.buildah.build(self._tree, f"Dockerfile.{part}", name, VERSION=self.version, **arguments)  # fmt: skip
            self.buildah.save(name, archive)
            known = {"inputs": inputs, **self._measure(part, name)}
            note.write_text(json.dumps(known))
        return Image(name, archive, known["megabytes"], _LIMITS_MB[part], known["packages"], is_new)

    def loaded(self, part: str) -> str:
        """The name of a built image, which buildah's storage gets from the archive if it does not have it."""
        name = f"naiad-{part}:{self.version}"
        if not self.buildah.has(name):
            self.buildah.load(self.folder / f"naiad-{part}.tar")
        return name

    def _measure(self, part: str, name: str) -> dict[str, typing.Any]:
        """Writes the SBOM; the unpacked size without the base, and the number of packages."""
        with self.buildah.mounted(name) as root:
            environment = root / "opt" / "naiad"
            size = sum(path.lstat().st_size for path in environment.rglob("*"))
            listed = self.folder / f"naiad-{part}.cdx.json"
            packages = sbom.write(root, f"naiad-{part}", self.version, listed)
        return {"megabytes": size / 1e6, "packages": packages}


def digest(tree: pathlib.Path, part: str) -> str:
    """A digest of everything that an image is made of: the files that its Dockerfile copies, and the wheels by their names."""
    whole = hashlib.sha256(_EXTRAS[part].encode())
    for file in _files(tree, part):
        whole.update(f"{file.relative_to(tree)} {file.stat().st_size}\n".encode())
        whole.update(b"" if file.suffix == ".whl" else file.read_bytes())
    return whole.hexdigest()


def _files(tree: pathlib.Path, part: str) -> Iterator[pathlib.Path]:
    yield tree / f"Dockerfile.{part}"
    for name in SHARED_FILES:
        yield tree / name
    for folder in (tree / part, tree / "wheels"):
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file
