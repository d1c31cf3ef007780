"""Large tensors of clients' objects are copied by mappings, and an object that becomes smaller meanwhile does not end the process."""

import collections.abc
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import typing

import numpy as np
import pytest

import naiad
from naiad.core.regions import FOLDER
from naiad.tensors import region_mappings
from naiad.tensors.region_files import MAPPED_FROM, Placed, ReceivedFiles, numbered
from naiad.tensors.region_mappings import RegionMapping

Values = np.ndarray[typing.Any, typing.Any]

SIZE = MAPPED_FROM
NUMBER = numbered(0)


@pytest.fixture
def path() -> collections.abc.Iterator[pathlib.Path]:
    """An object of two tensors, where clients' objects are: a mapping of a file on a disk waits for the disk."""
    with tempfile.NamedTemporaryFile(dir=FOLDER) as file:
        found = pathlib.Path(file.name)
        found.write_bytes(os.urandom(2 * SIZE))
        yield found


@pytest.fixture
def files(path: pathlib.Path) -> collections.abc.Iterator[ReceivedFiles]:
    """The worker's files, in which the object is."""
    made = ReceivedFiles()
    made.add(NUMBER, os.open(path, os.O_RDWR), "region 'a'")
    yield made
    made.close()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The system calls by which tensors are copied."""
    made: list[str] = []
    for name in ("preadv", "pwrite"):
        call = getattr(os, name)

        def counted(*given: object, name: str = name, call: object = call) -> object:
            made.append(name)
            assert callable(call)
            return call(*given)

        monkeypatch.setattr(os, name, counted)
    return made


def read(files: ReceivedFiles, at: int) -> tuple[bytes, str]:
    """What is read from a place, and what is wrong."""
    values = np.zeros(SIZE, np.uint8)
    ((wrong, _),) = files.read([(NUMBER, values, at)])
    return values.tobytes(), wrong


def write(files: ReceivedFiles, values: Values, at: int) -> object:
    """What comes of writing an output to a place of `SIZE` bytes."""
    (found,) = files.write([(NUMBER, values, at, SIZE)])
    return found


def test_an_object_that_comes_again_is_copied_without_system_calls(
    files: ReceivedFiles, path: pathlib.Path, calls: list[str]
) -> None:
    for turn in range(6):
        data = path.read_bytes()
        assert read(files, SIZE - 1) == (data[SIZE - 1 : 2 * SIZE - 1], "")
        values = np.full(SIZE // 4, turn, np.float32)
        assert type(write(files, values, 4)) is Placed
        assert path.read_bytes() == data[:4] + values.tobytes() + data[4 + SIZE :]
    assert calls == ["preadv", "pwrite"]


def test_an_object_that_has_become_smaller_is_an_error_and_may_grow_again(
    files: ReceivedFiles, path: pathlib.Path
) -> None:
    values = np.ones(SIZE, np.uint8)
    for _ in range(3):
        data = path.read_bytes()
        for _ in range(3):
            assert read(files, SIZE) == (data[SIZE:], "")
        for size in (2 * SIZE - 1, SIZE, 5):
            os.truncate(path, size)
            assert read(files, SIZE)[1] == "INVALID_ARG"
            assert write(files, values, SIZE) is values
            assert path.stat().st_size == size
        path.write_bytes(os.urandom(2 * SIZE))


def test_an_object_that_has_grown_is_mapped_again(
    files: ReceivedFiles, path: pathlib.Path, calls: list[str]
) -> None:
    for _ in range(3):
        read(files, 0)
    more = os.urandom(SIZE)
    with path.open("ab") as file:
        file.write(more)
    for _ in range(4):
        assert read(files, 2 * SIZE) == (more, "")
    assert calls == ["preadv"] * 4


SCRIPT = """
import mmap, os, sys
import numpy as np
from naiad.tensors import parallel_copies
from naiad.tensors.region_mappings import RegionMapping, copy_all

