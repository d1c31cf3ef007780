"""The rate limiter (rows 11.38, 14.16 to 14.19): what waits for what, shares of executions, what is refused, and the options.

A scenario plugs instances with requests that last until it lets them go, and looks which others wait meanwhile: both servers show that in their metrics.
"""

import contextlib
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.starting import exits, server_on, start
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers import catalogue, control
from tests.conformance.servers.busy import Executions, pending, plug, wait_queued
from tests.support.waiting import wait_until

_QUICK = {"inputs": [value("DELAY_MS", "INT32", [1], [0])]}


def _slow(delay_ms: int) -> Answer:
    return {"inputs": [value("DELAY_MS", "INT32", [1], [delay_ms])]}


def waits(target: Target, plugged: Sequence[str], sent: Sequence[str]) -> Answer:
    """Which requests wait while others run; then all of them are answered.

    Args:
        target: the server.
        plugged: the models that run a request meanwhile, one after the other.
        sent: the models that get a request then.
    """
    found: Answer = {}
    with ThreadPoolExecutor(len(plugged) + len(sent)) as pool, contextlib.ExitStack() as plugs:
        running = []
        for model in plugged:
            executions = Executions(target, model)
            delay_ms = plugs.enter_context(plug(target))
            running.append(pool.submit(target.infer, model, _slow(delay_ms)))
            executions.wait()
        for model in sent:
            future = pool.submit(target.infer, model, _QUICK)
            with contextlib.suppress(TimeoutError):
                future.result(0.3 if pending(target, model) else 1.5)
            found[model] = "waits" if pending(target, model) and not future.done() else "runs"
            running.append(future)
        plugs.close()
        found["statuses"] = [future.result().status for future in running]
    return found


def scenario(name: str, rows: str, plugged: str, sent: str, server: str = "limited", **expect: object) -> Scenario:  # fmt: skip
    """One of `waits`."""
    return Scenario(
        name,
        tuple(rows.split()),
        lambda target: waits(target, plugged.split(), sent.split()),
        expect=expect,
        server=server,
    )


def _shares(target: Target, models: dict[str, int], first: int, plug_model: str) -> Answer:
    """How many of the requests of each model are among the first ones that run, when many wait for one resource behind a plug."""
    order: list[str] = []
    with ThreadPoolExecutor(sum(models.values()) + 1) as pool:
        executions = Executions(target, plug_model)
        with plug(target) as delay_ms:
            futures: list[Future[None]] = [pool.submit(_noted, target, plug_model, _slow(delay_ms), [])]  # fmt: skip
            executions.wait()
            for model, count in models.items():
                sent = [pool.submit(_noted, target, model, _slow(20), order) for _ in range(count)]
                wait_queued(target, model, sent)
                futures += sent
        for future in futures:
            future.result()
    return {model: order[:first].count(model) for model in models}


def _noted(target: Target, model: str, body: Answer, order: list[str]) -> None:
    assert target.infer(model, body).status == 200
    order.append(model)


def _twice_as_many(target: Target) -> Answer:
    counts = _shares(target, {"share_1": 14, "share_2": 14}, 12, "share_plug")
    # Which of two equal turns comes first is not said, nor how two responses that leave together arrive.
    return {"twice as many": abs(counts["share_1"] - 2 * counts["share_2"]) <= 3}


def _as_many(target: Target) -> Answer:
    counts = _shares(target, {"shares_0": 12, "shares_1": 12}, 12, "shares_plug")
    return {"as many": abs(counts["shares_0"] - counts["shares_1"]) <= 2}


def _reason(target: Target, model: str) -> Answer:
    wait_until(lambda: "reason" in control.entries(target, model)[0], seconds=120)
    (entry,) = control.entries(target, model)
    return {"state": entry["state"], "error": entry["reason"]}


def refused(name: str, model: str, says: str) -> Scenario:
    """A model that does not load."""
    return Scenario(
        name,
        ("14.19",),
        lambda target: _reason(target, model),
        says=says,
        expect={"state": "UNAVAILABLE"},
        server="limited_refused",
    )


def _options(target: Target, *options: str) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        repository = catalogue.write(Path(folder) / "models", catalogue.GOOD, only=[])
        return exits(target, repository, *options)


def _starts(target: Target, *options: str) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        repository = catalogue.write(Path(folder) / "models", catalogue.GOOD, only=["report"])
        with server_on(target, repository, *options) as server:
            return {"status": Target(server).http("GET", "/v2/models/report/ready").status}


