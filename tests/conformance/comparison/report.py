"""The closing report of a conformance run: which rows were shown, what was asked again, and which differences are meant.

Each test writes what came of it into its own report, as pytest's user properties. They reach the process that prints the
summary also when several processes ran the tests.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.conformance.comparison import rows

ROWS = "conformance rows"
AGAIN = "conformance asked again"
DIFFERENCE = "conformance difference"

_HERE = Path(__file__).parents[1]
_FOLDER = "tests/conformance/"


class ConformanceReport:
    """Gathers what the tests of this folder reported, and prints it at the end of the run."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.shown: set[str] = set()
        self.again: list[str] = []
        self.differences: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Takes up one test's report."""
        if report.when != "call" or not report.nodeid.startswith(_FOLDER):
            return
        self.files.add(report.nodeid.removeprefix(_FOLDER).partition("::")[0])
        for key, value in report.user_properties:
            if key == ROWS and report.passed:
                self.shown.update(str(value).split())
            elif key == AGAIN:
                self.again.append(str(value))
            elif key == DIFFERENCE:
                self.differences[str(value)] = None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints the rows, after a whole run, and the differences that showed."""
        if not self.files:
            return
        if any(path.name not in self.files for path in _HERE.glob("test_*.py")):
            terminalreporter.write_line(
                "conformance: not the whole folder was run, so no report on rows"
            )
        else:
            _section(terminalreporter, "rows of the table", rows.report(self.shown))
        if self.again:
            _section(terminalreporter, "scenarios that were asked again", self.again)
        if self.differences:
            _section(
                terminalreporter,
                "differences from tritonserver 2.51 that are meant",
                self.differences,
            )


def _section(reporter: pytest.TerminalReporter, title: str, lines: Iterable[str]) -> None:
    reporter.section(f"conformance: {title}")
    for line in lines:
        reporter.write_line(line)
