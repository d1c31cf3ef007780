"""Which files a model version was loaded from: the same on every machine, another after any change that matters."""

import os
import pathlib

import pytest

from naiad.repository.plan import VersionPlan
from naiad.response_cache.identity import WHOLE_BYTES, identity_of
from tests.server.backends.configs import model_config


def write(folder: pathlib.Path, **files: bytes) -> pathlib.Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def identity(folder: pathlib.Path, version: int = 1, **config: object) -> bytes:
    settings = {"inputs": (), "outputs": (), **config}
    made = model_config(**settings)  # type: ignore[arg-type]  # settings by name
    return identity_of(VersionPlan(config=made, version=version, model_dir=folder))


BEFORE = {"1__model": b"one", "labels": b"cat", "config.pbtxt": b"", "2__model": b"two"}


def test_copies_have_one_identity_whatever_their_times(tmp_path: pathlib.Path) -> None:
    one, other = write(tmp_path / "a", **BEFORE), write(tmp_path / "b", **BEFORE)
    os.utime(other / "1/model", (1, 1))
    assert identity(one) == identity(other)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"1__model": b"One"}, False),
        ({"labels": b"dog"}, False),
        ({"1__more": b""}, False),
        ({"common__code": b""}, False),
        ({"2__model": b"three"}, True),
        ({"config.pbtxt": b"# a comment"}, True),
    ],
)
def test_what_counts(tmp_path: pathlib.Path, change: dict[str, bytes], *, same: bool) -> None:
    folder = write(tmp_path / "a", **BEFORE)
    before = identity(folder)
    assert (identity(write(folder, **change)) == before) is same


def test_a_compiled_file_does_not_count(tmp_path: pathlib.Path) -> None:
    folder = write(tmp_path / "a", **BEFORE)
    before = identity(folder)
    (folder / "1/__pycache__").mkdir()
    (folder / "1/__pycache__/model.pyc").write_bytes(b"x")
    assert identity(folder) == before


def test_the_config_counts(tmp_path: pathlib.Path) -> None:
    folder = write(tmp_path / "a", **BEFORE)
    assert identity(folder) != identity(folder, max_batch_size=3)


@pytest.mark.parametrize("at", [0, WHOLE_BYTES, -1])
def test_pieces_of_large_files_count(tmp_path: pathlib.Path, at: int) -> None:
    content = bytearray(2 * WHOLE_BYTES)
    folder = write(tmp_path / "a", **{"1__weights": bytes(content)})
    before = identity(folder)
    content[at] = 1
    assert identity(write(folder, **{"1__weights": bytes(content)})) != before
