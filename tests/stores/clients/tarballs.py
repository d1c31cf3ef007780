"""Tarballs as tests need them, damaged and hostile ones too."""

import collections.abc
import io
import tarfile
import typing


def entry(name: str, content: bytes = b"", **members: object) -> tuple[tarfile.TarInfo, bytes]:
    """A member: a file, unless `type` says otherwise."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(content), 1_700_000_000
    for member, value in members.items():
        setattr(info, member, value)
    return info, content


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    """A link; `LNKTYPE` is a hard one."""
    return entry(name, type=kind, linkname=target)


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    """A folder."""
    return entry(name, type=tarfile.DIRTYPE)


def tarball(
    *members: tuple[tarfile.TarInfo, bytes] | tuple[str, bytes], compression: str = ""
) -> bytes:
    """A tarball of members; a name and a content are a file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=f"w:{compression}") as archive:  # type: ignore[call-overload]
        for member in members:
            first, content = member
            info, content = entry(first, content) if isinstance(first, str) else (first, content)
            archive.addfile(info, io.BytesIO(content) if info.isreg() else None)
    return packed.getvalue()


def raw_tarball(
    *members: tuple[tarfile.TarInfo, bytes], form: typing.Literal[0, 1, 2] = 0
) -> bytes:
    """A tarball of members whose contents are written whatever their types are; `form`: USTAR (0), GNU (1) or PAX."""
    packed = io.BytesIO()
    for info, content in members:
        packed.write(info.tobuf(format=form))
        packed.write(content + bytes(-len(content) % tarfile.BLOCKSIZE))
    packed.write(bytes(2 * tarfile.BLOCKSIZE))
    return packed.getvalue()


def repository(
    models: collections.abc.Mapping[str, bytes], *, top: str = "", compression: str = "gz"
) -> bytes:
    """A tarball of a repository: per model its file, as version 1."""
    files = [(f"{top}{name}/1/model.onnx", content) for name, content in models.items()]
    return tarball(*files, compression=compression)
