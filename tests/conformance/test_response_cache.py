"""The local response cache (8.4, 8.22, 14.14, 14.22 to 14.27): what is a hit, how it is counted, what is refused."""

import itertools
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.starting import exits, server_on, start
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers import catalogue
from tests.conformance.servers.cached import MODELS

_SERVER = "cached"
_FRESH = itertools.count(1)
"""No two scenarios, and no two times that one is asked, send the same values."""


def fresh() -> float:
    """A value that was not sent before."""
    return float(next(_FRESH))


def a(*values: float, rows: int = 1) -> dict[str, Any]:
    """The input A."""
    return value("A", "FP32", [rows, len(values) // rows], list(values))


def mode(text: str, rows: int = 1) -> dict[str, Any]:
    """The input MODE."""
    return value("MODE", "BYTES", [rows, 1], [text] * rows)


def sent(
    target: Target, model: str, *inputs: Any, outputs: tuple[str, ...] = (), **more: Any
) -> Any:
    """The reply to a request."""
    body: dict[str, Any] = {"inputs": list(inputs), **more}
    if outputs:
        body["outputs"] = [{"name": name} for name in outputs]
    return target.infer(model, body).answer()


def execution(reply: Any) -> int:
    """Which execution a response is from; -1 for a response without it."""
    if reply["status"] != 200:
        return -1
    found = {each["name"]: each["data"] for each in reply["json"]["outputs"]}
    return int(found["EXECUTION"][0]) if "EXECUTION" in found else -1


def counts(target: Target, model: str) -> dict[str, int]:
    """Its counters."""
    stat = target.http("GET", f"/v2/models/{model}/stats").answer()["json"]["model_stats"][0]
    return {
        "inferences": stat["inference_count"],
        "executions": stat["execution_count"],
        **{name: each["count"] for name, each in stat["inference_stats"].items()},
    }


def settled(target: Target, model: str) -> dict[str, int]:
    """Its counters, once they no longer change: a miss is counted behind its response."""
    last = counts(target, model)
    while True:
        time.sleep(0.05)
        now = counts(target, model)
        if now == last:
            return now
        last = now


def added(target: Target, model: str, do: Any) -> Answer:
    """What it returns, and what it adds to the counters."""
    before = settled(target, model)
    answer = do()
    after = settled(target, model)
    return {"answer": answer, "added": {name: after[name] - before[name] for name in after}}


def twice(target: Target, model: str, first: list[Any], second: list[Any], **more: Any) -> Answer:
    """Two requests: whether the second one was executed, and what both add."""

    def both() -> Answer:
        one, two = sent(target, model, *first, **more), sent(target, model, *second, **more)
        return {
            "statuses": [one["status"], two["status"]],
            "executed": execution(one) != execution(two) or execution(one) == -1,
        }

    return added(target, model, both)


PAIRS: dict[str, tuple[str, str, Any]] = {
    "the same request": ("cached", "14.24 14.25 14.26 8.4", lambda x: ([a(x, 1)], [a(x, 1)])),
    "other values": ("cached", "14.24", lambda x: ([a(x, 1)], [a(x, 2)])),
    "the same bytes in another shape": ("cached", "14.24", lambda x: ([a(x, 1)], [a(x, 1, rows=2)])),
    "inputs in another order": (
        "cached", "14.24", lambda x: ([a(x), value("B", "FP32", [1, 1], [5])], [value("B", "FP32", [1, 1], [5]), a(x)])
    ),
    "values of another input": (
        "cached", "14.24", lambda x: ([a(x), value("B", "FP32", [1, 1], [5])], [a(x), value("B", "FP32", [1, 1], [6])])
    ),
    "an optional input more": ("cached", "14.24", lambda x: ([a(x)], [a(x), value("B", "FP32", [1, 1], [5])])),
    "an error response": ("cached", "14.27", lambda x: ([a(x), mode("error")], [a(x), mode("error")])),
    "an execution that fails": ("cached", "14.27", lambda x: ([a(x), mode("raise")], [a(x), mode("raise")])),
    "with dynamic batching": ("batched", "14.25", lambda x: ([a(x)], [a(x)])),
    "with preserve_ordering": ("ordered", "14.25", lambda x: ([a(x)], [a(x)])),
    "several rows": ("batched", "14.25 8.4", lambda x: ([a(x, 1, 2, 3, rows=4)], [a(x, 1, 2, 3, rows=4)])),
    "a model without it": ("uncached", "14.22", lambda x: ([a(x)], [a(x)])),
    "a model that switches it off": ("off", "14.22", lambda x: ([a(x)], [a(x)])),
    "strings of a mode": ("cached", "14.24", lambda x: ([a(x), mode("x")], [a(x), mode("x")])),
    "other strings": ("cached", "14.24", lambda x: ([a(x), mode("x")], [a(x), mode("y")])),
    "a request that validation refuses": ("cached", "14.25", lambda x: ([a(*[x] * 9, rows=9)], [a(*[x] * 9, rows=9)])),
    "an ensemble whose step is cached": ("e_of_cached", "14.14", lambda x: ([a(x)], [a(x)])),
    "an ensemble that is cached": ("e_cached", "14.14", lambda x: ([a(x)], [a(x)])),
    "an ensemble that is cached, and its step": ("e_both", "14.14", lambda x: ([a(x)], [a(x)])),
}  # fmt: skip


_FAILED_TWICE: dict[str, object] = {"answer.statuses.1": 500, "answer.executed": True, "added.fail": 2, "added.success": 0, "added.cache_hit": 0}  # fmt: skip
_STATED: dict[str, dict[str, object]] = {
    "an error response": _FAILED_TWICE,
    "an execution that fails": _FAILED_TWICE,
}


NO_KEYS: dict[str, list[dict[str, Any]]] = {
    "another id": [{"id": "one"}, {"id": "two"}],
    "another parameter": [{"parameters": {"p": 1}}, {"parameters": {"p": 2}}],
    "a priority": [{}, {"parameters": {"priority": 1}}],
    "a timeout": [{}, {"parameters": {"timeout": 1_000_000}}],
    "a sequence id": [{}, {"parameters": {"sequence_id": 7}}],
}


def _pair(target: Target, model: str, make: Any) -> Answer:
    first, second = make(fresh())
    return twice(target, model, first, second)


def _with(target: Target, more: list[dict[str, Any]]) -> Answer:
    """The same inputs, with what is not part of the key."""
    x = fresh()
    replies = [sent(target, "cached", a(x), **each) for each in more]
    return {
        "ids": [reply["json"].get("id") for reply in replies],
        "executed": execution(replies[0]) != execution(replies[1]),
    }


def _outputs(target: Target, first: tuple[str, ...], second: tuple[str, ...]) -> Answer:
    """Requested outputs are not part of the key."""
    x = fresh()
    replies = [sent(target, "cached", a(x), outputs=names) for names in (first, second)]
    return {
        "statuses": [reply["status"] for reply in replies],
        "names": [[each["name"] for each in reply["json"].get("outputs", [])] for reply in replies],
    }


def _other_model(target: Target) -> Answer:
    x = fresh()
    sent(target, "cached", a(x))
    return added(target, "twin", lambda: sent(target, "twin", a(x))["status"])


def _same(target: Target) -> Answer:
    x = fresh()
    replies = [sent(target, "cached", a(x, 2, rows=2), id="i") for _ in range(2)]
    return {"same": replies[0]["json"] == replies[1]["json"], "shape": replies[1]["json"]["outputs"][0]["shape"]}  # fmt: skip


def _strings(target: Target) -> Answer:
    words = value("IN", "BYTES", [3], [f"w{fresh()}", "", "ü"])
    return added(
        target,
        "words",
        lambda: [
            each["data"][1:]
            for _ in range(2)
            for each in sent(target, "words", words)["json"]["outputs"]
        ],
    )


def _too_large(target: Target) -> Answer:
    x = fresh()
    inputs = [a(*[x] * 8, rows=8), mode("large", 8)]
    return twice(target, "cached", inputs, inputs)


def _least_recently_used(target: Target) -> Answer:
    first, second = fresh(), fresh()
    executions = {x: execution(sent(target, "small", a(x), mode("large"))) for x in (first, second)}
    # Each has 16 KB: four of them do not fit with what else there is.
    for _ in range(3):
        sent(target, "small", a(first), mode("large"))
        sent(target, "small", a(fresh()), mode("large"))
    return {
        "recent is kept": execution(sent(target, "small", a(first), mode("large"))) == executions[first],
        "old is gone": execution(sent(target, "small", a(second), mode("large"))) != executions[second],
    }  # fmt: skip


def _binary(target: Target) -> Answer:
    x = fresh()
    first = execution(sent(target, "cached", a(x)))
    binary = value("A", "FP32", [1, 1], [x])
    reply = target.infer(
        "cached", {"inputs": [binary], "outputs": [{"name": "EXECUTION", "parameters": {"binary_data": True}}]}
    )  # fmt: skip
    return {"hit": int.from_bytes(reply.body[-4:], "little") == first}


def _step(target: Target, model: str) -> Answer:
    x = fresh()
    return added(target, "step", lambda: [sent(target, model, a(x))["status"] for _ in range(3)])


def _metrics(target: Target, model: str) -> Answer:
    x = fresh()
    before = _families(target, model)
    for _ in range(3):
        sent(target, model, a(x))
    settled(target, model)
    after = _families(target, model)
    return {"families": sorted(after), "added": {name: after[name] - before.get(name, 0) for name in after if "num" in name}}  # fmt: skip


def _families(target: Target, model: str) -> dict[str, float]:
    page = target.http("GET", "/metrics", port=target.process.ports.metrics).body.decode()
    found = {}
    for line in page.splitlines():
        if line.startswith("nv_cache") and f'model="{model}"' in line:
            name, _, number = line.rpartition(" ")
            found[name.partition("{")[0]] = float(number)
    return found


def _under_load(target: Target) -> Answer:
    x = fresh()
    first = execution(sent(target, "batched", a(x)))
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: execution(sent(target, "batched", a(x))), range(40)))
    return {"all hits": set(seen) == {first}}


