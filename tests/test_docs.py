"""The pages for people: their links lead somewhere, their tables are whole, and each can be found from the README."""

import collections.abc
import pathlib
import re

import pytest

from naiad_operator import cli
from tests.support import prose

ROOT = pathlib.Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [
    README,
    *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "examples/model_repository/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]  # fmt: skip

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_NO_PART_OF_AN_ANCHOR = re.compile(r"[^\w\- ]")


def lines_of_text(page: pathlib.Path) -> collections.abc.Iterator[str]:
    """The lines outside of code."""
    code = False
    for line in page.read_text().splitlines():
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield line


def anchors(page: pathlib.Path) -> set[str]:
    """What can stand behind `#` in a link, by the rules of the places that show Markdown."""
    titles = [
        line.lstrip("#").strip().lower() for line in lines_of_text(page) if line.startswith("#")
    ]
    return {_NO_PART_OF_AN_ANCHOR.sub("", title).replace(" ", "-") for title in titles}


def links(page: pathlib.Path) -> list[tuple[str, pathlib.Path, str]]:
    """Each link within the tree: as it is written, the file, the anchor."""
    found = []
    for link in _LINK.findall("\n".join(lines_of_text(page))):
        if "://" not in link:
            path, _, anchor = link.partition("#")
            found.append((link, (page.parent / path).resolve() if path else page, anchor))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_something(page: pathlib.Path) -> None:
    broken = [
        link
        for link, target, anchor in links(page)
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_row_of_a_table_has_as_many_cells_as_its_head(page: pathlib.Path) -> None:
    """A `|` inside of a cell ends it, and what follows is not shown."""
    wide = 0
    torn = []
    for line in lines_of_text(page):
        if not line.startswith("|"):
            wide = 0
            continue
        cells = len(re.split(r"(?<!\\)\|", line))
        wide = wide or cells
        if cells != wide:
            torn.append(line)
    assert torn == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached = {README}
    line = [README]
    for page in line:
        for _, target, _ in links(page):
            if target.suffix == ".md" and target not in reached:
                reached.add(target)
                line.append(target)
    assert [
        page.name for page in sorted((ROOT / "docs").rglob("*.md")) if page not in reached
    ] == []


SOURCES = "\n".join(path.read_text() for path in sorted((ROOT / "server" / "naiad").rglob("*.py")))


def first_cells(page: pathlib.Path, title: str = "") -> list[str]:
    """What stands between backticks in the first column of the tables, from a title on."""
    lines = list(lines_of_text(page))
    start = lines.index(title) if title else 0
    end = next(
        (n for n, line in enumerate(lines) if n > start and title and line.startswith("## ")), None
    )
    cells = [line.split("|")[1] for line in lines[start:end] if line.startswith("| `")]
    return [code for cell in cells for code in re.findall(r"`([^`]+)`", cell)]


def test_every_parameter_of_our_own_is_in_the_one_table() -> None:
    known = set(re.findall(r'^[A-Z_]+ = "(naiad\.[a-z_]+)"$', SOURCES, re.MULTILINE))
    # A logger, the groups of entry points, and a key of requests.
    known -= {"naiad.models", "naiad.backends", "naiad.repository_agents", "naiad.base_path"}
    page = ROOT / "docs" / "configuration.md"
    assert set(first_cells(page, "## Parameters of Naiad's own")) == known


def test_every_message_of_the_troubleshooting_page_is_one_of_the_servers() -> None:
    """Words of the system's own and of Python are left out; `naiad_…` are metrics, which have tests of their own."""
    others = {"No module named", "Cannot allocate memory"}
    parts = [
        part.strip()
        for cell in first_cells(ROOT / "docs" / "troubleshooting.md")
        for part in cell.split("…")
        if part.strip() not in others
    ]
    assert len(parts) > 30
    assert [part for part in parts if part.strip(" '") not in SOURCES] == []


_NAMED = re.compile(r"(?<![\w./-])(?:\.\./)*\w[\w/-]*\.md\b")
_BEHAVIOUR = ROOT / "docs/reference/triton-behaviour.md"
"""Its last column names pages of Triton's own sources."""

_PAGES_OF_A_TEST = {"note.md", "line.md", "docs/new.md", "page.md"}


def text_files() -> list[pathlib.Path]:
    """Every file of the repository that holds text of ours."""
    return [
        ROOT / name
        for name in prose.tracked(ROOT)
        if (ROOT / name).suffix in prose.SUFFIXES and (ROOT / name).is_file() and name != "LICENSE"
    ]


def test_every_page_that_a_file_names_is_there() -> None:
    """A page outside of the project cannot be looked up by its readers, so none is cited."""
    named = [
        (path, page)
        for path in text_files()
        for page in _NAMED.findall(path.read_text())
        if page not in _PAGES_OF_A_TEST and path != _BEHAVIOUR
    ]
    assert len(named) > 150
    assert [
        (str(path.relative_to(ROOT)), page)
        for path, page in named
        if not any((base / page).exists() for base in (ROOT, ROOT / "docs", path.parent))
    ] == []


_MODULE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")
_MODULES_OF_A_MODEL = {"dali.py", "helper.py", "model.py"}


def test_every_module_that_pages_name_is_there() -> None:
    folders = ("server", "operator", "tests", "benchmarks", "examples")
    files = {f"/{path.as_posix()}" for folder in folders for path in (ROOT / folder).rglob("*.py")}
    named = [
        (page.name, module)
        for page in PAGES
        for module in _MODULE.findall("\n".join(lines_of_text(page)))
        if module not in _MODULES_OF_A_MODEL
    ]
    assert len(named) > 20
    assert [each for each in named if not any(f.endswith(f"/{each[1]}") for f in files)] == []


_CITED = re.compile(r"\brows? (\d+\.\d+(?:(?:-| to |, | and )\d+\.\d+)*)")


def test_every_row_that_is_cited_can_be_looked_up() -> None:
    page = _BEHAVIOUR.read_text()
    rows = set(re.findall(r"^\| (\d+\.\d+) \|", page, re.MULTILINE))
    cited = [
        (str(path.relative_to(ROOT)), row)
        for path in text_files()
        for rows_of in _CITED.findall(path.read_text())
        for row in re.findall(r"\d+\.\d+", rows_of)
    ]
    assert len(cited) > 300
    assert [each for each in cited if each[1] not in rows] == []


_YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.mark.parametrize("page", _TUTORIALS, ids=lambda page: page.stem)
def test_the_services_of_a_tutorial_are_valid(
    page: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`naiad-operator check` has no errors; a part of a manifest, without its kind, is left out."""
    for number, manifest in enumerate(_YAML.findall(page.read_text())):
        if "kind: InferenceService" in manifest:
            file = tmp_path / f"{number}.yaml"
            file.write_text(manifest)
            assert cli.main(["check", "-q", "-f", str(file)]) == 0, capsys.readouterr().err
