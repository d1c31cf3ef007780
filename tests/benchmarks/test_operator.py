"""When the operator's benchmark says that nothing happens any more: not while Kubernetes' controllers have yet to replace pods."""

import dataclasses
import pathlib
import threading
import time
import typing

import pytest

from benchmarks.operator import policy_cost, run
from benchmarks.operator.report import Result
from benchmarks.operator.watcher import Watcher, is_rolling, settle
from tests.apiserver.audit import AuditLog
from tests.support.calls import Calls

Object = dict[str, typing.Any]


def deployment(*, replicas: int = 0, updated: int = 0, observed: int = 2) -> Object:
    """One of two pods in its second generation."""
    status = {"observedGeneration": observed, "replicas": replicas, "updatedReplicas": updated}
    return {
        "kind": "Deployment",
        "metadata": {"generation": 2},
        "spec": {"replicas": 2},
        "status": {name: value for name, value in status.items() if value},
    }


@pytest.mark.parametrize(
    ("resource", "rolling"),
    [
        (deployment(observed=0), True),
        (deployment(replicas=2, updated=2, observed=1), True),
        (deployment(replicas=2), True),
        (deployment(replicas=1), True),
        # The first pod is replaced, and does not become ready: the controller waits with the second one.
        (deployment(replicas=2, updated=1), False),
        (deployment(replicas=2, updated=2), False),
        ({"kind": "Service", "metadata": {}, "spec": {}}, False),
    ],
)
def test_a_deployment_rolls_out_until_its_controller_waits_for_pods(
    resource: Object, *, rolling: bool
) -> None:
    assert is_rolling(resource) is rolling


class _Log:
    def write_count(self) -> int:
        return 7


class _Deployments:
    def __init__(self, *rolling: str) -> None:
        self.rolling = set(rolling)


def settled(deployments: _Deployments, *, give_up: float) -> float:
    """How long it takes until rest; three hundredths of a second without a write are one."""
    log = typing.cast("AuditLog", _Log())
    watcher = typing.cast("Watcher", deployments)
    began = time.monotonic()
    settle(log, watcher, seconds=0.03, give_up=give_up)
    return time.monotonic() - began


def test_an_operator_that_does_not_write_while_controllers_are_late_is_not_at_rest() -> None:
    deployments = _Deployments("service-0000")
    late = threading.Timer(0.3, deployments.rolling.clear)
    late.start()
    assert settled(deployments, give_up=30) >= 0.3
    late.join()


def test_rollouts_without_end_are_an_error_that_names_them() -> None:
    with pytest.raises(TimeoutError, match="service-0001"):
        settled(_Deployments("service-0001"), give_up=0.1)


def result(services: int) -> Result:
    """Results of one size, in which everything took a second."""
    known: dict[str, typing.Any] = {
        "services": services,
        "requests_at_rest": {"get x": 1.5},
        "requests_of_its_own": {},
    }
    names = (field.name for field in dataclasses.fields(Result))
    return Result(**{name: known.get(name, 1) for name in names})


@pytest.mark.parametrize("arguments", [["--sizes=3"], ["--sizes=3", "--write"]], ids=str)
def test_the_table_goes_into_the_docs_on_request(
    arguments: list[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, results = tmp_path / "page.md", tmp_path / "results"
    page.write_text("before\n<!-- bench-operator -->\nold\n<!-- /bench-operator -->\n")
    monkeypatch.setattr(run, "_PAGE", page)
    monkeypatch.setattr(run, "_RESULTS", results)
    monkeypatch.setattr(run, "find", lambda _: None)
    monkeypatch.setattr(run, "measure", lambda load, *_, **__: result(load.services))
    run.run(arguments)
    writes = "--write" in arguments
    assert ("| memory | 1 MB | ≤ 120 MB |" in page.read_text()) is writes
    assert (results / "operator.json").exists() is writes


async def test_the_cost_of_a_policy_is_a_small_part_of_a_reconcile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted in calls; the benchmark measures time."""
    calls = Calls()
    monkeypatch.setattr(policy_cost, "time", calls)
    with calls.watched():
        costs = await policy_cost.measure(rounds=2, repeats=1)
    shares = [cost.share for cost in costs.values()]
    assert list(costs) == list(policy_cost.CASES)
    assert all(0 < share < 0.1 for share in shares), shares
    assert shares[-1] == max(shares)
