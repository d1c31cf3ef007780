"""Where model repositories are stored: an interface, and the local folder, which implements it.

A store lists the folders of its models as local paths. Object-store addresses are refused here, before anything else starts.
"""

import pathlib
import re
import typing

from naiad.errors import InferenceError, invalid

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")

OPTION = "--model-repository="
"""Precedes a location in the messages of the server; other commands take a location by itself."""


class Store(typing.Protocol):
    """One model repository.

    Attributes:
        location: as the user wrote it.
    """

    location: str

    def model_folders(self) -> list[pathlib.Path]:
        """The folders of its models, sorted by name. Blocking.

        Raises:
            InferenceError: the repository cannot be read.
        """
        ...


class LocalStore:
    """A repository that is a folder of this machine.

    Args:
        location: as the user wrote it.
        option: what precedes it in messages.
    """

    def __init__(self, location: str, *, option: str = OPTION) -> None:
        self.location = location
        self._given = f"{option}{location}"
        self._root = pathlib.Path(location)

    def model_folders(self) -> list[pathlib.Path]:
        """Every folder in the root, except hidden ones; files beside them are ignored, as in Triton."""
        try:
            found = [
                entry
                for entry in self._root.iterdir()
                if entry.is_dir() and not entry.name.startswith(".")
            ]
        except FileNotFoundError:
            raise invalid(
                f"{self._given}: there is no such folder; give the folder that holds one folder per model"
            ) from None
        except NotADirectoryError:
            raise invalid(
                f"{self._given}: this is a file; give the folder that holds one folder per model"
            ) from None
        except PermissionError:
            raise invalid(
                f"{self._given}: this user may not read the folder; check its permissions"
            ) from None
        if _is_model(self._root, found):
            raise invalid(
                f"{self._given}: this is the folder of one model; give the folder around it, "
                f"{self._root.absolute().parent}"
            )
        return sorted(found)


def _is_model(root: pathlib.Path, folders: list[pathlib.Path]) -> bool:
    """Whether a folder holds the versions of one model, a mistake that would show as a model with the name "1"."""
    versions = [folder for folder in folders if folder.name.isdecimal()]
    return bool(versions) and (
        (root / "config.pbtxt").is_file() or any(any(folder.glob("model.*")) for folder in versions)
    )


def open_store(location: str, *, option: str = OPTION) -> Store:
    """The store of a `--model-repository` value; `option` precedes it in messages.

    Raises:
        InferenceError: this kind of store is not supported.
    """
    return LocalStore(local_root(location, option=option), option=option)


def local_root(location: str, *, option: str = OPTION) -> str:
    """The folder that a `--model-repository` value names; `naiad fetch` reads the same values.

    Raises:
        InferenceError: this kind of store is not supported.
    """
    scheme = _SCHEME.match(location)
    if scheme is None:
        return location
    if scheme[1].lower() == "file":
        return location[scheme.end() :] or "/"
    raise unsupported_store(location, scheme[1], option=option)


def unsupported_store(location: str, scheme: str, *, option: str = OPTION) -> InferenceError:
    """The error for an object store."""
    return invalid(
        f"{option}{location}: {scheme}:// repositories are not served yet; copy the models to a local folder and give that"
    )
