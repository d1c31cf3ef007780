"""Which files a model version is loaded from, as a hash that is the same on every machine: for stores that servers share, and that outlive them.

Small files are hashed whole. Of a large one the size and some pieces count: weights of gigabytes would take longer to hash than to load, and
those of another training differ in every piece.
"""

import hashlib
import pathlib
import typing

from naiad.repository.plan import VersionPlan

WHOLE_BYTES = 1 << 22
_PIECE = 1 << 16
_PIECES = 16


def identity_of(plan: VersionPlan) -> bytes:
    """The identity of a version: of its config, and of the files of its folder and of those that all versions share. Blocking.

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.blake2b(plan.config.message.SerializeToString(deterministic=True))
    for path in sorted(_files(plan)):
        digest.update(str(path.relative_to(plan.model_dir)).encode(errors="surrogateescape"))
        with path.open("rb") as file:
            size = file.seek(0, 2)
            digest.update(f"\0{size}\0".encode())
            _add(digest, file, size)
    return digest.digest()


def _files(plan: VersionPlan) -> list[pathlib.Path]:
    """The files of other versions do not count, nor does the config's, which may be written in another way."""
    found: list[pathlib.Path] = []
    for entry in plan.model_dir.iterdir():
        if entry.is_dir():
            if not entry.name.isdecimal() or entry == plan.version_dir:
                found += (path for path in entry.rglob("*") if _counts(path))
        elif entry.suffix != ".pbtxt" and _counts(entry):
            found.append(entry)
    return found


def _counts(path: pathlib.Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def _add(digest: "hashlib.blake2b", file: typing.BinaryIO, size: int) -> None:
    if size <= WHOLE_BYTES:
        file.seek(0)
        digest.update(file.read())
        return
    for piece in range(_PIECES + 1):
        file.seek((size - _PIECE) * piece // _PIECES)
        digest.update(file.read(_PIECE))
