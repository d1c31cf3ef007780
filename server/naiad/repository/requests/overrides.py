"""The parameters of a load request: a config and files in place of those in the repository (rows 7.15 to 7.18).

`parse` checks the parameters and reads no value. The store of a request's files writes them into a temporary folder, in the thread that
checks the model out, and forgets them. The folder is removed with the last version that was loaded from it.
"""

import collections.abc
import os
import pathlib
import types

from naiad.errors import InferenceError, invalid
from naiad.repository.errors import not_polled
from naiad.repository.polling.fingerprint import Fingerprint
from naiad.repository.store import Checkout, OnBytes, StoredModel, no_bytes
from naiad.repository.temporary import TemporaryFolder

CONFIG = "config"
FILE = "file:"

MAX_FILES = 10_000
MAX_BYTES = (1 << 31) - 1
"""The most bytes of all files together: what one gRPC message can hold. A larger model belongs into a repository."""

Value = str | bytes | memoryview
Parameters = collections.abc.Mapping[str, Value]
"""By name: text for "config", contents for "file:<path>". A large value is a view of bytes, text as its UTF-8."""

_EXPECTED = "give the path of a file below the model's folder, for example file:1/model.onnx"

NO_PARAMETERS: Parameters = types.MappingProxyType({})


class Overrides:
    """What a load takes from its request.

    Args:
        config: a ModelConfig as JSON; None for the model's own.
        model: the model that consists of the request's files; None for the one in the repository.
    """

    def __init__(self, config: Value | None = None, model: StoredModel | None = None) -> None:
        self.config = config
        self.model = model


def parse(name: str, parameters: Parameters) -> Overrides:
    """Check the parameters of a load.

    Args:
        name: the model.
        parameters: of the request.

    Raises:
        InferenceError: INTERNAL, as for a model that cannot be read from a repository: an unknown parameter, files without a config, a
            path that leads out of the model's folder, or too much of either.
    """
    files: dict[str, bytes | memoryview] = {}
    config: Value | None = None
    for key, value in parameters.items():
        if key == CONFIG:
            config = value
        elif key.startswith(FILE) and not isinstance(value, str):
            files[key] = value
        else:
            kind = "string" if isinstance(value, str) else "bytes"
            raise not_polled(
                name,
                f"Unrecognized load parameter '{key}' with type '{kind}': those are '{CONFIG}', a string, and '{FILE}<path>', bytes",
            )
    if not files:
        return Overrides(config)
    if config is None:
        raise not_polled(
            name,
            "Load parameter 'config' must be specified for model file override: the model's own folder is not read; send its config as JSON",
        )
    try:
        return Overrides(config, StoredModel(FileStore(files), name))
    except InferenceError as error:
        raise not_polled(name, error.message) from None


class FileStore:
    """The files of one load request, as a store of one model that is checked out once.

    Args:
        files: contents by parameter name; the folder that is made of them holds nothing else.

    Raises:
        InferenceError: INVALID_ARG: a path leads out of the model's folder, or there are too many files or bytes.
    """

    location = "the load request"

    def __init__(self, files: collections.abc.Mapping[str, bytes | memoryview]) -> None:
        if len(files) > MAX_FILES:
            raise invalid(
                f"{len(files):,} files in one load, and {MAX_FILES:,} are allowed: put the model into a repository"
            )
        size = sum(_size(content) for content in files.values())
        if size > MAX_BYTES:
            raise invalid(
                f"{size:,} bytes of files in one load, and {MAX_BYTES:,} are allowed: put the model into a repository"
            )
        self._files = {_path(key): (key, content) for key, content in files.items()}

    def names(self) -> list[str]:
        """No repository lists it."""
        return []

    def fingerprint(self, name: str) -> Fingerprint:
        """Nothing: each request is a model of its own."""
        return {}

    def checkout(self, name: str, on_bytes: OnBytes = no_bytes) -> Checkout:
        """Write the files into a new folder; blocking.

        Raises:
            InferenceError: a file cannot be written.
        """
        files, self._files = self._files, {}
        try:
            temporary = TemporaryFolder("load")
        except OSError as error:
            raise _unwritable("a new temporary folder", error) from None
        folder = temporary.path / name
        try:
            folder.mkdir()
            for path, (key, content) in files.items():
                _write(folder / path, key, content)
        except BaseException as error:
            temporary.remove()
            if isinstance(error, OSError):
                raise _unwritable(str(temporary.path), error) from None
            raise
        return Checkout(folder, temporary.remove)


def _size(content: bytes | memoryview) -> int:
    return content.nbytes if isinstance(content, memoryview) else len(content)


def _path(key: str) -> str:
    """The path of a file in the model's folder. As in Triton, a leading slash means that folder."""
    given = key.removeprefix(FILE)
    path = os.path.normpath(given.lstrip("/"))
    if path == ".." or path.startswith("../"):
        raise invalid(
            f"Invalid file parameter '{key}' with normalized path '{path}' must stay within model directory: {_EXPECTED}"
        )
    if path == "." or given.endswith("/"):
        raise invalid(f"Invalid file parameter '{key}': it names a folder: {_EXPECTED}")
    try:
        usable = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise invalid(f"Invalid file parameter '{key}': its path is not a valid name: {_EXPECTED}")
    return path


def _unwritable(place: str, error: OSError) -> InferenceError:
    return invalid(
        f"the files of the load request cannot be written to {place}: {error.strerror or error}; make room there, or set TMPDIR"
    )


def _write(path: pathlib.Path, key: str, content: bytes | memoryview) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(content)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise invalid(
            f"Invalid file parameter '{key}', directory has been created as a file: another file of the request has this path, or one above it"
        ) from None
