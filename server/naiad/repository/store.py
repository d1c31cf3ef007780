"""Where model repositories are stored: the store interface, and the local folder, which implements it.

A store lists the names of its models, tells whether a model has changed, and makes a model available as a local folder; each for one model
at a time, so that listing a repository reads no model. The stores that are not local folders are in `stores/`.
"""

import collections
import collections.abc
import contextlib
import os
import pathlib
import typing

import msgspec

from naiad.errors import InferenceError, invalid
from naiad.repository.polling.fingerprint import Fingerprint, fingerprint
from naiad.repository.stores import address, level

OPTION = "--model-repository="
"""Precedes a location in the messages of the server; other commands take a location by itself."""

_NO_REPOSITORY: collections.abc.Mapping[type[OSError], str] = {
    FileNotFoundError: "there is no such folder; give the folder that holds one folder per model",
    NotADirectoryError: "this is a file; give the folder that holds one folder per model",
    PermissionError: "this user may not read the folder; check its permissions",
    OSError: "the folder cannot be read; check its disk or mount",
}
"""Why a folder cannot be listed, and what to do."""


_LOOKED_AT = 1_000
_LEVELS = 3
"""Bounds of the search for a repository in a folder that is not a model."""


class Checkout(msgspec.Struct, frozen=True):
    """A model as a local folder, until it is released.

    Attributes:
        folder: holds the config and the versions; its last part is the model's name.
        release: ends the use of the folder, which may be deleted then; called once, and may block. None: nothing to do, because the
            folder is the repository's own.
    """

    folder: pathlib.Path
    release: collections.abc.Callable[[], None] | None = None


OnBytes = collections.abc.Callable[[int, int], None]
"""Called with the bytes of a model that are fetched, and with those of the whole model (0: not known yet); from any thread."""


def no_bytes(done: int, total: int) -> None:
    """An `OnBytes` that ignores them."""


class Store(typing.Protocol):
    """One model repository. All methods may block; they are called in several threads at the same time.

    Attributes:
        location: as the user wrote it.
    """

    location: str

    def names(self) -> list[str]:
        """The names of its models, sorted.

        Raises:
            InferenceError: the repository cannot be read.
        """
        ...

    def fingerprint(self, name: str) -> Fingerprint:
        """What a model consists of now; another fingerprint than before means that it has changed.

        Raises:
            InferenceError: the model cannot be read.
        """
        ...

    def checkout(self, name: str, on_bytes: OnBytes = no_bytes) -> Checkout:
        """Make a model available as a local folder; the caller owns it and releases it.

        Args:
            name: the model.
            on_bytes: called during the transfer of a model that has to be fetched.

        Raises:
            InferenceError: the model cannot be read.
        """
        ...


@typing.runtime_checkable
class BatchStore(typing.Protocol):
    """A store that another process reads, where a call per model costs more than the fingerprint itself."""

    def fingerprints(
        self, names: collections.abc.Sequence[str]
    ) -> list[Fingerprint | InferenceError]:
        """The fingerprint of each model, or why it has none.

        Raises:
            InferenceError: the process has ended.
        """
        ...


class StoredModel(msgspec.Struct, frozen=True):
    """A model of a store; nothing of it has been read yet."""

    store: Store
    name: str

    @property
    def location(self) -> str:
        """Where it is stored, for messages."""
        return f"{self.store.location.rstrip('/')}/{self.name}"


