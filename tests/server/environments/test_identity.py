"""What an environment is named after."""

import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

from naiad.environments import identity
from tests.support.wheels import wheel


def named(file: pathlib.Path, text: str, wheels: pathlib.Path | None = None) -> str:
    file.write_text(text)
    return identity.of_requirements(file, wheels)


def test_comments_blanks_and_places_do_not_count(tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    first = named(tmp_path / "a.txt", "numpy==1\ntorch >= 2 \\\n --hash=x\n")
    same = named(other / "b.txt", "# why\n\n  numpy==1   # needed\ntorch >= 2   --hash=x")
    assert first == same


def test_requirements_are_part_of_the_name(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "requirements.txt"
    assert named(file, "numpy==1") != named(file, "numpy==2")
    assert named(file, "a\nb") != named(file, "b\na")


def test_a_url_fragment_is_not_a_comment(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "requirements.txt"
    assert named(file, "https://x/y.whl#sha256=1") != named(file, "https://x/y.whl#sha256=2")


@pytest.mark.parametrize(
    "line", ["-r more.txt", "--requirement=more.txt", "-c more.txt", "-cmore.txt"]
)
def test_included_files_count(line: str, tmp_path: pathlib.Path) -> None:
    file, more = tmp_path / "requirements.txt", tmp_path / "more.txt"
    more.write_text("numpy==1")
    first = named(file, line)
    more.write_text("numpy==2")
    assert named(file, line) != first


def test_files_that_include_each_other_are_read_once(tmp_path: pathlib.Path) -> None:
    (tmp_path / "b.txt").write_text("-r a.txt\nb")
    (tmp_path / "a.txt").write_text("-r b.txt\na")
    assert identity.requirement_lines(tmp_path / "a.txt") == ["-r", "-r", "b", "a"]


@pytest.mark.parametrize("line", ["./lib", "-e ./lib", "./lib[extra]"])
def test_projects_beside_the_file_count_with_their_contents(
    line: str, tmp_path: pathlib.Path
) -> None:
    file, source = tmp_path / "requirements.txt", tmp_path / "lib" / "code.py"
    source.parent.mkdir()
    source.write_text("a")
    first = named(file, line)
    source.write_text("bb")
    assert named(file, line) != first


def test_wheels_count_by_their_contents(tmp_path: pathlib.Path) -> None:
    file, wheels, copy = tmp_path / "r.txt", tmp_path / "wheels", tmp_path / "copy"
    wheel(wheels, "word", "1.0", "A = 1\n")
    os.utime(wheel(copy, "word", "1.0", "A = 1\n"), (1, 1))
    first = named(file, "word", wheels)
    assert named(file, "word") != first
    assert named(file, "word", copy) == first
    wheel(copy, "word", "1.0", "A = 2\n")
    assert named(file, "word", copy) != first


def test_the_interpreter_counts(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = named(tmp_path / "r.txt", "numpy")
    monkeypatch.setattr("platform.python_version", lambda: "3.99.0")
    assert named(tmp_path / "r.txt", "numpy") != first


def test_the_name_is_the_same_for_threads_that_ask_first_at_the_same_time() -> None:
    """In a fresh interpreter: what Python computes once is incomplete for a thread that comes while another one computes it."""
    code = (
        "import sys, concurrent.futures as c; sys.setswitchinterval(1e-6)\n"
        "from naiad.environments import identity\n"
        "with c.ThreadPoolExecutor(8) as p: print(len({f.result() for f in [p.submit(identity.interpreter) for _ in range(8)]}))"
    )
    for _ in range(3):
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert ran.stdout == "1\n"


def test_the_abi_is_the_one_that_extension_modules_are_built_for() -> None:
    assert f" {sysconfig.get_config_var('SOABI')} " in identity.interpreter()


def test_a_tarball_is_named_by_its_contents(tmp_path: pathlib.Path) -> None:
    one, two = tmp_path / "a.tar.gz", tmp_path / "b.tar.gz"
    one.write_bytes(b"same")
    two.write_bytes(b"same")
    assert identity.of_tarball(one) == identity.of_tarball(two)
    two.write_bytes(b"others")
    assert identity.of_tarball(one) != identity.of_tarball(two)


def test_only_so_many_files_are_remembered_and_the_oldest_is_forgotten(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: dict[object, str] = {}
    monkeypatch.setattr(identity, "_known", known)
    monkeypatch.setattr(identity, "_MAX_KNOWN", 2)
    found = []
    for number in range(4):
        file = tmp_path / str(number)
        file.write_text(str(number))
        found.append(identity.contents(file))
    assert list(known.values()) == found[2:]
    assert identity.contents(tmp_path / "0") == found[0]
