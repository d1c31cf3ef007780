"""Schedulers (section 12): who runs with whom, in which order, and what a full or slow queue answers.

Each scenario plugs the model's only instance with a slow request, queues others behind it in a known order, and reads
from their reports in which execution and batch they ran. Each is sent once the one before it is in the queue, so that both
servers see the same queue.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers.busy import Executions, pending, plug, wait_queued
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class Queued:
    """One request of a scenario: rows in it, how long it takes, its parameters, and inputs beside DELAY_MS."""

    name: str
    rows: int = 1
    delay_ms: int = 0
    parameters: dict[str, Any] = field(default_factory=dict)
    more: tuple[dict[str, Any], ...] = ()
    batched: bool = True

    def request(self) -> dict[str, Any]:
        """As JSON is made of it."""
        shape = [self.rows, 1] if self.batched else [1]
        delays = [self.delay_ms] + [0] * (self.rows - 1)
        found: dict[str, Any] = {
            "id": self.name,
            "inputs": [value("DELAY_MS", "INT32", shape, delays), *self.more],
        }
        if self.parameters:
            found["parameters"] = self.parameters
        return found


@dataclass(frozen=True)
class Ran:
    """What became of it: the report or the error, and when its answer came."""

    name: str
    answer: Answer
    at: float

    @property
    def execution(self) -> int:
        """The number of the execution it ran in, or 0."""
        return int(self.answer.get("report", {}).get("execution", 0))


def queue(
    target: Target,
    model: str,
    requests: Sequence[Queued],
    *,
    batched: bool = True,
    more: tuple[dict[str, Any], ...] = (),
) -> list[Ran]:
    """Plugs the model's instance, sends the requests one after the other, and gives what became of each.

    Args:
        target: the server.
        model: a `describe` model with one instance.
        requests: what is queued behind the plug, in this order.
        batched: the model has a batch dimension.
        more: inputs of the plug beside DELAY_MS.
    """
    with ThreadPoolExecutor(len(requests) + 1) as pool:
        executions = Executions(target, model)
        with plug(target) as delay_ms:
            first = Queued("plug", delay_ms=delay_ms, batched=batched, more=more)
            plugged = pool.submit(_send, target, model, first)
            executions.wait()
            futures: list[Future[Ran]] = []
            for one in requests:
                futures.append(pool.submit(_send, target, model, one))
                wait_queued(target, model, futures)
        assert plugged.result().answer["status"] == 200
        return [future.result() for future in futures]


def _send(target: Target, model: str, one: Queued) -> Ran:
    answer = target.infer(model, one.request()).report()
    return Ran(one.name, answer, time.monotonic())


def batches(ran: Sequence[Ran]) -> Answer:
    """Which requests shared an execution, in the order of the executions; and the errors."""
    order = sorted({one.execution for one in ran if one.execution})
    found: Answer = {
        "batches": ["+".join(r.name for r in ran if r.execution == number) for number in order]
    }
    for one in ran:
        if "report" not in one.answer:
            found[one.name] = one.answer["status"]
            found["error"] = one.answer.get("error")
    return found


def _names(text: str, **more: Any) -> list[Queued]:
    return [Queued(name, **more) for name in text.split()]


def scheduling(
    name: str,
    rows: str,
    model: str,
    requests: Sequence[Queued],
    *,
    says: str | None = None,
    batched: bool = True,
    **expect: Any,
) -> Scenario:
    """A scenario of one queue; `ran` is what the row states of the batches, as `a+b c`."""
    stated: dict[str, Any] = {key: value for key, value in expect.items() if key != "ran"}
    for place, batch in enumerate(str(expect.get("ran", "")).split()):
        stated[f"batches.{place}"] = batch
    return Scenario(
        name,
        tuple(rows.split()),
        lambda target: batches(queue(target, model, requests, batched=batched)),
        says=says,
        expect=stated,
    )


def _priority(name: str, level: int) -> Queued:
    return Queued(name, parameters={"priority": level})


def _timeout(name: str, microseconds: int, *, level: int | None = None, **more: Any) -> Queued:
    parameters = {"timeout": microseconds} | ({} if level is None else {"priority": level})
    return Queued(name, parameters=parameters, **more)


def _data(name: str, length: int, *, may: bool = False) -> Queued:
    more = [value("DATA", "FP32", [1, length], [1] * length)]
    if may:
        more.append(value("MAY", "INT32", [1, 1], [1]))
    return Queued(name, more=tuple(more))


def _plugged_shapes(target: Target, requests: Sequence[Queued], model: str = "shapes") -> Answer:
    """`shapes` needs DATA in its plug too; the plug's length is its own, so it shares no batch."""
    nine = value("DATA", "FP32", [1, 9], [1] * 9)
    return batches(queue(target, model, requests, more=(nine,)))


