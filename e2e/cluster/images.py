"""Container images without a registry: archives are imported into the containerd of each node.

Small images of single programs are written here directly, as docker archives of one layer; the project's own come from buildah.
"""

import hashlib
import io
import json
import pathlib
import platform
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence

from e2e.cluster.namespaces import Namespaces
from tests.toolchain.programs import Programs

SOCKET = "/run/containerd/containerd.sock"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_FOLDERS = ("bin", "tmp", "etc", "dev", "proc", "sys")


def write(
    archive: pathlib.Path,
    image: str,
    files: Mapping[str, pathlib.Path],
    entrypoint: Sequence[str],
    *,
    links: "Mapping[str, str] | None" = None,
) -> None:
    """Writes a docker archive with one layer.

    Args:
        archive: the file.
        image: its name and tag.
        files: programs by their path in the image.
        entrypoint: its command.
        links: symbolic links by path, and where they lead.
    """
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in _FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for path, source in files.items():
            content = source.read_bytes()
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
        for path, target in (links or {}).items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": list(entrypoint), "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    layer_name = f"{digest}/layer.tar"
    manifest = [{"Config": config_name, "RepoTags": [image], "Layers": [layer_name]}]
    contents = {
        config_name: config,
        layer_name: layer.getvalue(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w") as tar:
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def import_archive(place: Namespaces, programs: Programs, archive: pathlib.Path) -> None:
    """Makes the images of an archive known to a node. It is opened here, as a node sees its own /var, /opt and /run only.

    Raises:
        RuntimeError: containerd refused it.
    """
    ctr = [programs["ctr"], "-a", SOCKET, "-n", "k8s.io", "images", "import", "-"]
    with archive.open("rb") as content:
        finished = subprocess.run(place.entered(*ctr), stdin=content, capture_output=True, text=True, check=False)  # fmt: skip
    if finished.returncode:
        raise RuntimeError(f"{place.name}: import of {archive}: {finished.stderr.strip()}")


def copy(source: Namespaces, target: Namespaces, programs: Programs, image: str) -> None:
    """Makes an image of one node known to another.

    Raises:
        RuntimeError: containerd refused it.
    """
    ctr = [programs["ctr"], "-a", SOCKET, "-n", "k8s.io", "images"]
    name = image if "/" in image else f"docker.io/library/{image}"
    # Without --local, ctr may end before the last of what containerd sends it is written.
    export = source.entered(*ctr, "export", "--local", "-", name)
    load = target.entered(*ctr, "import", "-")
    with tempfile.TemporaryFile() as archive:
        for command, files in ((export, (None, archive)), (load, (archive, subprocess.DEVNULL))):
            archive.seek(0)
            stdin, stdout = files
            finished = subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, check=False)  # fmt: skip
            if finished.returncode:
                raise RuntimeError(f"{image} from {source.name} to {target.name}: {finished.stderr.decode()}")  # fmt: skip
