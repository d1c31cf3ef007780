"""Fixtures of the conformance run, and its closing report: rows that nothing shows, and the differences that are meant."""

import http.client
import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from tests.conformance.differences import DIFFERENCES
from tests.conformance.rows import ISSUE_ROWS, UNSHOWN
from tests.conformance.scenario import Scenario, normalised
from tests.conformance.setups import Servers, programs
from tests.conformance.verdict import Difference, Verdict, judge
from tests.conformance.wire import Answer, Target

_HERE = Path(__file__).parent
_SHOWN: pytest.StashKey[set[str]] = pytest.StashKey()
_FILES: pytest.StashKey[set[str]] = pytest.StashKey()
_USED: pytest.StashKey[list[Difference]] = pytest.StashKey()
_AGAIN: pytest.StashKey[list[tuple[str, tuple[str, ...]]]] = pytest.StashKey()

Ask = Callable[[Scenario], None]
_TRIES = 3
"""How often a scenario is asked before a fault counts: a busy machine can keep apart what is to meet in a queue, and the reference
loses a log line or an answer now and then. What is wrong is wrong each time; what was asked again is told at the end."""


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

    def once(scenario: Scenario) -> tuple[Verdict, bool]:
        targets = servers.targets(scenario.server)
        # Scenarios that start servers of their own wait for them most of the time, so they go side by side.
        with ThreadPoolExecutor(len(targets) if scenario.server == "unstarted" else 1) as pool:
            asked = [pool.submit(_answer, scenario, target, servers) for target in targets]
        answers = [normalised(scenario, one.result()) for one in asked]
        _record(scenario, [target.name for target in targets], answers)
        ours = answers[1] if len(answers) > 1 else None
        return judge(scenario, answers[0], ours, DIFFERENCES), _silent(answers[0])

    def run(scenario: Scenario) -> None:
        verdict, silent = once(scenario)
        for _ in range(_TRIES - 1):
            if not verdict.faults:
                break
            pytestconfig.stash[_AGAIN].append((scenario.name, verdict.faults))
            if silent:
                servers.drop(scenario.server)
            verdict, silent = once(scenario)
        pytestconfig.stash[_USED].extend(verdict.used)
        if verdict.faults:
            pytest.fail("\n".join(verdict.faults), pytrace=False)

    return run


def _answer(scenario: Scenario, target: Target, servers: Servers) -> Answer:
    """Asks one server. Where it ends over it, the answer says so, and the next scenario gets new servers."""
    try:
        return scenario.ask(target)
    except (OSError, http.client.HTTPException, grpc.RpcError) as error:
        process = target.process.process
        if process is None or process.poll() is None:
            return {"no answer": f"{type(error).__name__}: {error}"}
        servers.drop(scenario.server)
        return {"ended with": process.returncode}


def _silent(reference: Mapping[str, str]) -> bool:
    """Whether the reference never answered. 2.51 hangs now and then over a stream, or ends: where that is a fault it is asked again."""
    unanswered = {"no answer", "ended with"} & reference.keys()
    return bool(unanswered) or repr("DEADLINE_EXCEEDED") in reference.values()


def _record(scenario: Scenario, names: list[str], answers: list[dict[str, str]]) -> None:
    path = os.environ.get("NAIAD_CONFORMANCE_RECORD")
    if path:
        with Path(path).open("a") as record:
            record.writelines(
                f"{scenario.name}\t{name}\t{json.dumps(answer)}\n"
                for name, answer in zip(names, answers, strict=True)
            )


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
