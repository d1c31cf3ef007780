"""Tarballs of environments, well-meant ones and others."""

import io
import pathlib
import tarfile
import threading

import pytest

from naiad.environments.builder import EnvironmentBuilder
from naiad.environments.programs import Programs
from naiad.errors import InferenceError


def tarball(path: pathlib.Path, *members: tarfile.TarInfo | tuple[str, bytes]) -> pathlib.Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            if isinstance(member, tuple):
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                info.mode = 0o755
                archive.addfile(info, io.BytesIO(member[1]))
            else:
                archive.addfile(member)
    return path


def unpack(tarball: pathlib.Path, folder: pathlib.Path) -> None:
    EnvironmentBuilder("m", Programs(threading.Event()), folder=folder, lock=-1).unpack(tarball)


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_files_links_and_rights_come_out(tmp_path: pathlib.Path) -> None:
    packed = tarball(
        tmp_path / "e.tar.gz",
        ("bin/tool", b"#!/bin/sh\n"),
        link("bin/alias", "tool"),
        link("./bin/python3", "/usr/bin/python3"),
        link("bin/python", "python3"),
    )
    unpack(packed, tmp_path / "out")
    assert (tmp_path / "out/bin/alias").read_bytes() == b"#!/bin/sh\n"
    assert (tmp_path / "out/bin/tool").stat().st_mode & 0o111 == 0o111
    assert str((tmp_path / "out/bin/python3").readlink()) == "/usr/bin/python3"


@pytest.mark.parametrize(
    "member",
    [
        ("../evil", b"x"),
        ("a/../../evil", b"x"),
        link("lib/out", "/etc"),
        link("lib/out", "../../etc"),
        link("bin/python/../../out", "/etc"),
        link("bin/hard", "/etc/passwd", tarfile.LNKTYPE),
        link("dev", "", tarfile.CHRTYPE),
    ],
    ids=["up", "hidden up", "link", "relative link", "disguised link", "hard link", "device"],
)
def test_members_that_lead_outside_are_refused_by_name(
    member: tarfile.TarInfo | tuple[str, bytes], tmp_path: pathlib.Path
) -> None:
    packed = tarball(tmp_path / "e.tar.gz", member)
    name = member[0] if isinstance(member, tuple) else member.name
    with pytest.raises(InferenceError, match=f"'{name}' is refused"):
        unpack(packed, tmp_path / "deep" / "out")
    assert not (tmp_path / "deep" / "evil").exists()


def test_nothing_is_written_through_the_link_to_an_interpreter(tmp_path: pathlib.Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    packed = tarball(
        tmp_path / "e.tar.gz", link("bin/python", str(outside)), ("bin/python/evil", b"x")
    )
    with pytest.raises(InferenceError, match="bin/python/evil"):
        unpack(packed, tmp_path / "out")
    assert list(outside.iterdir()) == []


def test_an_invalid_or_truncated_tarball_is_reported(tmp_path: pathlib.Path) -> None:
    broken = tmp_path / "e.tar.gz"
    broken.write_bytes(b"PK not a tarball")
    with pytest.raises(InferenceError, match="not a readable tarball"):
        unpack(broken, tmp_path / "out")
    whole = tarball(tmp_path / "w.tar.gz", ("data", bytes(range(256)) * 5000)).read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InferenceError, match="not a readable tarball"):
        unpack(broken, tmp_path / "out")
