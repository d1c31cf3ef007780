"""buildah with a storage of its own, so that the machine's images stay as they are, and without the rights that a container needs."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator


class BuildahError(RuntimeError):
    """buildah is missing or failed; the message has its last lines."""


class Buildah:
    """A storage of images and the commands on it.

    Args:
        storage: its folder.

    Attributes:
        storage: as in the arguments.
    """

    def __init__(self, storage: pathlib.Path) -> None:
        self.storage = storage
        storage.mkdir(parents=True, exist_ok=True)
        # Otherwise short names of images are looked up in registries.
        self._registries = storage / "registries.conf"
        self._registries.write_text(
            'unqualified-search-registries = []\nshort-name-mode = "permissive"\n'
        )
        self._policy = storage / "policy.json"
        self._policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')

    def run(self, *arguments: str, text: str = "") -> str:
        """The output of a command.

        Raises:
            BuildahError: it failed.
        """
        if shutil.which("buildah") is None:
            raise BuildahError(
                "images are built by buildah, which is not installed: apt-get install buildah"
            )
        folders = ["--root", str(self.storage / "root"), "--runroot", str(self.storage / "run")]
        command = ["buildah", *folders, "--storage-driver", "overlay", *arguments]
        environment = {
            **os.environ,
            "BUILDAH_ISOLATION": "chroot",
            "CONTAINERS_REGISTRIES_CONF": str(self._registries),
            "TMPDIR": str(self.storage),
        }
        finished = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, env=environment
        )
        if finished.returncode:
            last = "\n".join((finished.stdout + finished.stderr).splitlines()[-30:])
            raise BuildahError(f"buildah {' '.join(arguments)} failed:\n{last}")
        return finished.stdout

    def has(self, image: str) -> bool:
        """Whether the storage has an image."""
        return bool(self.id_of(image))

    def id_of(self, image: str) -> str:
        """The id of an image of the storage, which changes with its content; "" if the storage does not have it."""
        try:
            return self.run("inspect", "--type", "image", "--format", "{{.FromImageID}}", image).strip()  # fmt: skip
        except BuildahError:
            return ""

    def import_folder(self, folder: pathlib.Path, image: str, path: str) -> None:
        """Makes a root file system an image.

        Args:
            folder: the root file system.
            image: its name.
            path: the `PATH` of its containers.
        """
        container = self.run("from", "scratch").strip()
        try:
            self.run("add", "--quiet", container, f"{folder}/", "/")
            self.run("config", "--env", f"PATH={path}", "--cmd", "python3", container)
            self.run("commit", "--quiet", container, image)
        finally:
            self.run("rm", container)

    def build(self, folder: pathlib.Path, dockerfile: str, image: str, **arguments: str) -> None:
        """Builds a Dockerfile of `folder`; `arguments` are its `ARG`s."""
        values = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]  # fmt: skip
        file = str(folder / dockerfile)
        self.run("bud", "--format=docker", "--layers", "--pull=false", f"--signature-policy={self._policy}", *values, "-f", file, "-t", image, str(folder))  # fmt: skip

    def save(self, image: str, archive: pathlib.Path) -> None:
        """Writes an image to a docker archive, under its own name. The archive is whole, or the one that was there."""
        partial = archive.with_name(f".{archive.name}.partial")
        partial.unlink(missing_ok=True)
        policy = f"--signature-policy={self._policy}"
        self.run("push", "--quiet", policy, image, f"docker-archive:{partial}:{image}")
        partial.replace(archive)

    def load(self, archive: pathlib.Path) -> str:
        """Takes the image of a docker archive into the storage; its id."""
        return self.run("pull", "--quiet", f"--signature-policy={self._policy}", f"docker-archive:{archive}").strip()  # fmt: skip

    def push(self, image: str, address: str, *, insecure: bool) -> str:
        """Pushes an image of the storage to a registry; `insecure` ones have no TLS. The digest that it has there."""
        tls = f"--tls-verify={'false' if insecure else 'true'}"
        with tempfile.NamedTemporaryFile(dir=self.storage) as digest:
            self.run("push", "--quiet", tls, f"--signature-policy={self._policy}", f"--digestfile={digest.name}", image, f"docker://{address}")  # fmt: skip
            return pathlib.Path(digest.name).read_text()

    def clean(self) -> None:
        """Removes the containers and mounts of builds that were interrupted; no other process may build in this storage meanwhile."""
        if (self.storage / "root" / "overlay-containers").is_dir():
            self.run("rm", "--all")
        self.unmount()

    def unmount(self) -> None:
        """Unmounts what builds have left mounted, as one that was interrupted does, so that the storage can be removed."""
        mounts = pathlib.Path("/proc/self/mounts").read_text()
        for place in reversed(mounted_below(mounts, self.storage.resolve())):
            subprocess.run(["/bin/umount", "-l", place], check=False)

    @contextlib.contextmanager
    def mounted(self, image: str) -> Iterator[pathlib.Path]:
        """The root file system of an image, for a context."""
        container = self.run("from", "--pull=false", image).strip()
        try:
            yield pathlib.Path(self.run("mount", container).strip())
        finally:
            self.run("rm", container)


def mounted_below(mounts: str, folder: pathlib.Path) -> list[str]:
    """The mount points below a folder, of `/proc/self/mounts`, where spaces and their like are octal numbers."""
    places = [line.split(" ")[1] for line in mounts.splitlines()]
    plain = [re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), place) for place in places]
    return [place for place in plain if pathlib.Path(place).is_relative_to(folder)]
