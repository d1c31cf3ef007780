"""Libraries that no model can have: the check says what the server says, and neither loads them."""

import pathlib
import struct
import sys

import pytest

from naiad.config.report import one_line
from naiad.core import elf
from tests.support.c_compiler import IDENTITY, compile_library, make
from tests.support.check_and_serve import Compared, compare, same_words

CONFIG = """\
backend: "{backend}"
input {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] }}
output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] }}
instance_group {{ kind: KIND_CPU }}
"""
HOST = 'parameters { key: "naiad.host" value { string_value: "thread" } }\n'

WORDS = {
    "text": "it is not an ELF file: build it with cc -shared -fPIC",
    "empty": "it is not an ELF file",
    "cut_off": "it is cut off, or damaged",
    "short": "it is cut off",
    "foreign": "it was built for i386, and this machine is",
    "program": "it is not a shared library: link it with -shared",
    "without_abi": "it does not define naiad_backend_abi: write NAIAD_BACKEND once in its source",
    "of_another_version": "it was built with version 7 of naiad_backend.h, and this server has version 1",
    "without_functions": "it does not define naiad_model_unload, naiad_instance_create, naiad_instance_destroy, naiad_execute",
    "in_thread": "is a C library, which runs in a worker process only",
}


def _machine() -> int:
    """The number of this machine, as this interpreter's own file has it."""
    number: int = struct.unpack_from("<H", pathlib.Path(sys.executable).read_bytes(), 18)[0]
    return number


def _with(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + struct.pack("<H", value) + data[at + 2 :]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return make(IDENTITY, tmp_path_factory.mktemp("identity"), "libnaiad_identity.so")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, library: pathlib.Path) -> Compared:
    """One server and one check for all of them."""
    root = tmp_path_factory.mktemp("root")
    data = library.read_bytes()
    files = {
        "text": b"int naiad_execute;",
        "empty": b"",
        "cut_off": data[: len(data) // 2],
        "short": data[:40],
        "foreign": _with(data, 18, 3),
        "program": _with(data, 16, 2),
        "in_thread": data,
    }
    for name in WORDS:
        (root / "models" / name / "1").mkdir(parents=True)
        more = HOST if name == "in_thread" else ""
        (root / "models" / name / "config.pbtxt").write_text(CONFIG.format(backend=name) + more)
        if name in files:
            (root / "models" / name / f"libnaiad_{name}.so").write_bytes(files[name])
    for name, source in (
        ("without_abi", "int naiad_execute(void);\nint naiad_execute(void) { return 0; }"),
        ("of_another_version", "const unsigned naiad_backend_abi = 7;"),
        ("without_functions", "const unsigned naiad_backend_abi = 1;\nint naiad_model_load;"),
    ):
        compile_library(source, root / "models" / name / f"libnaiad_{name}.so")
    log = tmp_path_factory.mktemp("log") / "server.log"
    return compare(root / "models", WORDS, log=log, load=False)


@pytest.mark.parametrize("name", WORDS)
def test_the_check_says_what_the_server_says(name: str, compared: Compared) -> None:
    problems = compared.problems[name]
    assert WORDS[name] in compared.reasons[name]
    assert same_words(compared.reasons[name], problems), (
        compared.reasons[name],
        list(map(one_line, problems)),
    )


def test_symbols_are_read_from_the_file(library: pathlib.Path) -> None:
    found = elf.read(library)
    assert "naiad_execute" in found.defined
    assert {"memcpy", "snprintf"} & found.undefined
    assert elf.number(library, found, "naiad_backend_abi") == 1
    assert elf.number(library, found, "naiad_no_such_number") is None


def test_no_cut_of_a_library_is_read_as_something_else(
    library: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    data = library.read_bytes()
    cut = tmp_path / "cut.so"
    for size in range(0, len(data), 97):
        cut.write_bytes(data[:size])
        with pytest.raises(elf.NoLibraryError):
            elf.read(cut)
    for at in range(16, 64, 2):  # numbers of the header that lead nowhere
        cut.write_bytes(_with(data, at, 0xFFFF))
        try:
            elf.read(cut)
        except elf.NoLibraryError:
            continue


def test_a_name_without_an_end_is_not_read_to_the_end_of_its_table(
    tmp_path: pathlib.Path,
) -> None:
    names, symbols = b"n" * 40_000, struct.pack("<IBBHQQ", 0, 0x10, 0, 0, 0, 0)
    sections = struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, 64 + len(names), 24, 1, 0, 8, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    head = b"\x7fELF\x02\x01" + bytes(10) + struct.pack("<HH", 3, _machine()) + bytes(20)
    head += struct.pack("<Q", 64 + len(names) + 24) + bytes(10) + struct.pack("<HHH", 64, 2, 1)
    path = tmp_path / "libnaiad_long.so"
    path.write_bytes(head + names + symbols + sections)
    (name,) = elf.read(path).undefined
    assert len(name) == 4096