def _refused(target: Target, model: str) -> Answer:
    return {
        "ready": target.http("GET", f"/v2/models/{model}/ready").status == 200,
        "infers": sent(target, model, a(fresh()))["status"] == 200,
    }


def _scenario(name: str, rows: str, ask: Any, **expect: object) -> Scenario:
    return Scenario(name, tuple(rows.split()), ask, expect=expect, server=_SERVER)


SCENARIOS = [
    *(
        _scenario(f"cache: {name}", rows, partial(_pair, model=model, make=make), **_STATED.get(name, {}))
        for name, (model, rows, make) in PAIRS.items()
    ),
    *(
        _scenario(f"cache key: {name}", "14.24", partial(_with, more=more))
        for name, more in NO_KEYS.items()
    ),
    *(
        _scenario(f"cache: outputs {first} then {second}", "14.24", partial(_outputs, first=first, second=second))
        for first, second in (
            ((), ("SUM",)), (("EXECUTION",), ()), (("SUM",), ("EXECUTION",)), (("SUM", "EXECUTION"), ()),
        )
    ),
    _scenario("cache: another model", "14.24", _other_model),
    _scenario("cache: the same response", "14.25", _same),
    _scenario("cache: strings", "14.25", _strings),
    _scenario("cache: a response that is too large", "14.26", _too_large),
    _scenario("cache: the least recently used", "14.27", _least_recently_used),
    _scenario("cache: binary outputs", "14.25", _binary),
    *(_scenario(f"cache: the step of {model}", "14.14 8.4", partial(_step, model=model)) for model in ("e_of_cached", "e_both")),
    *(
        _scenario(f"cache metrics: {model}", "8.22", partial(_metrics, model=model))
        for model in ("cached", "uncached", "e_cached", "e_of_cached")
    ),
    _scenario("cache: hits under load", "14.25", _under_load),
    *(
        _scenario(f"cache refused: {model}", "11.45", partial(_refused, model=model), ready=False, infers=False)
        for model in ("c_decoupled", "c_sequence")
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_cache_as_in_triton(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)


def _started(target: Target, *options: str) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        repository = catalogue.write(Path(folder) / "models", catalogue.GOOD, only=[])
        return exits(target, repository, *options)


def _older_option(target: Target) -> Answer:
    """The older option makes a local cache."""
    with tempfile.TemporaryDirectory() as folder:
        repository = catalogue.write(Path(folder) / "models", MODELS, only=["cached"])
        with server_on(target, repository, "--response-cache-byte-size=1048576") as server:
            x = fresh()
            asked = Target(server)
            executions = {execution(sent(asked, "cached", a(x))) for _ in range(3)}
            asked.close()
    return {"executions": len(executions)}


STARTS = [
    start("cache: the older option", "14.23", _older_option, executions=1),
    start(
        "cache: both options", "14.23",
        lambda target: _started(target, "--cache-config=local,size=1048576", "--response-cache-byte-size=1048576"),
        says="Incompatible flags --response-cache-byte-size and --cache-config both provided",
        status=1,
    ),
    start(
        "cache: too small", "14.22",
        lambda target: _started(target, "--cache-config=local,size=1"),
        says="Failed to initialize LocalCache",
        status=1,
    ),
    start(
        "cache: without its size", "14.22",
        lambda target: _started(target, "--cache-config=local,other=1"),
        status=1,
    ),
    start(
        "cache: two of them", "14.22",
        lambda target: _started(target, "--cache-config=local,size=1048576", "--cache-config=redis,host=h,port=1"),
        says="found multiple cache configurations, but only a single cache is currently supported",
        status=1,
    ),
    start(
        "cache: an unknown one", "14.22",
        lambda target: _started(target, "--cache-config=nonesuch,size=1048576"),
        status=1,
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario", STARTS, ids=lambda scenario: scenario.name)
def test_starts(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)
