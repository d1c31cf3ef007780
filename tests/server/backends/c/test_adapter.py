"""The adapter for libraries that were built for Triton: compiled once, and what is said where it cannot be."""

import pathlib
import shutil

import pytest

from naiad.backends.c import adapter
from naiad.errors import InferenceError


def test_it_is_compiled_once(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler on this machine (cc)")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    path = adapter.compiled()
    made = path.stat().st_mtime_ns
    monkeypatch.setenv("CC", "no-such-cc")
    assert adapter.compiled() == path
    assert path.stat().st_mtime_ns == made
    adapter.check()
    assert [each.name for each in path.parent.iterdir()] == [path.name], "nothing else is left there"  # fmt: skip


def test_a_compiler_that_fails_is_quoted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken-cc"
    broken.write_text("#!/bin/sh\necho 'stdint.h: No such file' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(InferenceError, match=r"cannot be compiled: .*stdint.h: No such file"):
        adapter.compiled()


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    monkeypatch.setenv("CC", "sh")
    with pytest.raises(InferenceError, match="set XDG_CACHE_HOME to a folder"):
        adapter.compiled()
