"""The memory of processes, from what /proc says."""

import collections.abc
import os
import pathlib

import pytest

from naiad.metrics.memory import process_bytes, resident_bytes

_STATUS = "VmRSS:\t  900 kB\nRssAnon:\t  500 kB\nRssFile:\t  300 kB\nRssShmem:\t  100 kB\n"
_ROLLUP = "00400000-7ffc [rollup]\nRss:  900 kB\nPss:  420 kB\nPss_Anon:  400 kB\n"


def process(proc: pathlib.Path, **files: str) -> None:
    (proc / "7").mkdir()
    for name, text in files.items():
        (proc / "7" / name).write_text(text)


def test_a_worker_has_its_proportional_set_size(tmp_path: pathlib.Path) -> None:
    process(tmp_path, smaps_rollup=_ROLLUP, status=_STATUS)
    assert process_bytes(7, proc=tmp_path) == 420 * 1024


def test_without_that_file_all_that_it_maps_counts_but_no_shared_memory(
    tmp_path: pathlib.Path,
) -> None:
    process(tmp_path, status=_STATUS)
    assert process_bytes(7, proc=tmp_path) == 800 * 1024


def test_a_process_that_has_ended_has_none(tmp_path: pathlib.Path) -> None:
    assert process_bytes(7, proc=tmp_path) == 0


@pytest.mark.parametrize("measure", [lambda: process_bytes(os.getpid()), resident_bytes])
def test_this_process_has_some_megabytes(measure: collections.abc.Callable[[], int]) -> None:
    assert 5_000_000 < measure() < 5_000_000_000
