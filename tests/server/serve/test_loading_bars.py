"""The rows that a terminal shows of the loads in progress."""

import io

import pytest
from rich.console import Console

from naiad.repository.loading.progress import LoadProgress, Phase
from naiad.serve.loading_bars import table


def load(
    name: str, phase: Phase, *, version: int | None = None, done: int = 0, total: int = 0
) -> LoadProgress:
    return LoadProgress(
        name=name,
        version=version,
        phase=phase,
        bytes_done=done,
        bytes_total=total,
        elapsed_seconds=2.5,
        reason="",
    )


def drawn(*loads: LoadProgress, rows: int = 10) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=120).print(table(loads, rows=rows, spinner="*"))
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_what_waits_comes_last_and_what_is_over_is_left_out() -> None:
    lines = drawn(
        load("a", Phase.WAITING, version=1),
        load("b", Phase.LOADED, version=1),
        load("[c]", Phase.READING_CONFIG),
        load("d", Phase.LOADING, version=3),
    )
    assert [line.split() for line in lines] == [
        ["*", "[c]", "reading", "config", "2.5", "s"],
        ["*", "d", "version", "3", "loading", "2.5", "s"],
        ["a", "version", "1", "waiting", "2.5", "s"],
    ]


@pytest.mark.parametrize(
    ("done", "total", "words"),
    [
        (0, 0, "fetching"),
        (1_500_000, 0, "fetching 1.5 MB"),
        (1_500_000, 3_000_000, "fetching 1.5 MB of 3.0 MB"),
    ],
)
def test_a_fetch_shows_its_bytes_as_far_as_they_are_known(
    done: int, total: int, words: str
) -> None:
    (line,) = drawn(load("m", Phase.FETCHING, done=done, total=total))
    assert words in line
    assert ("━" in line) == bool(total)


def test_a_bar_is_as_long_as_the_part_that_is_fetched() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system="standard")
    console.print(table([load("m", Phase.FETCHING, done=50, total=100)], rows=9, spinner="*"))
    file = console.file
    assert isinstance(file, io.StringIO)
    assert "━" * 12 + "\x1b" in file.getvalue()


def test_more_loads_than_rows_are_counted() -> None:
    lines = drawn(*(load(f"m{number}", Phase.LOADING) for number in range(5)), rows=3)
    assert len(lines) == 4
    assert lines[-1].split() == ["and", "2", "more"]