def _preferred(target: Target, count: int) -> Answer:
    """Requests to an idle model whose queue delay is 1.5 s and whose preferred size is 3."""
    start = time.monotonic()
    with ThreadPoolExecutor(count) as pool:
        futures = [
            pool.submit(_send, target, "preferred", one) for one in _names("a b c"[: 2 * count])
        ]
        ran = [future.result() for future in futures]
    return {
        "batches": len({one.execution for one in ran}),
        "waited": max(one.at for one in ran) - start > 1.2,
    }


def _ordered(target: Target) -> Answer:
    """A slow and a quick request run side by side; with preserve_ordering the quick one's answer waits."""
    with ThreadPoolExecutor(2) as pool:
        executions = Executions(target, "ordered")
        slow = pool.submit(_send, target, "ordered", Queued("slow", delay_ms=500))
        executions.wait()
        quick = pool.submit(_send, target, "ordered", Queued("quick"))
        ran = [slow.result(), quick.result()]
    instances = {one.answer["report"]["instance"] for one in ran}
    # Both answers are let go together: which client thread sees its own first is chance, within this much.
    in_order = ran[1].at > ran[0].at - 0.05
    return {"order": "slow quick" if in_order else "quick slow", "instances": len(instances)}


def _cancelled(target: Target, model: str) -> Answer:
    """`c` is given up by its client while it waits; `b` behind it reports in which execution and batch it ran.

    A full batch stands in front of both: what the batcher already holds ready for the instance it no longer looks at.
    """
    call = target.channel().unary_unary("/inference.GRPCInferenceService/ModelInfer")
    message = pb.ModelInferRequest(model_name=model, id="c", raw_input_contents=[bytes(4)])
    message.inputs.add(name="DELAY_MS", datatype="INT32", shape=[1, 1])
    with ThreadPoolExecutor(3) as pool:
        before = target.report(model, batch=True)["report"]["execution"]
        executions = Executions(target, model)
        with plug(target) as delay_ms:
            plugged = pool.submit(_send, target, model, Queued("plug", delay_ms=delay_ms))
            executions.wait()
            full = pool.submit(_send, target, model, Queued("full", rows=4))
            wait_queued(target, model, [full])
            given_up = call.future(message.SerializeToString(), timeout=20)
            wait_until(lambda: pending(target, model) == 2)
            given_up.cancel()
            last = pool.submit(_send, target, model, Queued("b"))
            wait_until(lambda: pending(target, model) >= 2)
        assert [one.result().answer["status"] for one in (plugged, full)] == [200, 200]
        report = last.result().answer["report"]
    alone = report["execution"] == before + 3 and report["batch"] == 1
    return {"ran": "b" if alone else "c b", "code": given_up.code().name}


BATCHES = [
    scheduling(
        "default scheduler: one request at a time",
        "12.1",
        "default_queue",
        _names("a b c"),
        ran="a b c",
    ),
    scheduling(
        "dynamic batching of what is queued",
        "12.2 12.3 15.10",
        "queue",
        _names("a b c"),
        ran="a+b+c",
    ),
    scheduling("up to max_batch_size", "12.2", "queue", _names("a b c d e"), ran="a+b+c+d e"),
    scheduling(
        "a request of several rows is not split",
        "12.6",
        "queue",
        [Queued("a", 3), Queued("b", 2), Queued("c")],
        ran="a b+c",
    ),
    scheduling("a full request alone", "12.6", "queue", [Queued("a", 4), Queued("b")], ran="a b"),
    scheduling(
        "dynamic batching without a batch dimension",
        "12.22",
        "unbatched_queue",
        _names("a b", batched=False),
        batched=False,
        ran="a b",
    ),
    Scenario(
        "other shapes end the batch",
        ("12.7",),
        lambda target: _plugged_shapes(
            target, [_data("a", 2), _data("b", 2), _data("c", 3), _data("d", 2)]
        ),
        expect={"batches.0": "a+b", "batches.1": "c"},
    ),
    Scenario(
        "other optional inputs end the batch",
        ("12.8", "4.10"),
        lambda target: _plugged_shapes(
            target, [_data("a", 2), _data("b", 2, may=True), _data("c", 2, may=True)]
        ),
        expect={"batches.0": "a", "batches.1": "b+c"},
    ),
    Scenario(
        "ragged inputs do not end the batch",
        ("12.7", "11.14", "11.18"),
        lambda target: _plugged_shapes(
            target, [_data("a", 2), _data("b", 3), _data("c", 1), _data("d", 5)], "ragged"
        ),
        expect={"batches.0": "a+b+c+d"},
    ),
    Scenario(
        "optional inputs end a ragged batch",
        ("12.8", "11.14"),
        lambda target: _plugged_shapes(
            target, [_data("a", 2), _data("b", 3, may=True), _data("c", 1, may=True)], "ragged"
        ),
        expect={"batches.0": "a", "batches.1": "b+c"},
    ),
    Scenario(
        "a preferred size runs at once",
        ("12.3",),
        lambda target: _preferred(target, 3),
        expect={"batches": 1, "waited": False},
    ),
    Scenario(
        "no preferred size waits for the delay",
        ("12.3",),
        lambda target: _preferred(target, 2),
        expect={"batches": 1, "waited": True},
    ),
    Scenario(
        "responses in order over two instances",
        ("12.9",),
        _ordered,
        expect={"order": "slow quick"},
    ),
]

