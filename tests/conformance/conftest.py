"""Fixtures of the conformance run, and its closing report: rows that nothing shows, and the differences that are meant."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.conformance import asking
from tests.conformance.rows import ISSUE_ROWS, UNSHOWN
from tests.conformance.scenario import Scenario
from tests.conformance.setups import Servers, programs
from tests.conformance.verdict import Difference
from tests.conformance.wire import Target

_HERE = Path(__file__).parent
_SHOWN: pytest.StashKey[set[str]] = pytest.StashKey()
_FILES: pytest.StashKey[set[str]] = pytest.StashKey()
_USED: pytest.StashKey[list[Difference]] = pytest.StashKey()
_AGAIN: pytest.StashKey[list[tuple[str, tuple[str, ...]]]] = pytest.StashKey()

Ask = Callable[[Scenario], None]


def pytest_configure(config: pytest.Config) -> None:
    """Makes room for what the report needs."""
    config.addinivalue_line(
        "markers", "rows(*numbers): the rows that a test without a scenario shows"
    )
    config.stash[_SHOWN] = set()
    config.stash[_FILES] = set()
    config.stash[_USED] = []
    config.stash[_AGAIN] = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks this folder's tests, and notes which rows the collected scenarios show."""
    for item in items:
        if not item.path.is_relative_to(_HERE):
            continue
        item.add_marker(pytest.mark.conformance)
        # The first test of a set-up starts its servers, and the very first may install the reference.
        item.add_marker(pytest.mark.timeout(900))
        config.stash[_FILES].add(item.path.name)
        callspec = getattr(item, "callspec", None)
        scenario = callspec.params.get("scenario") if callspec is not None else None
        if isinstance(scenario, Scenario):
            config.stash[_SHOWN].update(scenario.rows)
        for marker in item.iter_markers("rows"):
            config.stash[_SHOWN].update(str(row) for row in marker.args)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The servers under comparison; all that were started are stopped at the end."""
    found = Servers(folder=tmp_path_factory.mktemp("conformance"), programs=programs())
    yield found
    found.stop()


@pytest.fixture
def ask(servers: Servers, pytestconfig: pytest.Config) -> Ask:
    """Asks both servers a scenario and fails with everything that is wrong about the answers."""

    def run(scenario: Scenario) -> None:
        times = 1
        while (asked := asking.ask(scenario, servers, _record)).again(times):
            pytestconfig.stash[_AGAIN].append((scenario.name, asked.verdict.faults))
            times += 1
        pytestconfig.stash[_USED].extend(asked.verdict.used)
        faults = asked.verdict.faults
        if asked.ended is not None:
            faults = (f"Naiad ended over it with {asked.ended}", *faults)
        if faults:
            pytest.fail("\n".join(faults), pytrace=False)

    return run


def _record(scenario: Scenario, target: Target, answer: Mapping[str, str]) -> None:
    path = os.environ.get("NAIAD_CONFORMANCE_RECORD")
    if path:
        with Path(path).open("a") as record:
            record.write(f"{scenario.name}\t{target.name}\t{json.dumps(answer)}\n")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Prints the rows of the issue that no scenario shows and the differences that showed, after a whole run."""
    if not config.stash[_FILES]:
        return
    files, shown = config.stash[_FILES], config.stash[_SHOWN]
    if any(path.name not in files for path in _HERE.glob("test_*.py")):
        terminalreporter.write_line(
            "conformance: not the whole folder was run, so no report on rows"
        )
    else:
        _report_rows(terminalreporter, shown)
    if config.stash[_AGAIN]:
        terminalreporter.section("conformance: scenarios that were asked again")
        for name, faults in config.stash[_AGAIN]:
            terminalreporter.write_line(f"{name}: {'; '.join(faults)}")
    used_all: list[Difference] = config.stash[_USED]
    used = dict.fromkeys(used_all)
    if used:
        terminalreporter.section("conformance: differences from tritonserver 2.51 that are meant")
        for difference in used:
            terminalreporter.write_line(
                f"{difference.scenario}: {difference.path}: {difference.reason}"
            )


def _report_rows(reporter: pytest.TerminalReporter, shown: set[str]) -> None:
    missing = [row for row in ISSUE_ROWS if row not in shown]
    reporter.section("conformance: rows of this issue that no scenario shows")
    for row in missing:
        reporter.write_line(f"{row}: {UNSHOWN.get(row, 'NO REASON GIVEN')}")
    reporter.write_line(f"{len(ISSUE_ROWS) - len(missing)} of {len(ISSUE_ROWS)} rows are shown")