class LocalStore:
    """A repository that is a folder of this machine: a checkout is the model's own folder.

    Args:
        location: as the user wrote it.
        option: what precedes it in messages.
    """

    def __init__(self, location: str, *, option: str = OPTION) -> None:
        self.location = location
        self._given = f"{option}{location}"
        self._root = pathlib.Path(location)
        self._device = 0

    def names(self) -> list[str]:
        """Every folder in the root, except hidden ones; files beside them are ignored, as in Triton.

        An empty root on another device than before is refused: it is where a file system was mounted.
        """
        try:
            with os.scandir(self._root) as entries:
                names = [
                    entry.name
                    for entry in entries
                    if not entry.name.startswith(".") and entry.is_dir()
                ]
            device = self._root.stat().st_dev
        except OSError as error:
            why = next(text for kind, text in _NO_REPOSITORY.items() if isinstance(error, kind))
            raise invalid(f"{self._given}: {why}") from None
        if not names and device != (self._device or device):
            raise invalid(
                f"{self._given}: the folder is empty and on another device than before: its file system is not mounted any more; mount it again"
            )
        if names:
            self._device = device
        if _is_model(self._root, names):
            raise invalid(f"{self._given}: {level.too_low(str(self._root.absolute().parent))}")
        return sorted(names)

    def fingerprint(self, name: str) -> Fingerprint:
        """The files of the model's folder, by name, size and time; empty if there is no such folder."""
        return fingerprint(self._folder(name))

    def checkout(self, name: str, on_bytes: OnBytes = no_bytes) -> Checkout:
        """The model's own folder: nothing is fetched."""
        folder = self._folder(name)
        if reason := no_model(folder):
            raise invalid(f"{folder}: {reason}")
        return Checkout(folder)

    def _folder(self, name: str) -> pathlib.Path:
        check_name(name)
        return self._root / name


def no_model(folder: pathlib.Path) -> str:
    """Why a folder in a local repository is not a model, because it holds models itself; "" if it may be one. Blocking."""
    inner = level.repository_in(_paths(folder))
    return "" if inner is None else level.too_high(str(folder / inner))


def _is_model(root: pathlib.Path, names: collections.abc.Iterable[str]) -> bool:
    """Whether a folder holds the versions of one model, a mistake that would show as a model with the name "1"."""
    versions = [name for name in names if name.isdecimal()]
    return bool(versions) and (
        (root / level.CONFIG).is_file()
        or any(level.is_version(name, _files(root / name)) for name in versions)
    )


def _files(folder: pathlib.Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def _paths(folder: pathlib.Path) -> collections.abc.Iterator[str]:
    """The files below a folder, those at the top first, as far as they may tell whether it is a model."""
    pending, count = collections.deque([("", 0)]), 0
    while pending:
        below, depth = pending.popleft()
        with contextlib.suppress(OSError), os.scandir(folder / below) as entries:
            for entry in entries:
                path = f"{below}/{entry.name}" if below else entry.name
                count += 1
                if count > _LOOKED_AT:
                    return
                if not entry.is_dir():
                    yield path
                elif not depth and entry.name.isdecimal():
                    yield f"{path}/"  # a version, whatever is in it
                elif depth < _LEVELS:
                    pending.append((path, depth + 1))


def check_name(name: str) -> None:
    """Check that a name is that of a folder directly in a repository (row 7.14).

    Raises:
        InferenceError: INVALID_ARG: it is empty, or leads out of the repository.
    """
    trimmed = name.strip()
    if not trimmed:
        raise invalid("Model name cannot be empty. Please enter a valid name to deploy.")
    if trimmed in (".", "..") or "/" in trimmed or "\0" in trimmed:
        raise invalid(
            f"invalid model name '{name}', model name must not contain path traversal characters: "
            "give the name of a folder in the model repository"
        )


def open_store(
    location: str,
    *,
    option: str = OPTION,
    remote: collections.abc.Callable[[str], Store] | None = None,
) -> Store:
    """The store of a `--model-repository` value.

    Args:
        location: the value.
        option: what precedes it in messages.
        remote: opens addresses; None where only local folders can be read.

    Raises:
        InferenceError: the address is wrong, or only local folders can be read here.
    """
    root = local_root(location)
    if root is not None:
        return LocalStore(root, option=option)
    if remote is not None:
        return remote(location)
    place = address.parse(location)
    raise invalid(
        f"{option}{place}: only local folders can be read here; run naiad fetch {place} --to FOLDER, and give that folder"
    )


def local_root(location: str) -> str | None:
    """The folder that a `--model-repository` value names; None for the address of another store."""
    match address.scheme(location):
        case "":
            return location
        case "file":
            return location[len("file://") :] or "/"
        case _:
            return None