parallel_copies.PARALLEL_FROM = int(sys.argv[2])
file = os.open(sys.argv[1], os.O_RDWR)
size = os.fstat(file).st_size
torn = 0
for turn in range(20):
    for reads in (True, False):
        os.ftruncate(file, size)
        mapping = RegionMapping(file, size)
        pair = np.ones(size, np.uint8), mapping.part(0, size)
        copy_all([pair if reads else pair[::-1]], [mapping])
        assert mapping.intact
        os.ftruncate(file, size // 2)
        mapping.part(0, size)
        copy_all([pair if reads else pair[::-1]], [mapping])
        torn += not mapping.intact
assert torn == 40
print("torn", flush=True)
other = mmap.mmap(file, size // 2)
os.ftruncate(file, 0)
other[0]
"""


@pytest.mark.parametrize("parallel_from", [1 << 60, 1 << 10])
def test_only_faults_of_a_copy_are_survived(path: pathlib.Path, parallel_from: int) -> None:
    path.write_bytes(bytes(1 << 22))
    environ = {**os.environ, "PYTHONPATH": str(pathlib.Path(naiad.__file__).parents[1])}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), str(parallel_from)],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.stdout, ended.returncode) == ("torn\n", -signal.SIGBUS), ended.stderr


def test_what_the_system_does_not_map_is_copied_by_calls(
    files: ReceivedFiles,
    path: pathlib.Path,
    calls: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(self: RegionMapping, descriptor: int, size: int) -> None:
        raise OSError(12, "no memory")

    monkeypatch.setattr(RegionMapping, "__init__", refused)
    monkeypatch.setattr(RegionMapping, "__del__", lambda self: None)
    for _ in range(4):
        assert read(files, 0) == (path.read_bytes()[:SIZE], "")
    assert calls == ["preadv"] * 4


SPARSE = """
import os, sys
import numpy as np
from naiad.tensors.region_mappings import RegionMapping, copy_all

file = os.memfd_create("sparse")
for reads in (True, False):
    os.ftruncate(file, 1 << 42)
    mapping = RegionMapping(file, 1 << 42)
    pair = np.ones(1 << 18, np.uint8), mapping.part(5, 1 << 18)
    os.ftruncate(file, 1 << 16)
    copy_all([pair if reads else pair[::-1]], [mapping])
    print(mapping.intact, flush=True)
"""


def test_an_object_larger_than_all_memory_may_become_smaller() -> None:
    environ = {**os.environ, "PYTHONPATH": str(pathlib.Path(naiad.__file__).parents[1])}
    ended = subprocess.run(
        [sys.executable, "-c", SPARSE],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.stdout, ended.returncode) == ("False\n" * 2, 0), ended.stderr


def test_a_copy_that_was_cut_off_leaves_no_mapping(
    files: ReceivedFiles, path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.ones(SIZE, np.uint8)
    copy_all = region_mappings.copy_all

    def cut_off(*given: typing.Any) -> None:
        os.truncate(path, SIZE)
        copy_all(*given)

    for _ in range(3):
        read(files, 0)
    assert str(path) in pathlib.Path("/proc/self/maps").read_text()
    monkeypatch.setattr(region_mappings, "copy_all", cut_off)
    write(files, values, SIZE)
    assert str(path) not in pathlib.Path("/proc/self/maps").read_text()


def test_a_batch_is_copied_together_and_each_tensor_fails_alone(
    files: ReceivedFiles, path: pathlib.Path
) -> None:
    files.add(numbered(1), os.open(path, os.O_RDWR), "region 'b'")
    for turn in range(4):
        data = os.urandom(4 * SIZE)
        path.write_bytes(data)
        arrays = [np.zeros(each, np.uint8) for each in (SIZE, 5, 2 * SIZE, SIZE, SIZE)]
        numbers = NUMBER, numbered(1), numbered(1), numbered(2), NUMBER
        places = 0, SIZE, SIZE + 1, 0, 3 * SIZE + 1 + turn
        found = files.read(list(zip(numbers, arrays, places, strict=True)))
        assert [code for code, _ in found] == ["", "", "", "UNAVAILABLE", "INVALID_ARG"]
        for array, at in list(zip(arrays, places, strict=True))[:3]:
            assert array.tobytes() == data[at : at + len(array)]

        outputs = [np.full(SIZE, each, np.uint8) for each in range(3)]
        written = files.write(
            [
                (NUMBER, outputs[0], 7, SIZE),
                (numbered(1), outputs[1], 4 * SIZE - 1, SIZE),
                (numbered(1), outputs[2], 3 * SIZE, SIZE),
            ]
        )
        assert [type(each) for each in written] == [Placed, np.ndarray, Placed]
        expected = data[:7] + outputs[0].tobytes() + data[7 + SIZE : 3 * SIZE]
        assert path.read_bytes() == expected + outputs[2].tobytes()


def test_a_mapping_that_one_tensor_outgrows_stays_until_the_batch_is_copied(
    files: ReceivedFiles, path: pathlib.Path
) -> None:
    for _ in range(4):
        read(files, 0)
    data = os.urandom(4 * SIZE)
    path.write_bytes(data)
    arrays = [np.zeros(SIZE, np.uint8) for _ in range(6)]
    found = files.read([(NUMBER, array, (at % 4) * SIZE) for at, array in enumerate(arrays)])
    assert found == [("", "")] * 6
    for at, array in enumerate(arrays):
        assert array.tobytes() == data[(at % 4) * SIZE :][:SIZE]
