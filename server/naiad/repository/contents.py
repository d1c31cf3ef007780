"""What a model repository in a folder holds, and copying it: every file and folder, links followed as far as they stay inside.

A link that leaves the repository is refused and named: a copy must not hold files from outside of the repository. Links
that stay inside are copied as what they point at, so that a copy needs nothing beside itself (a mounted ConfigMap consists of such
links). Hidden entries at the top are left out; the server does not read them either.
"""

import collections.abc
import dataclasses
import hashlib
import os
import pathlib
import stat

from naiad.errors import InferenceError, invalid

_MOST_ENTRIES = 1_000_000
"""Links to folders can name the same files without end; no repository has so many."""

_CHUNK = 4 << 20

Advance = collections.abc.Callable[[int], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One file or folder.

    Attributes:
        path: below the repository, as the copy has it.
        source: the file itself, with no link on the way.
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
    """Everything in a repository, each folder before what is in it.

    Raises:
        InferenceError: something in it cannot be read, leads out of it, or is neither a file nor a folder.
    """
    top = root.resolve()
    found: list[Entry] = []
    pending = [("", top, frozenset((top,)))]
    while pending:
        below, folder, above = pending.pop()
        for each in _listed(folder, below):
            if not below and each.name.startswith("."):
                continue
            path = f"{below}/{each.name}" if below else each.name
            entry = _entry(path, each, top)
            if entry.is_folder:
                if entry.source in above:
                    raise invalid(f"{path}: this link leads back to a folder that it is in")
                pending.append((path, entry.source, above | {entry.source}))
            found.append(entry)
            if len(found) > _MOST_ENTRIES:
                raise invalid(
                    f"there are more than {_MOST_ENTRIES:,} files and folders: is this a model repository?"
                )
    return sorted(found, key=lambda entry: entry.path.split("/"))


def _listed(folder: pathlib.Path, below: str) -> list[pathlib.Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise unreadable(below or str(folder), error) from None


def _entry(path: str, found: pathlib.Path, top: pathlib.Path) -> Entry:
    try:
        if found.is_symlink():
            found = _followed(path, found, top)
        facts = found.lstat()
    except OSError as error:
        raise unreadable(path, error) from None
    if stat.S_ISDIR(facts.st_mode):
        return Entry(path, found, 0, 0, facts.st_mode)
    if stat.S_ISREG(facts.st_mode):
        return Entry(path, found, facts.st_size, facts.st_mtime_ns, facts.st_mode)
    raise invalid(f"{path}: is neither a file nor a folder; take it out of the repository")


def _followed(path: str, link: pathlib.Path, top: pathlib.Path) -> pathlib.Path:
    try:
        target = link.resolve(strict=True)
    except FileNotFoundError:
        raise invalid(
            f"{path}: this link points at {link.readlink()}, which is not there"
        ) from None
    except RuntimeError:  # pathlib raises this for a cycle of links
        raise invalid(f"{path}: this link leads back to itself") from None
    if not target.is_relative_to(top):
        raise invalid(
            f"{path}: this link leads out of the repository, to {target}; put the file itself there"
        )
    return target


def unreadable(path: str, error: OSError) -> InferenceError:
    """The sentence for what cannot be read."""
    return invalid(f"{path}: cannot be read: {error.strerror or error}; check its permissions")


def digest(entries: collections.abc.Iterable[Entry]) -> str:
    """Tells whether two repositories hold the same, by names, sizes and times."""
    text = hashlib.sha256()
    for entry in entries:
        line = f"{entry.path}\0{entry.is_folder:d}\0{entry.size}\0{entry.modified}\n"
        text.update(line.encode(errors="surrogateescape"))
    return text.hexdigest()


def copy(
    entries: collections.abc.Iterable[Entry], target: pathlib.Path, *, advance: Advance
) -> None:
    """Copy into a folder that is empty. Blocking; on return every byte is on the disk.

    Args:
        entries: from `contents`.
        target: the folder.
        advance: called with the bytes that were copied since.

    Raises:
        InferenceError: a file changed or went away meanwhile, or cannot be read.
        OSError: the target cannot be written.
    """
    for entry in entries:
        made = target / entry.path
        if entry.is_folder:
            made.mkdir()
        else:
            _copy_file(entry, made, advance)


def _copy_file(entry: Entry, made: pathlib.Path, advance: Advance) -> None:
    # Whatever took the file's place since it was listed: a link is not followed, a pipe not waited for.
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
