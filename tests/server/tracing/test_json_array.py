"""The file of a growing JSON array: what was written is dropped from memory."""

import json
import os
import pathlib

import pytest

from naiad.tracing import json_array
from naiad.tracing.json_array import JsonArray

_RECORD = b'{"id":1}'


def test_what_was_written_is_dropped_from_memory(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_array, "_DROP_EACH", 100)
    monkeypatch.setattr(json_array, "_DROP_AGAIN", 0)
    named = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *given: named.append(given[1:]))
    array = JsonArray(str(tmp_path / "t.json"))
    for _ in range(100):
        array.append(_RECORD)
    array.close()
    assert {advice for _, _, advice in named} == {os.POSIX_FADV_DONTNEED}
    ends = [begin + size for begin, size, _ in named]
    assert [begin for begin, _, _ in named] == [0, *ends[:-1]]
    assert (tmp_path / "t.json").stat().st_size - ends[-1] < 110


def test_a_file_system_that_drops_no_pages_loses_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(json_array, "_DROP_EACH", 1)
    monkeypatch.setattr(os, "posix_fadvise", refused)
    array = JsonArray(str(tmp_path / "t.json"))
    array.append(_RECORD)
    array.append(_RECORD)
    array.close()
    assert json.loads((tmp_path / "t.json").read_text()) == [{"id": 1}, {"id": 1}]
