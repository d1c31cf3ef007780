"""Unpacks a tarball of an environment into a folder, and never outside of it (row 15.30).

Python's own `data` filter checks each member: no absolute names, no `..`, no devices, no links that lead out. One kind of link may lead
out, because packed virtual environments hold it: `bin/python…`, the interpreter that it was made with. Nothing can be
written through it: a member below it would end outside, which the filter refuses. Python has these filters since 3.11.4; before that, which
includes Debian 12's 3.11.2, they come from the package backports.tarfile.
"""

import lzma
import pathlib
import re
import tarfile
import zlib

if not hasattr(tarfile, "data_filter"):
    from backports import tarfile  # type: ignore[no-redef]

_INTERPRETER = re.compile(r"(?:\./)?bin/python[0-9.]*")


class UnpackError(Exception):
    """The tarball cannot be unpacked; the message says why."""


def unpack(tarball: pathlib.Path, folder: pathlib.Path) -> None:
    """Unpack a tarball, compressed by gzip, bzip2, xz or not at all.

    Raises:
        UnpackError: it is not a tarball, is damaged, or has members that lead out of the folder.
        OSError: it cannot be read, or the folder cannot be written.
    """
    try:
        with tarfile.open(tarball) as archive:
            archive.extractall(folder, filter=check_member)  # noqa: S202 - each member is checked
    except tarfile.FilterError as error:
        raise UnpackError(
            f"its member '{error.tarinfo.name}' is refused: {error}: pack the environment with conda-pack, or tar its folder from inside "
            "(tar -czf env.tar.gz -C ENV .)"
        ) from error
    except (tarfile.TarError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise UnpackError(f"it is not a readable tarball: {error}") from error


def check_member(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """Return what is written for a member; raise `tarfile.FilterError` for one that is refused."""
    try:
        return tarfile.data_filter(member, folder)
    except (tarfile.AbsoluteLinkError, tarfile.LinkOutsideDestinationError):
        if member.issym() and _INTERPRETER.fullmatch(member.name):
            return tarfile.tar_filter(member, folder)
        raise
