"""Other releases of this tree's images, for stories of upgrades: a layer with a few changed files on an image that is built already.

They are this tree but for what is written here, so that a story shows what one difference does. Such a layer takes seconds, and it brings compiled
files, since those of the images are used whatever their sources say.
"""

import dataclasses
import pathlib
import py_compile
import tempfile

from e2e.addons.target import Target
from e2e.imagebuild.build import Images

_PACKAGES = "/opt/naiad/lib/python3.11/site-packages"


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """Another release.

    Attributes:
        part: `server` or `operator`.
        package: its Python package.
        version: what it says of itself, and the image's tag.
        edits: the file in the package, and the text that is replaced by another.
    """

    part: str
    package: str
    version: str
    edits: tuple[tuple[str, str, str], ...]

    @property
    def image(self) -> str:
        """The image's name on this project's own cluster."""
        return f"naiad-{self.part}:{self.version}"

    def files(self, tree: pathlib.Path) -> dict[str, str]:
        """The changed files by their path, below the tree's folder of sources.

        Raises:
            ValueError: a text is not exactly once in its file: the release must be written again.
        """
        version = (f"{self.package}/__init__.py", f'"{_version(tree / self.part / self.package)}"', f'"{self.version}"')  # fmt: skip
        changed: dict[str, str] = {}
        for name, old, new in (version, *self.edits):
            text = changed.get(name) or (tree / self.part / name).read_text()
            if text.count(old) != 1:
                raise ValueError(f"release {self.version}: {self.part}/{name} should have once: {old}")  # fmt: skip
            changed[name] = text.replace(old, new)
        return changed


LATER_OPERATOR = Release(
    part="operator",
    package="naiad_operator",
    version="0.9.0",
    edits=(
        (
            "naiad_operator/builders/workload/container.py",
            '        "HOME": {"name": "HOME",',
            '        "RELEASE": {"name": "RELEASE", "value": "0.9.0"},\n        "HOME": {"name": "HOME",',
        ),
    ),
)
"""A release that gives all pods one more environment variable, which changes nothing else."""

REMOVED_OPTION = "--readiness-policy"
OLDER_SERVER = Release(
    part="server",
    package="naiad",
    version="0.1.0",
    edits=(
        (
            "naiad/options/options.py",
            '        _special("readiness-policy", "Which models must be ready for the server to be: all (the default), any (at least one), or models:NAME,NAME."),\n',
            "",
        ),
        ("naiad/options/special.py", '    "readiness-policy": _readiness_policy,\n', ""),
    ),
)
"""A release whose parser does not have the option `REMOVED_OPTION`, as 0.1.0 did not."""


def provide(cluster: Target, images: Images, tree: pathlib.Path) -> None:
    """Both releases on a cluster.

    Raises:
        BuildahError: buildah failed.
        ValueError: the tree does not have what a release changes.
    """
    for release in (LATER_OPERATOR, OLDER_SERVER):
        cluster.import_archive(build(images, tree, release))


def build(images: Images, tree: pathlib.Path, release: Release) -> pathlib.Path:
    """Builds the image of a release on that of the tree, which must have been built; its archive.

    Raises:
        BuildahError: buildah failed.
        ValueError: the tree does not have what the release changes.
    """
    archive = images.folder / f"naiad-{release.part}-{release.version}.tar"
    with tempfile.TemporaryDirectory(dir=images.folder) as name:
        folder = pathlib.Path(name)
        for path, text in release.files(tree).items():
            file = folder / "files" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(str(file), dfile=f"{_PACKAGES}/{path}", doraise=True, invalidation_mode=mode)  # fmt: skip
        (folder / "Dockerfile").write_text(f"FROM {images.loaded(release.part)}\nCOPY files {_PACKAGES}\n")  # fmt: skip
        images.buildah.build(folder, "Dockerfile", release.image)
    images.buildah.save(release.image, archive)
    return archive


def _version(package: pathlib.Path) -> str:
    """The version that the tree's package says."""
    line = next(line for line in (package / "__init__.py").read_text().splitlines() if line.startswith("__version__"))  # fmt: skip
    return line.split('"')[1]
