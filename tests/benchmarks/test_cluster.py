"""The table of `make bench-cluster`, and the place in the docs that gets it."""

import pathlib

from benchmarks.cluster.report import Result, machine, table

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_figure_over_its_bound_is_seen() -> None:
    kept = Result("a start", (4.04, 6.0), bound=10)
    broken = Result("failed requests", (0, 2, 0), unit="requests", bound=0)
    free = Result("a second demo", (12.0,))
    assert [result.holds for result in (kept, broken, free)] == [True, False, True]
    text = table([kept, broken, free])
    assert text.startswith(machine())
    assert "| a start | 4.0, 6.0 s | 10 s |" in text
    assert "| failed requests | **0, 2, 0 requests** | 0 requests |" in text
    assert "| a second demo | 12.0 s |  |" in text


def test_the_docs_have_a_place_for_it() -> None:
    assert "<!-- bench-cluster -->\n" in (ROOT / "docs" / "cluster.md").read_text()
