"""The agent `checksum`: fails a load when a file is not the expected one (row 14.36).

Parameters: `MD5:<file>` or, ours, `SHA256:<file>` is the expected digest in hexadecimal; the file is relative to the model's folder.
"""

import hashlib
import pathlib

from typing_extensions import override

from naiad.repository.agents.agent import AgentError, AgentModel, RepositoryAgent

CHECKSUM = "checksum"
"""Its name in configs."""

_ALGORITHMS = ("md5", "sha256")
_USAGE = "write MD5:<file> or SHA256:<file>, with the file's path below the model's folder"


class ChecksumAgent(RepositoryAgent):
    """Compares the files of a model with digests in its config."""

    timeout_seconds = 3600.0

    @override
    def load(self, model: AgentModel) -> None:
        for key, expected in sorted(model.parameters.items()):
            algorithm, file = _parsed(key)
            digest = _digest(model.folder, file, algorithm)
            if digest != expected.strip().lower():
                raise AgentError(
                    f"Mismatched {algorithm.upper()} hash for file {file}, expect: {expected}, got: {digest}; "
                    f"put the right file in place, or write its digest into the config"
                )


def _parsed(key: str) -> tuple[str, str]:
    """The algorithm and the file of a parameter's key."""
    algorithm, colon, file = key.partition(":")
    if not colon:
        raise AgentError(f"failed to parse key: {key}; {_USAGE}")
    if algorithm.lower() not in _ALGORITHMS:
        raise AgentError(f"Unsupported checksum algorithm: {algorithm}; {_USAGE}")
    path = pathlib.PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or "\0" in file or not path.parts:
        raise AgentError(f"the file of {key!r} is not below the model's folder; {_USAGE}")
    return algorithm.lower(), file


def _digest(folder: pathlib.Path, file: str, algorithm: str) -> str:
    path = folder / file
    # Opening a pipe would wait for ever.
    if path.exists() and not path.is_file():
        raise AgentError(f"{file} is not a regular file, so that it has no checksum; {_USAGE}")
    try:
        with path.open("rb") as content:
            return hashlib.file_digest(
                content, lambda: hashlib.new(algorithm, usedforsecurity=False)
            ).hexdigest()
    except OSError as error:
        raise AgentError(
            f"failed to open text file for read {file}: {error.strerror}; put the file there, or take its parameter out"
        ) from None
