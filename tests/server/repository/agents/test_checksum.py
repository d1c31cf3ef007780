"""The agent `checksum` (row 14.36)."""

import hashlib
import os
import pathlib
import re

import pytest

from naiad.repository.agents.agent import AgentError, AgentModel
from naiad.repository.agents.checksum import ChecksumAgent

CONTENT = b"weights" * 100_000
MD5, SHA256 = hashlib.md5(CONTENT).hexdigest(), hashlib.sha256(CONTENT).hexdigest()


def check(folder: pathlib.Path, **parameters: str) -> None:
    (folder / "m" / "1").mkdir(parents=True, exist_ok=True)
    (folder / "m" / "1" / "model").write_bytes(CONTENT)
    ChecksumAgent().load(AgentModel(name="m", folder=folder / "m", parameters=parameters))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("MD5:1/model", MD5),
        ("md5:1/model", MD5),
        ("MD5:./1//model", MD5.upper()),
        ("SHA256:1/model", SHA256),
    ],
)
def test_the_right_digest_is_accepted(tmp_path: pathlib.Path, key: str, value: str) -> None:
    check(tmp_path, **{key: value})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("MD5:1/model", "0" * 32, f"Mismatched MD5 hash for file 1/model, expect: {'0' * 32}, got: {MD5}"),
        ("SHA256:1/model", MD5, f"Mismatched SHA256 hash for file 1/model, expect: {MD5}, got: {SHA256}"),
        ("MD5:1/model", "", f"Mismatched MD5 hash for file 1/model, expect: , got: {MD5}"),
        ("1/model", MD5, "failed to parse key: 1/model; write MD5:<file>"),
        ("CRC:1/model", "0", "Unsupported checksum algorithm: CRC; write MD5:<file>"),
        ("MD5:1/absent", MD5, "failed to open text file for read 1/absent: No such file"),
        ("MD5:1", MD5, "1 is not a regular file"),
        ("MD5:pipe", MD5, "pipe is not a regular file"),
        ("MD5:", MD5, "'MD5:' is not below the model's folder"),
        ("MD5:../secret", MD5, "'MD5:../secret' is not below the model's folder"),
        ("MD5:1/../../secret", MD5, "is not below the model's folder"),
        ("MD5:/etc/passwd", MD5, "is not below the model's folder"),
        ("MD5:1/model\0", MD5, "is not below the model's folder"),
    ],
)  # fmt: skip
def test_anything_else_is_refused(
    tmp_path: pathlib.Path, key: str, value: str, message: str
) -> None:
    (tmp_path / "secret").write_bytes(CONTENT)
    (tmp_path / "m").mkdir()
    os.mkfifo(tmp_path / "m" / "pipe")
    with pytest.raises(AgentError, match=re.escape(message)):
        check(tmp_path, **{key: value})


def test_every_file_counts(tmp_path: pathlib.Path) -> None:
    with pytest.raises(AgentError, match="Mismatched SHA256"):
        check(tmp_path, **{"MD5:1/model": MD5, "SHA256:1/model": "0"})
