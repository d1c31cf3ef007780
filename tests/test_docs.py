"""The pages for people: their links lead somewhere, their tables are whole, and each can be found from the README."""

import collections.abc
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [
    README,
    *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "examples/model_repository/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]  # fmt: skip

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_NO_PART_OF_AN_ANCHOR = re.compile(r"[^\w\- ]")


def prose(page: pathlib.Path) -> collections.abc.Iterator[str]:
    """The lines outside of code."""
    code = False
    for line in page.read_text().splitlines():
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield line


def anchors(page: pathlib.Path) -> set[str]:
    """What can stand behind `#` in a link, by the rules of the places that show Markdown."""
    titles = [line.lstrip("#").strip().lower() for line in prose(page) if line.startswith("#")]
    return {_NO_PART_OF_AN_ANCHOR.sub("", title).replace(" ", "-") for title in titles}


def links(page: pathlib.Path) -> list[tuple[str, pathlib.Path, str]]:
    """Each link within the tree: as it is written, the file, the anchor."""
    found = []
    for link in _LINK.findall("\n".join(prose(page))):
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
    for line in prose(page):
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
    assert [page.name for page in sorted((ROOT / "docs").glob("*.md")) if page not in reached] == []
