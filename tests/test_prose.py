"""The check of the project's English (`.ci/prose`): it finds what its tables list, and leaves code and quotations alone."""

import pathlib
import re
import subprocess
import sys

import pytest

from tests.support import prose

ROOT = pathlib.Path(__file__).parent.parent
TABLES = ROOT / ".ci" / "prose.toml"
RULES = prose.rules(TABLES)


def found(source: str, path: str = "page.txt", rules: prose.Rules = RULES) -> list[str]:
    """The words that are found in a file of this content."""
    return [finding.found for finding in prose.findings_in(path, source, rules)]


PHRASES = """
nobody waits | Somebody else | anybody | everybody's | someone | whoever asks | who asked | is told
has been told | told of | This says so | is no text | are no packages | is none | is no such thing
whole number | nonsense | a thread an instance | a worker process each instance | one folder a model
once a batch | requests a second | 20 µs a field | a circle | built anew | is let go of | mended
carries it out | not there yet | mean nothing | texts of errors | hangs up | lie in each other
can only be had | cannot be had | tells no secret | in vain | buries | last words | took no batch
no instance that runs | nobody's business | judges | the figures | the way back | right unless told otherwise | under way | at a time when | a desk | an errand | the mailbox
survivors | the surroundings | a roster | a parcel | the settlement | answered apart | apart from its batch
NaiadQueueStands | fewest replicas
"""
"""Every phrase of the table, at least once."""


@pytest.mark.parametrize("phrase", re.split(r" \| |\n", PHRASES.strip()))
def test_a_listed_phrase_is_found(phrase: str) -> None:
    assert found(f"Words before, {phrase}, words after.") != []


def test_every_phrase_of_the_table_is_tried() -> None:
    untried = [each.pattern for each, _ in RULES.phrases if not each.search(PHRASES)]
    assert untried == []


@pytest.mark.parametrize(
    "sentence",
    [
        "There is no text.",
        "It is no longer listed.",
        "there are none",
        "requests per second",
        "takes a second and a half",
        "one thread per instance",
        "the cyclone in the desktop",
        "The context of an error.",
        "Once a model is loaded, it serves.",
    ],
)
def test_plain_english_is_not_found(sentence: str) -> None:
    assert found(sentence) == []


def test_a_phrase_is_found_across_the_end_of_a_line() -> None:
    assert found("One value is\nno text.") == ["is no text"]
    assert found("# One value is\n# no text.\n", "a.py") == ["is no text"]
    assert found('raise ValueError("this is "\n  "no text")\n', "a.py") == ["is no text"]


def test_the_place_and_the_replacement_are_printed() -> None:
    (finding,) = prose.findings_in("docs/a.txt", "One.\n\nIt says circle here.", RULES)
    assert str(finding) == "docs/a.txt:3: 'cir" + 'cle\': write "cycle"'


def test_in_python_comments_strings_and_names_of_tests_are_text_and_code_is_not() -> None:
    word = "anybody"
    assert found(f"{word} = 1\nprint({word})\n", "a.py") == []
    assert found(f"x = 1  # {word}\n", "a.py") == [word]
    assert found(f'"""Is {word} here?"""\n', "a.py") == [word]
    assert found(f'x = f"is {{x}} {word}"\n', "a.py") == [word]
    assert found(f"def test_{word}_waits() -> None: ...\n", "a.py") == [word]


@pytest.mark.parametrize("name", ["WorkerDesk", "_desk", "Mailbox", "_Place", "put_down"])
def test_a_retired_name_is_found_in_code(name: str) -> None:
    assert found(f"{name} = 1\n", "a.py") == [name] or found(f"{name} = 1\n", "a.py") != []


@pytest.mark.parametrize("name", ["place", "pulses", "sinks", "Lookup", "patience_of"])
def test_a_name_that_only_looks_like_a_retired_one_is_not_found(name: str) -> None:
    assert found(f"{name} = 1\n", "a.py") == []


def test_a_docstring_that_begins_with_a_row_is_found() -> None:
    assert found('def f() -> None:\n    """Row 3.14."""\n', "a.py") == ['"""Row 3.14']
    assert found('def f() -> None:\n    """Refuse it (row 3.14)."""\n', "a.py") == []


def test_a_quotation_may_stay_in_its_file_and_nowhere_else() -> None:
    quoted = "unexpected value is no text"
    rules = prose.Rules(RULES.phrases, RULES.names, {"a.txt": (quoted,)})
    assert found(f"Triton says: {quoted}.", "a.txt", rules) == []
    assert found(f"Triton says: {quoted}.", "b.txt", rules) == ["is no text"]
    assert found(f"Triton says: {quoted}. A value is no text.", "a.txt", rules) == ["is no text"]


def test_a_quotation_that_is_gone_is_reported(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.txt").write_text("The first sentence.")
    kept, gone = "first sentence", "second sentence"
    rules = prose.Rules((), (), {"a.txt": (kept, gone), "b.txt": (kept,)})
    assert [finding.found for finding in prose.unused_quotations(tmp_path, rules)] == [gone, kept]


def checkout(folder: pathlib.Path, tables: str) -> pathlib.Path:
    """A small checkout with two pages that both need a change."""
    subprocess.run(["git", "init", "-q", folder], check=True)
    for page in ("one/a.txt", "two/a.txt", ".ci/prose.toml"):
        (folder / page).parent.mkdir(exist_ok=True, parents=True)
        (folder / page).write_text(tables if page.startswith(".ci") else "A circle.")
    return folder


def test_every_file_of_a_checkout_is_checked_but_those_that_are_left_out(
    tmp_path: pathlib.Path,
) -> None:
    tables = "phrases = [['circle', 'cycle']]\nnames = []\nleft_out = %s\n[quotations]\n"
    everything = checkout(tmp_path / "all", tables % "[]")
    assert [finding.path for finding in prose.check(everything)] == ["one/a.txt", "two/a.txt"]
    a_part = checkout(tmp_path / "part", tables % "['one/']")
    assert [finding.path for finding in prose.check(a_part)] == ["two/a.txt"]
    assert [finding.path for finding in prose.check(a_part, [a_part / "one/a.txt"])] == [
        "one/a.txt"
    ]


def run(page: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """The command for one file."""
    command = [sys.executable, str(ROOT / ".ci" / "prose"), str(page)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_fails_when_it_finds_something() -> None:
    clean = run(ROOT / ".gitignore")
    assert (clean.returncode, clean.stdout) == (0, "")
    faulty = run(ROOT / "tests" / "data" / "prose" / "page.txt")
    assert (faulty.returncode, faulty.stderr) == (
        1,
        "1 found; a quotation that must stay is listed in .ci/prose.toml\n",
    )
    assert faulty.stdout == "tests/data/prose/page.txt:3: 'circle': write \"cycle\"\n"


def test_the_folders_that_are_left_out_exist() -> None:
    assert [path for path in RULES.left_out if not (ROOT / path).exists()] == []


def test_every_expression_has_a_replacement() -> None:
    assert all(
        write.strip() and isinstance(find, re.Pattern)
        for find, write in (*RULES.phrases, *RULES.names)
    )
