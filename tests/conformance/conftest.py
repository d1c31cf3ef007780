"""Fixtures of the conformance run; what comes of each scenario goes into the closing report (comparison/report.py)."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.conformance.comparison import asking
from tests.conformance.comparison.report import AGAIN, DIFFERENCE, ROWS
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import Target
from tests.conformance.servers.setups import Servers, programs
from tests.parallel import group

_HERE = Path(__file__).parent
_SERVERS = pytest.StashKey[Servers]()

Ask = Callable[[Scenario], None]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks this folder's tests."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.conformance)
            # The first test of a set-up starts its servers, and the very first may install the reference.
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """The servers under comparison; all that were started are stopped at the end."""
    found = Servers(folder=tmp_path_factory.mktemp("conformance"), programs=programs())
    request.config.stash[_SERVERS] = found
    yield found
    found.stop()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stops the servers of a group with its last test: twenty pairs of them would take a fifth of a processor until the end of the run."""
    servers = item.config.stash.get(_SERVERS, None)
    if servers is not None and (nextitem is None or group(nextitem) != group(item)):
        servers.stop()


@pytest.fixture
def ask(servers: Servers, record_property: Callable[[str, str], None]) -> Ask:
    """Asks both servers a scenario and fails with everything that is wrong about the answers."""

    def run(scenario: Scenario) -> None:
        record_property(ROWS, " ".join(scenario.rows))
        times, first = 1, time.monotonic()
        while (asked := asking.ask(scenario, servers, _record)).again(
            times, time.monotonic() - first
        ):
            record_property(AGAIN, f"{scenario.name}: {'; '.join(asked.verdict.faults)}")
            times += 1
        for used in asked.verdict.used:
            record_property(DIFFERENCE, f"{used.scenario}: {used.path}: {used.reason}")
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
