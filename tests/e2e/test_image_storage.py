"""What a build that was interrupted, or that runs beside another one, leaves behind: no broken archive or wheel, no mount, no old base."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import typing

import pytest

from e2e.imagebuild import base, build, buildah, wheels
from e2e.imagebuild.buildah import Buildah, BuildahError
from tests.support import waiting

ROOT = pathlib.Path(__file__).parents[2]


class Storage:
    """A storage of images that are the texts of their archives."""

    def __init__(self, storage: pathlib.Path) -> None:
        self.storage = storage
        storage.mkdir(parents=True, exist_ok=True)
        self.images: dict[str, str] = {}
        self.built: list[str] = []
        self.unmounted = False

    def has(self, image: str) -> bool:
        return image in self.images

    def id_of(self, image: str) -> str:
        return self.images.get(image, self.images.get(f"docker.io/library/{image}", ""))

    def load(self, archive: pathlib.Path) -> None:
        self.images[f"docker.io/library/{base.NAME}"] = archive.read_text()

    def save(self, image: str, archive: pathlib.Path) -> None:
        archive.write_text(self.images[image])

    def build(self, tree: pathlib.Path, dockerfile: str, image: str, **_: str) -> None:
        self.built.append(image)
        self.images[image] = "built"

    def run(self, command: str, name: str, *others: str) -> None:
        assert command == "tag"
        self.images |= dict.fromkeys(others, self.images[name])

    def unmount(self) -> None:
        self.unmounted = True


@pytest.fixture(autouse=True)
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return wheels.images_folder()


def test_a_save_that_fails_leaves_the_archive_that_was_there(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the last argument is docker-archive:PATH:NAME:TAG
    script = 'for last; do :; done\necho half > "$(echo "$last" | cut -d: -f2)"\nexit 1'
    monkeypatch.setenv("PATH", _program(tmp_path / "bin", "buildah", script))
    archive = tmp_path / "image.tar"
    archive.write_text("whole")
    with pytest.raises(BuildahError):
        Buildah(tmp_path / "storage").save("image:1", archive)
    assert archive.read_text() == "whole"


def test_mounts_below_a_folder_whose_name_has_a_space_are_found() -> None:
    mounts = "overlay /a\\040tree/storage/root/overlay ext4 rw 0 0\nproc /proc proc rw 0 0\n"
    folder = pathlib.Path("/a tree/storage")
    assert buildah.mounted_below(mounts, folder) == ["/a tree/storage/root/overlay"]


def test_the_base_is_made_again_once_its_archive_was_removed(
    tmp_path: pathlib.Path, cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storages = [Storage(tmp_path / "one"), Storage(tmp_path / "two")]
    versions = iter(["bookworm", "bookworm with newer packages"])

    def debootstrap(storage: Storage) -> None:
        storage.images[f"docker.io/library/{base.NAME}"] = next(versions)

    def ensure(storage: Storage) -> tuple[bool, str]:
        is_made = base.ensure(typing.cast("Buildah", storage))
        return is_made, storage.images[f"localhost/{base.NAME}"]

    monkeypatch.setattr(base, "_debootstrap", debootstrap)
    assert ensure(storages[0]) == (True, "bookworm")
    assert [ensure(storage) for storage in storages] == [(False, "bookworm")] * 2
    (cache / "base.tar").unlink()
    assert ensure(storages[0]) == (True, "bookworm with newer packages")
    assert ensure(storages[1]) == (False, "bookworm with newer packages")


def test_an_image_is_built_again_on_another_base(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(tmp_path / "storage")
    images = build.Images(ROOT, tmp_path / "images")
    images.buildah = typing.cast("Buildah", storage)
    measured = {"megabytes": 1.0, "packages": 1}
    monkeypatch.setattr(images, "_measure", lambda part, name: measured)
    storage.images[base.NAME] = "first"
    assert images.build("operator").is_new
    assert not images.build("operator").is_new
    storage.images[base.NAME] = "second"
    assert images.build("operator").is_new


def test_two_builds_of_a_folder_wait_for_each_other(tmp_path: pathlib.Path) -> None:
    waiting, entered = threading.Event(), threading.Event()

    def second() -> None:
        with build.Images(ROOT, tmp_path, lambda _: waiting.set()):
            entered.set()

    with build.Images(ROOT, tmp_path):
        other = threading.Thread(target=second)
        other.start()
        assert waiting.wait(60)
        assert not entered.is_set()
    other.join(60)
    assert entered.is_set()


def _program(folder: pathlib.Path, name: str, script: str) -> str:
    """A folder with a program that runs a script, for PATH."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def test_what_an_interrupted_build_has_left_is_removed_by_the_next(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = tmp_path / "commands"
    monkeypatch.setenv("PATH", _program(tmp_path / "bin", "buildah", f'echo "$@" >> {commands}'))
    with build.Images(ROOT, tmp_path / "images"):
        assert not commands.exists(), "a new storage has no containers"
    (tmp_path / "images" / "storage" / "root" / "overlay-containers").mkdir(parents=True)
    with build.Images(ROOT, tmp_path / "images"):
        assert commands.read_text().endswith(" rm --all\n")


def test_a_build_that_is_terminated_ends_as_by_an_interrupt(tmp_path: pathlib.Path) -> None:
    """Without that its mounts stay."""
    started = tmp_path / "started"
    path = _program(tmp_path / "bin", "debootstrap", f"touch {started}; exec sleep 300")
    process = subprocess.Popen(
        [sys.executable, "-m", "e2e.imagebuild", str(tmp_path / "images")],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        stderr=subprocess.PIPE,
        text=True,
    )
    waiting.wait_until(started.exists, seconds=60)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "interrupted: the next build goes on from here\n"


def test_a_wheel_that_was_copied_in_part_has_no_wheels_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy2(ROOT / name, tree / name)

    def make(tree: pathlib.Path, extras: str, home: pathlib.Path) -> None:
        home.mkdir()
        (home / "numpy-2.whl").write_text("whole")

    def interrupted(source: pathlib.Path, place: pathlib.Path) -> None:
        pathlib.Path(place).write_text("wh")
        raise KeyboardInterrupt

    monkeypatch.setattr(wheels, "_make", make)
    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(shutil, "copy2", interrupted)
        wheels.ensure(tree, "operator")
    assert not list((tree / "wheels").glob("*.whl"))
    wheels.ensure(tree, "operator")
    assert (tree / "wheels" / "numpy-2.whl").read_text() == "whole"


def test_a_python_that_is_not_the_bases_is_refused_with_what_to_do(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "_PYTHON", (3, 99))
    with pytest.raises(BuildahError, match=r"the base image has 3\.99: .*PYTHON=python3\.99"):
        wheels.ensure(tmp_path, "operator")