def _grows(target: Target) -> Answer:
    """By default there is as much as the instance needs that needs most: less, once that is unloaded."""
    found: Answer = {}
    for name in ("need_1_a", "need_1_b"):
        assert control.load(target, name) == 200
    found["alone"] = waits(target, ["need_1_a"], ["need_1_b"])
    assert control.load(target, "need_3") == 200
    found["with one that needs 3"] = waits(target, ["need_1_a"], ["need_1_b", "need_3"])
    control.unload(target, "need_3")
    found["alone again"] = waits(target, ["need_1_a"], ["need_1_b"])
    for name in ("need_1_a", "need_1_b"):
        control.unload(target, name)
    return found


def _two_kinds(target: Target) -> Answer:
    """A name that one model takes as a resource of devices, and the next one as a global one."""
    assert control.load(target, "need_1_a") == 200
    refused = control.change(target, "load", "global_r").answer()
    control.unload(target, "need_1_a")
    after = control.load(target, "global_r")
    control.unload(target, "global_r")
    return {**refused, "after": after}


WAITS = [
    scenario("one resource, two models", "14.17", "one_a", "one_b", one_b="waits"),
    scenario("a model without resources runs", "14.17", "one_a two_both", "free weighted_free needs_nothing", weighted_free="runs"),
    scenario("two of a resource, two models", "14.17", "two_a", "two_b", two_b="runs"),
    scenario("an instance that needs both waits for one", "14.17", "two_a", "two_both", two_both="waits"),
    scenario("an instance that has both", "14.17", "two_both", "two_a two_b", two_a="waits", two_b="waits"),
    scenario("two instances of a model share one resource", "14.17", "pair", "pair", pair="waits"),
    scenario("a resource of a device", "14.17 14.18", "here_a", "here_b", here_b="waits"),
    scenario("a global resource", "14.17 14.19", "world_a", "world_b", world_b="waits"),
    scenario("two resources, one of them used", "14.17", "one_a", "several", several="waits"),
    scenario("two resources that are free", "14.17", "two_a", "several", several="runs"),
    scenario("the rate limiter is off", "14.16", "one_a", "one_b too_much both_kinds", server="unlimited", one_b="runs", too_much="runs"),
]  # fmt: skip

OTHERS = [
    Scenario("priorities are shares of executions", ("11.38", "14.17"), _twice_as_many, expect={"twice as many": True}, server="limited"),
    Scenario("priority 0 is 1", ("11.38",), _as_many, expect={"as many": True}, server="limited"),
    Scenario("as much as any instance needs", ("14.19",), _grows, server="limited_by_need"),
    Scenario("global and device-specific", ("14.19",), _two_kinds, server="limited_by_need", says="is present as both global and device-specific resource"),
    refused("more than there is", "too_much", 'Resource count for "ONE" is limited to 1 which will prevent scheduling of one or more model instances, the minimum required count is 2'),
    refused("more than there is of a global one", "too_much_global", 'Resource count for "WORLD" is limited to 1'),
    refused("a resource that no option names", "unnamed", 'Resource count for "NEVER" is limited to 0'),
    refused("a global resource that no option names", "unnamed_global", 'Resource count for "NEVER" is limited to 0'),
    refused("both kinds in one model", "both_kinds", 'Resource "TWO" is present as both global and device-specific resource in the model configuration.'),
    refused("one group of two needs too much", "one_group_too_much", 'Resource count for "TWO" is limited to 2'),
]  # fmt: skip

OPTIONS = [
    start("--rate-limit=sometimes", "14.16", lambda target: _options(target, "--rate-limit=sometimes"), status=1),
    start("--rate-limit-resource without a count", "14.18", lambda target: _options(target, "--rate-limit-resource=R"), "--rate-limit-resource option format is '<resource_name>:<count>:<device>' or '<resource_name>:<count>'. Got R", status=1),
    start("--rate-limit-resource with four parts", "14.18", lambda target: _options(target, "--rate-limit-resource=R:1:2:3"), "--rate-limit-resource option format is '<resource_name>:<count>:<device>' or '<resource_name>:<count>'", status=1),
    start("--rate-limit-resource with a word", "14.18", lambda target: _options(target, "--rate-limit-resource=R:many"), status=1),
    start("--rate-limit in capitals", "14.16", lambda target: _starts(target, "--rate-limit=EXECUTION_COUNT"), status=200),
    start("--rate-limit-resource while it is off", "14.16", lambda target: _starts(target, "--rate-limit-resource=R:1"), status=200),
]  # fmt: skip


@pytest.mark.parametrize("scenario", [*WAITS, *OTHERS, *OPTIONS], ids=lambda scenario: scenario.name)  # fmt: skip
def test_the_rate_limiter_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
