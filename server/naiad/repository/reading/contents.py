"""Lists and copies the contents of a model repository in a folder.

A link that leads out of the repository is refused by name: a copy must not hold files from outside. Links that stay inside are copied as the
files that they point to, so that a copy is complete by itself (a mounted ConfigMap consists of such links). Hidden entries at the top are left
out; the server does not read them either.
"""

import collections.abc
import dataclasses
import hashlib
import os
import pathlib
import stat

from naiad.errors import InferenceError, invalid

_MAX_ENTRIES = 1_000_000
"""A bound, because links to folders can repeat the same files without end; no repository has so many entries."""

_CHUNK = 4 << 20

Advance = collections.abc.Callable[[int], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One file or folder.

    Attributes:
        path: relative to the repository, as in the copy.
        source: the resolved path of the file or folder.
        size: bytes; 0 for a folder.
        modified: time of the last change, in nanoseconds; 0 for a folder.
    """

    path: str
    source: pathlib.Path
    size: int
    modified: int
    mode: int

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self.mode)


def contents(root: pathlib.Path) -> list[Entry]:
    """All entries of a repository, each folder before its contents.

    Raises:
        InferenceError: an entry cannot be read, leads out of the repository, or is neither a file nor a folder.
    """
    top = root.resolve()
    entries: list[Entry] = []
    pending = [("", top, frozenset((top,)))]
    while pending:
        below, folder, above = pending.pop()
        for child in _listed(folder, below):
            if not below and child.name.startswith("."):
                continue
            path = f"{below}/{child.name}" if below else child.name
            entry = _entry(path, child, top)
            if entry.is_folder:
                if entry.source in above:
                    raise invalid(f"{path}: this link leads back to a folder that it is in")
                pending.append((path, entry.source, above | {entry.source}))
            entries.append(entry)
            if len(entries) > _MAX_ENTRIES:
                raise invalid(
                    f"there are more than {_MAX_ENTRIES:,} files and folders: is this a model repository?"
                )
    return sorted(entries, key=lambda entry: entry.path.split("/"))


def _listed(folder: pathlib.Path, below: str) -> list[pathlib.Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise unreadable(below or str(folder), error) from None


def _entry(path: str, source: pathlib.Path, top: pathlib.Path) -> Entry:
    try:
        if source.is_symlink():
            source = _followed(path, source, top)
        status = source.lstat()
    except OSError as error:
        raise unreadable(path, error) from None
    if stat.S_ISDIR(status.st_mode):
        return Entry(path, source, 0, 0, status.st_mode)
    if stat.S_ISREG(status.st_mode):
        return Entry(path, source, status.st_size, status.st_mtime_ns, status.st_mode)
    raise invalid(f"{path}: is neither a file nor a folder; remove it from the repository")


def _followed(path: str, link: pathlib.Path, top: pathlib.Path) -> pathlib.Path:
    try:
        target = link.resolve(strict=True)
    except FileNotFoundError:
        raise invalid(
            f"{path}: this link points at {link.readlink()}, which does not exist"
        ) from None
    except RuntimeError:  # pathlib raises this for a cycle of links
        raise invalid(f"{path}: this link leads back to itself") from None
    if not target.is_relative_to(top):
        raise invalid(
            f"{path}: this link leads out of the repository, to {target}; put the file itself there"
        )
    return target


def unreadable(path: str, error: OSError) -> InferenceError:
    """The error for an entry that cannot be read."""
    return invalid(f"{path}: cannot be read: {error.strerror or error}; check its permissions")


def digest(entries: collections.abc.Iterable[Entry]) -> str:
    """A hash of names, sizes and times: equal for repositories with the same contents."""
    text = hashlib.sha256()
    for entry in entries:
        line = f"{entry.path}\0{entry.is_folder:d}\0{entry.size}\0{entry.modified}\n"
        text.update(line.encode(errors="surrogateescape"))
    return text.hexdigest()


def copy(
    entries: collections.abc.Iterable[Entry], target: pathlib.Path, *, advance: Advance
) -> None:
    """Copy entries into an empty folder. Blocking; on return every byte is on the disk.

    Args:
        entries: from `contents`.
        target: the folder.
        advance: called with the number of bytes that were copied since the last call.

    Raises:
        InferenceError: a file changed or disappeared during the copy, or cannot be read.
        OSError: the target cannot be written.
    """
    for entry in entries:
        made = target / entry.path
        if entry.is_folder:
            made.mkdir()
        else:
            _copy_file(entry, made, advance)


def _copy_file(entry: Entry, made: pathlib.Path, advance: Advance) -> None:
    # The file may have been replaced since it was listed: a link is not followed, and a pipe does not block.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        source = os.open(entry.source, flags)
    except OSError as error:
        raise unreadable(entry.path, error) from None
    try:
        _check_same(entry, source)
        with made.open("xb") as written:
            while chunk := _read(entry, source):
                written.write(chunk)
                advance(len(chunk))
            written.flush()
            os.fchmod(written.fileno(), stat.S_IMODE(entry.mode) & 0o777 | stat.S_IRUSR)
            os.fsync(written.fileno())
            copied = written.tell()
        _check_same(entry, source)
    finally:
        os.close(source)
    if copied != entry.size:
        raise _changed(entry)
    os.utime(made, ns=(entry.modified, entry.modified))


def _read(entry: Entry, source: int) -> bytes:
    try:
        return os.read(source, _CHUNK)
    except OSError as error:
        raise unreadable(entry.path, error) from None


def _check_same(entry: Entry, source: int) -> None:
    now = os.fstat(source)
    if not stat.S_ISREG(now.st_mode) or (now.st_size, now.st_mtime_ns) != (
        entry.size,
        entry.modified,
    ):
        raise _changed(entry)


def _changed(entry: Entry) -> InferenceError:
    return invalid(
        f"{entry.path}: changed while it was copied; copy again when no process writes it"
    )