QUEUES = [
    scheduling(
        "priorities",
        "12.10",
        "priorities",
        [_priority("low", 3), _priority("middle", 2), _priority("high", 1)],
        ran="high middle low",
    ),
    scheduling(
        "priority 0 and none are the default",
        "12.10 4.14",
        "priorities",
        [_priority("low", 3), _priority("zero", 0), Queued("none"), _priority("high", 1)],
        ran="high zero none low",
    ),
    scheduling(
        "a priority above the levels is the default",
        "4.14",
        "priorities",
        [_priority("low", 3), _priority("above", 9), _priority("high", 1)],
        ran="high above low",
    ),
    scheduling(
        "a full queue",
        "12.11 8.16",
        "queue_full",
        _names("a b c"),
        says="Exceeds maximum queue size",
        ran="a b",
        c=503,
    ),
    scheduling(
        "expired in the queue",
        "12.12",
        "queue_reject",
        [_timeout("a", 100_000), Queued("b")],
        says="Request timeout expired",
        ran="b",
        a=503,
    ),
    scheduling(
        "expired and delayed",
        "12.13",
        "queue_delay",
        [_timeout("a", 100_000), Queued("b"), Queued("c")],
        ran="b c a",
    ),
    scheduling(
        "a timeout above the policy's has no effect",
        "12.14",
        "queue_reject",
        [_timeout("a", 9_000_000)],
        ran="a",
    ),
    scheduling(
        "a timeout of 0 has no effect", "12.14", "queue_reject", [_timeout("a", 0)], ran="a"
    ),
    scheduling(
        "a timeout without a policy has no effect", "12.14", "queue", [_timeout("a", 1000)], ran="a"
    ),
    scheduling(
        "a timeout in the default scheduler has no effect",
        "12.14",
        "default_queue",
        [_timeout("a", 1000)],
        ran="a",
    ),
    Scenario(
        "cancelled in the dynamic batcher's queue",
        ("12.16", "1.19"),
        lambda target: _cancelled(target, "queue"),
        expect={"ran": "b"},
    ),
    Scenario(
        "cancelled in the default scheduler's queue",
        ("12.16",),
        lambda target: _cancelled(target, "default_queue"),
    ),
]


LEVELS = [
    scheduling(
        "each level has a queue of its own size",
        "12.10 12.11",
        "levels",
        [*(_priority(name, 2) for name in "abc"), _priority("d", 4), _priority("e", 1)],
        says="Exceeds maximum queue size",
        ran="e a b d",
        c=503,
    ),
    scheduling(
        "a level whose policy has no size takes all",
        "12.11",
        "levels",
        [_priority(name, 1) for name in "abcd"],
        ran="a b c d",
    ),
    scheduling(
        "requests without a priority fill the default level",
        "4.14 12.11",
        "levels",
        [Queued("a"), _priority("b", 2), Queued("c")],
        says="Exceeds maximum queue size",
        ran="a b",
        c=503,
    ),
    scheduling(
        "expired in a level that rejects",
        "12.12 12.14",
        "levels",
        [_timeout("a", 100_000, level=1), _priority("b", 1), _priority("c", 2)],
        says="Request timeout expired",
        ran="b c",
        a=503,
    ),
    scheduling(
        "expired in a level that delays",
        "12.13",
        "levels",
        [_timeout("a", 100_000, level=3), _priority("b", 3), _priority("c", 4), _priority("d", 2)],
        ran="d b a c",
    ),
    scheduling(
        "several that are delayed keep their order",
        "12.13",
        "levels",
        [_timeout("a", 90_000, level=3), _timeout("b", 100_000, level=3), _priority("c", 3)],
        ran="c a b",
    ),
    scheduling(
        "a timeout in a level without one has no effect",
        "12.14",
        "levels",
        [_timeout("a", 100_000, level=2), _timeout("b", 100_000, level=4)],
        ran="a b",
    ),
    scheduling(
        "levels fill one batch, the highest first",
        "12.10",
        "levels_batched",
        [_priority("a", 4), _priority("b", 2), _priority("c", 1), _priority("d", 2)],
        ran="b+c+d a",
    ),
    scheduling(
        "a batch takes what is delayed behind what is in time",
        "12.10 12.13",
        "levels_batched",
        [_timeout("a", 100_000, level=3), _priority("b", 3), _priority("c", 4), _priority("d", 4)],
        ran="a+b+c d",
    ),
    scheduling(
        "a request of several rows keeps its place in its level",
        "12.6 12.10",
        "levels_batched",
        [Queued("a", 3), Queued("b"), Queued("c", 2, parameters={"priority": 1})],
        ran="c a b",
    ),
]


SCENARIOS = [*BATCHES, *QUEUES, *LEVELS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scheduling_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
