"""Sequences (11.26, 11.27, 12.19, 13.1 to 13.25): what models see, who shares a batch, how sequences end, and which configs are refused."""

import json
import time
import types
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, http, infer
from tests.conformance.scenarios.settled import settled
from tests.conformance.scenarios.streams import talk
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers.busy import Executions, pending, plug, wait_queued
from tests.conformance.servers.sequences import GOOD, REFUSED
from tests.support.waiting import wait_until

_SERVER = "sequences"
_UNBATCHED = {name for name, model in GOOD.items() if "max_batch_size: 0" in (model.config or "")}
_EXECUTION = ("*execution", "*instance")


@dataclass(frozen=True)
class Step:
    """A request of a sequence; flags "s" and "e" for START and END."""

    key: int | str
    flags: str = ""
    number: int = 1
    rows: int = 1
    timeout_us: int = 0
    delay_ms: int = 0

    def request(self, model: str) -> dict[str, Any]:
        """As JSON is made of it."""
        shape = [1] if model in _UNBATCHED else [self.rows, 1]
        parameters: dict[str, Any] = {"sequence_id": self.key}
        if "s" in self.flags:
            parameters["sequence_start"] = True
        if "e" in self.flags:
            parameters["sequence_end"] = True
        if self.timeout_us:
            parameters["timeout"] = self.timeout_us
        return {
            "inputs": [
                value("VALUE", "INT32", shape, [self.number] * self.rows),
                value("DELAY_MS", "INT32", shape, [self.delay_ms] * self.rows),
            ],
            "parameters": parameters,
        }


def send(target: Target, model: str, step: Step) -> Answer:
    """What came of a request: its report, or its status and error."""
    return target.infer(model, step.request(model)).report()


def dialog(target: Target, model: str, steps: Sequence[Step]) -> Answer:
    """Requests one after the other; the error of the last one that has one stands under `error`."""
    found: Answer = {}
    for number, step in enumerate(steps):
        answer = send(target, model, step)
        if "error" in answer:
            found["error"] = answer.pop("error")
        found[str(number)] = answer
    return found


def talked(
    name: str,
    rows: str,
    model: str,
    *steps: Step,
    says: str | None = None,
    sums: Sequence[int] = (),
    expect: Mapping[str, Any] = types.MappingProxyType({}),
) -> Scenario:
    """A scenario of requests one after the other; `sums` is the sum that each answers, 0 for an error."""
    stated: dict[str, Any] = {}
    for number, total in enumerate(sums):
        stated |= {f"{number}.report.sum": total} if total else {f"{number}.status": 400}
    return Scenario(
        f"sequence: {name}",
        tuple(rows.split()),
        lambda target: dialog(target, model, steps),
        says=says,
        expect=stated | dict(expect),
        mask=_EXECUTION,
        server=_SERVER,
    )


def _three(key: int | str) -> tuple[Step, ...]:
    return Step(key, "s", 1), Step(key, "", 2), Step(key, "e", 3)


_NO_START = "must specify the START flag on the first request of the sequence"

DIALOGS = [
    talked("one", "13.7 13.15", "direct", *_three(11), sums=[1, 3, 6]),
    talked("one in oldest", "13.7 13.10", "oldest", *_three(12), sums=[1, 3, 6]),
    talked("without a batch dimension", "13.6", "unbatched", *_three(13), sums=[1, 3, 6]),
    talked("oldest without a batch dimension", "13.10", "unbatched_oldest", *_three(14), sums=[1, 3, 6]),
    talked("no CORRID control", "13.9", "no_corrid", *_three(15), sums=[1, 3, 6]),
    talked("no controls at all", "13.9", "no_controls", *_three(16), sums=[1, 3, 6]),
    talked("no strategy and no idle time", "11.26", "no_strategy", *_three(17), sums=[1, 3, 6]),
    talked("controls of FP32", "11.27", "fp32_controls", *_three(18), sums=[1, 3, 6]),
    talked("controls of BOOL", "11.27", "bool_controls", *_three(19), sums=[1, 3, 6]),
    talked("controls of other integers", "11.27", "reversed_controls", *_three(20), sums=[1, 3, 6]),
    talked(
        "two beside each other", "13.6", "direct",
        Step(21, "s", 1), Step(22, "s", 10), Step(22, "", 20), Step(21, "e", 2), Step(22, "e", 30),
        sums=[1, 10, 30, 3, 60],
    ),
    talked(
        "a row that is null", "13.7", "direct",
        Step(23, "s", 1), Step(24, "s", 10), Step(24, "e", 20), Step(23, "e", 2),
        sums=[1, 10, 30, 3], expect={"1.report.null rows": 1, "1.report.row": 1, "3.report.null rows": 0},
    ),
    talked(
        "oldest has no null rows", "13.10", "oldest",
        Step(25, "s", 1), Step(26, "s", 10), Step(26, "e", 20), Step(25, "e", 2),
        sums=[1, 10, 30, 3], expect={"1.report.null rows": 0, "1.report.row": 0},
    ),
    talked("a single request", "13.15", "direct", Step(27, "se", 5), Step(27, "", 1), sums=[5, 0], says=_NO_START),
    talked("an id again", "13.15", "direct", *_three(28), *_three(28), sums=[1, 3, 6, 1, 3, 6]),
    talked(
        "START twice", "13.4", "direct",
        Step(29, "s", 1), Step(29, "", 2), Step(29, "s", 10), Step(29, "e", 20), sums=[1, 3, 10, 30],
    ),
    talked("no START", "13.3", "direct", Step(30, "", 1), sums=[0], says=_NO_START),
    talked("no START in oldest", "13.3", "oldest", Step(30, "", 1), sums=[0], says=_NO_START),
    talked("only END", "13.3", "direct", Step(31, "e", 1), sums=[0], says=_NO_START),
    talked("after END", "13.15", "direct", Step(32, "s", 1), Step(32, "e", 2), Step(32, "", 3), sums=[1, 3, 0], says=_NO_START),
    talked("id 0", "13.2", "direct", Step(0, "s", 1), sums=[0], says="must specify a non-zero or non-empty correlation ID"),
    talked("an empty id", "13.2", "no_corrid", Step("", "s", 1), sums=[0], says="must specify a non-zero or non-empty correlation ID"),
    talked("two rows", "13.1", "direct", Step(33, "s", 1, rows=2), sums=[0], says="must specify batch-size 1 due to requirements of sequence batcher"),
    talked(
        "a text for a number", "4.15", "direct", Step("a", "se", 1), sums=[0],
        says="sequence batching control 'CORRID' data-type is 'BYTES', but model 'direct' expects 'UINT64'",
    ),
    talked(
        "a number for a text", "4.15", "other_texts", Step(5, "se", 1), sums=[0],
        says="sequence batching control 'CORRID' data-type is 'UINT64', but model 'other_texts' expects 'BYTES'",
    ),
    talked("texts", "13.5 11.27", "texts", *_three("first"), *_three("zweite"), sums=[1, 3, 6, 1, 3, 6]),
    talked("texts of a batching model", "13.5 11.27", "batched_texts", *_three("first"), sums=[1, 3, 6]),
    talked(
        "a number and the same text", "13.5", "no_controls",
        Step(34, "s", 1), Step("34", "", 1), Step(34, "e", 1), sums=[1, 0, 2], says=_NO_START,
    ),
    talked("ids of 64 bits", "11.27", "direct", *_three(2**64 - 2), sums=[1, 3, 6]),
    talked("ids of 64 bits with sign", "11.27", "int64", *_three(2**63 - 1), sums=[1, 3, 6]),
    talked("ids of 64 bits that are negative", "11.27", "int64", *_three(2**64 - 5), sums=[1, 3, 6]),
    talked("ids of 32 bits", "11.27 13.7", "uint32", *_three(2**32 + 7), sums=[1, 3, 6]),
    talked("ids of 32 bits with sign", "11.27 13.7", "int32", *_three(2**31 + 5), sums=[1, 3, 6]),
    talked(
        "a request that fails does not end it", "13.7", "direct",
        Step(35, "s", 1), Step(35, "", -99), Step(35, "e", 2),
        says="Failed to process the request(s)", expect={"1.status": 500, "2.report.sum": 3},
    ),
    talked("iterative", "13.23 15.18", "iterative", Step(36, "s", 4), expect={"0.report.rounds": 4}),
    talked("iterative, again", "13.23", "iterative", Step(37, "s", 3), Step(37, "s", 2), expect={"0.report.rounds": 3, "1.report.rounds": 2}),
    talked("iterative without START", "13.23 13.3", "iterative", Step(38, "", 3), sums=[0], says=_NO_START),
]  # fmt: skip


@pytest.mark.parametrize("scenario", DIALOGS, ids=lambda scenario: scenario.name)
def test_dialog(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)


def _queue(target: Target, model: str, steps: Sequence[Step]) -> Answer:
    """Occupies the instance with a sequence of its own, queues requests behind it, and gives their batches and rows."""
    with ThreadPoolExecutor(len(steps) + 1) as pool:
        executions = Executions(target, model)
        with plug(target) as delay_ms:
            plugged = pool.submit(send, target, model, Step(9_999, "se", delay_ms=delay_ms))
            executions.wait()
            futures: list[Future[Answer]] = []
            for step in steps:
                futures.append(pool.submit(send, target, model, step))
                wait_queued(target, model, futures)
        assert plugged.result()["status"] == 200
        answers = [future.result() for future in futures]
    reports = [answer["report"] for answer in answers]
    order = sorted({report["execution"] for report in reports})
    found: Answer = {"batches": []}
    for number in order:
        pairs = [
            (report["row"], f"{step.key}{step.flags}")
            for report, step in zip(reports, steps, strict=True)
            if report["execution"] == number
        ]
        found["batches"].append("+".join(sorted(name for _, name in pairs)))
    found["sums"] = [report["sum"] for report in reports]
    return found


def queued(
    name: str, rows: str, model: str, *steps: Step, batches: str, sums: list[int]
) -> Scenario:
    """A scenario of requests that wait for the instance."""
    stated: dict[str, Any] = {f"batches.{n}": each for n, each in enumerate(batches.split())}
    return Scenario(
        f"sequence: {name}",
        tuple(rows.split()),
        lambda target: _queue(target, model, steps),
        expect=stated | {f"sums.{number}": total for number, total in enumerate(sums)},
        server=_SERVER,
    )


QUEUES = [
    queued(
        "a batch of several", "13.6", "direct",
        Step(41, "se"), Step(42, "se"), Step(43, "se"), batches="41se+42se+43se", sums=[1, 1, 1],
    ),
    queued(
        "one request of each per batch", "13.6 13.7", "direct",
        Step(44, "s"), Step(44), Step(45, "s"), Step(44, "e"), Step(45, "e"),
        batches="44s+45s 44+45e 44e", sums=[1, 2, 1, 3, 2],
    ),
    queued(
        "more than slots", "13.12", "direct",
        *(Step(key, "se") for key in range(51, 57)),
        batches="51se+52se+53se+54se 55se+56se", sums=[1] * 6,
    ),
    queued(
        "one slot, whole sequences", "13.12", "one_slot",
        Step(61, "s"), Step(62, "s"), Step(62, "e"), Step(61, "e"),
        batches="61s 61e 62s 62e", sums=[1, 1, 2, 2],
    ),
    queued(
        "one candidate, whole sequences", "13.10 13.12", "one_candidate",
        Step(63, "s"), Step(64, "s"), Step(64, "e"), Step(63, "e"),
        batches="63s 63e 64s 64e", sums=[1, 1, 2, 2],
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario", QUEUES, ids=lambda scenario: scenario.name)
def test_queue(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)


def _backlog(target: Target, model: str, step: Step, *, wait: bool) -> Answer:
    """A sequence that waits for the only slot: it is freed by END, or not."""
    send(target, model, Step(71, "s"))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(send, target, model, step)
        wait_until(lambda: pending(target, model) == 1 or waiting.done())
        if wait:
            waiting.result()
        last = send(target, model, Step(71, "e"))
        return {
            "waited": waiting.result(),
            "last": last["report"]["sum"],
            **_error(waiting.result()),
        }


def _error(answer: Answer) -> Answer:
    return {"error": answer.pop("error")} if "error" in answer else {}


def _idle(target: Target) -> Answer:
    """A sequence that is idle loses its slot to another one, and its next request is refused."""
    send(target, "short", Step(81, "s", 5))
    other = send(target, "short", Step(82, "se", 7))
    late = send(target, "short", Step(81, "e", 5))
    return {"other": other["report"]["sum"], "late": late["status"], "error": late.get("error")}


def _busy_is_not_idle(target: Target) -> Answer:
    """Requests that come in time keep a sequence for longer than its idle time."""
    sums = []
    for number in range(6):
        step = Step(83, "s" * (number == 0) + "e" * (number == 5), 1)
        sums.append(send(target, "short", step)["report"]["sum"])
        time.sleep(0.1)
    return {"sums": sums}


def _two_instances(target: Target) -> Answer:
    """Four sequences: two on each of two instances, where they stay."""
    seen: dict[int, set[str]] = {}
    for flags in ("s", "", "e"):
        for key in (91, 92, 93, 94):
            report = send(target, "two", Step(key, flags))["report"]
            seen.setdefault(key, set()).add(report["instance"])
    return {
        "moved": [key for key, names in seen.items() if len(names) > 1],
        "instances": sorted(
            sum(next(iter(names)) == each for names in seen.values())
            for each in {name for names in seen.values() for name in names}
        ),
    }


def _cancelled(target: Target, model: str) -> Answer:
    """The client of a waiting request is gone: what of its sequence waits behind it is cancelled too."""
    call = target.channel().unary_unary("/inference.GRPCInferenceService/ModelInfer")

    def message(step: Step) -> bytes:
        found = pb.ModelInferRequest(model_name=model)
        for name, number in (("VALUE", step.number), ("DELAY_MS", step.delay_ms)):
            found.inputs.add(name=name, datatype="INT32", shape=[1, 1])
            found.raw_input_contents.append(number.to_bytes(4, "little", signed=True))
        found.parameters["sequence_id"].int64_param = int(step.key)
        found.parameters["sequence_start"].bool_param = "s" in step.flags
        found.parameters["sequence_end"].bool_param = "e" in step.flags
        data: bytes = found.SerializeToString()
        return data

    with ThreadPoolExecutor(1) as pool:
        executions = Executions(target, model)
        with plug(target) as delay_ms:
            plugged = pool.submit(send, target, model, Step(101, "s", delay_ms=delay_ms))
            executions.wait()
            waiting = []
            for step in (Step(101), Step(101), Step(101, "e")):
                waiting.append(call.future(message(step), timeout=20))
                wait_until(lambda: pending(target, model) >= len(waiting))
            waiting[0].cancel()
            time.sleep(0.3)
        plugged.result()
        codes = [each.code().name for each in waiting]
        return {"codes": codes, "then": send(target, model, Step(102, "se", 5))["report"]["sum"]}


def _utilization(target: Target) -> Answer:
    """Half of the slots make a batch that does not wait; one waits for the delay."""
    started = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda key: send(target, "delayed", Step(key, "se")), (121, 122)))
    quick = time.monotonic() - started
    started = time.monotonic()
    alone = send(target, "delayed", Step(123, "se"))
    slow = time.monotonic() - started
    return {
        "rows": sorted(each["report"]["row"] for each in [*both, alone]),
        "quick": quick < 1.2,
        "slow": slow > 1.2,
    }


def _statistics(target: Target) -> Answer:
    """What a batch with a null row and a rescheduled request count."""
    found: Answer = {}
    for model, steps in {
        "no_corrid": (Step(131, "s"), Step(132, "s"), Step(132, "e"), Step(131, "e")),
        "iterative": (Step(133, "s", 3),),
    }.items():
        before = settled(partial(_counts, target, model), dict[str, int]())
        for step in steps:
            send(target, model, step)
        # The reference counts a request once its response is on its way.
        after = settled(partial(_counts, target, model), before)
        found[model] = {name: after[name] - before.get(name, 0) for name in after}
    return found


def _counts(target: Target, model: str) -> dict[str, int]:
    (entry,) = json.loads(target.http("GET", f"/v2/models/{model}/stats").body)["model_stats"]
    return {
        "inferences": entry["inference_count"],
        "executions": entry["execution_count"],
        "success": entry["inference_stats"]["success"]["count"],
        "fail": entry["inference_stats"]["fail"]["count"],
        **{
            f"batches of {each['batch_size']}": each["compute_infer"]["count"]
            for each in entry["batch_stats"]
        },
    }


def _stream(target: Target, model: str, keys: Sequence[int | str]) -> Answer:
    """Sequences beside each other on one stream."""
    requests = []
    for number in range(3):
        for key in keys:
            message = pb.ModelInferRequest(model_name=model, id=f"{key}:{number}")
            for name, given in (("VALUE", number + 1), ("DELAY_MS", 0)):
                message.inputs.add(name=name, datatype="INT32", shape=[1, 1])
                message.raw_input_contents.append(given.to_bytes(4, "little"))
            if isinstance(key, int):
                message.parameters["sequence_id"].int64_param = key
            else:
                message.parameters["sequence_id"].string_param = key
            message.parameters["sequence_start"].bool_param = number == 0
            message.parameters["sequence_end"].bool_param = number == 2
            requests.append(message)
    answer = talk(target, *requests)
    came = [each["infer_response"]["id"] for each in answer["responses"]]
    return {
        "code": answer["code"],
        "of each": {str(key): [one for one in came if one.startswith(f"{key}:")] for key in keys},
    }


def _in_order(target: Target) -> Answer:
    """The sums of queued requests; which of them share a batch of `oldest` is chance in the reference, the order in a sequence is not."""
    steps = (Step(46, "s"), Step(46, "", 2), Step(47, "s"), Step(46, "e", 3), Step(47, "e", 2))
    return {"sums": _queue(target, "oldest", steps)["sums"]}


OTHERS = [
    Scenario(
        "sequence: queued requests of oldest", ("13.10",), _in_order,
        expect={f"sums.{place}": total for place, total in enumerate((1, 3, 1, 6, 3))}, server=_SERVER,
    ),
    Scenario(
        "sequence: the backlog waits for END", ("13.12",),
        lambda target: _backlog(target, "one_slot", Step(72, "se", 4), wait=False),
        expect={"waited.report.sum": 4}, mask=_EXECUTION, server=_SERVER,
    ),
    Scenario(
        "sequence: a timeout in the backlog", ("13.13",),
        lambda target: _backlog(target, "one_slot", Step(73, "se", 4, timeout_us=200_000), wait=True),
        says="timeout of the corresponding sequence has been expired",
        expect={"waited.status": 503}, mask=_EXECUTION, server=_SERVER,
    ),
    Scenario(
        "sequence: a timeout in the backlog of oldest", ("13.13",),
        lambda target: _backlog(target, "one_candidate", Step(74, "se", 4, timeout_us=200_000), wait=True),
        says="timeout of the corresponding sequence has been expired",
        expect={"waited.status": 503}, mask=_EXECUTION, server=_SERVER,
    ),
    Scenario(
        "sequence: idle", ("13.14",), _idle, says=_NO_START,
        expect={"other": 7, "late": 400}, server=_SERVER,
    ),
    Scenario("sequence: not idle", ("13.14",), _busy_is_not_idle, expect={"sums.5": 6}, server=_SERVER),
    Scenario(
        "sequence: two instances", ("13.25",), _two_instances,
        expect={"instances.0": 2, "instances.1": 2}, server=_SERVER,
    ),
    Scenario(
        "sequence: a waiting request is cancelled", ("13.17",),
        lambda target: _cancelled(target, "direct"),
        expect={"codes.0": "CANCELLED", "codes.1": "CANCELLED", "codes.2": "CANCELLED", "then": 5}, server=_SERVER,
    ),
    Scenario(
        "sequence: minimum_slot_utilization", ("13.11",), _utilization,
        expect={"quick": True, "slow": True}, server=_SERVER,
    ),
    Scenario(
        "sequence: statistics", ("8.3", "8.5", "13.7", "13.23"), _statistics,
        expect={
            "iterative.inferences": 1, "iterative.executions": 3, "iterative.success": 1, "iterative.fail": 0,
            "iterative.batches of 1": 3,
        },
        server=_SERVER,
    ),
    Scenario(
        "sequence: on a stream", ("13.6", "10.31"), lambda target: _stream(target, "direct", (141, 142)),
        server=_SERVER,
    ),
    Scenario(
        "sequence: texts on a stream", ("13.5", "10.16"), lambda target: _stream(target, "no_controls", ("a",)),
        server=_SERVER,
    ),
    Scenario(
        "sequence: of a decoupled model", ("13.10",), lambda target: _stream(target, "streams", (143, 144)),
        server=_SERVER,
    ),
    http("sequence: metadata has no controls", "13.9", "GET", "/v2/models/direct", status=200, server=_SERVER),
    infer(
        "sequence: iterative without an id", "13.2 13.23", "iterative",
        {"inputs": Step(1, "", 5).request("iterative")["inputs"]}, server=_SERVER,
        mask=("json.outputs.0.data.*",),
    ),
    infer(
        "sequence: no id", "13.2", "direct", {"inputs": Step(1, "", 5).request("direct")["inputs"]},
        status=400, says="must specify a non-zero or non-empty correlation ID", server=_SERVER,
    ),
    infer(
        "sequence: a control that the client sends", "13.9", "direct",
        {
            "inputs": [*Step(1).request("direct")["inputs"], value("START", "INT32", [1, 1], [1])],
            "parameters": {"sequence_id": 151, "sequence_start": True},
        },
        status=400, says="expected 2 inputs but got 3 inputs for model 'direct'", server=_SERVER,
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario", OTHERS, ids=lambda scenario: scenario.name)
def test_others(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)


CONFIGS = [
    http(f"sequence: config of {model}", "11.26 11.27", "GET", f"/v2/models/{model}/config", status=200, server=_SERVER)
    for model in ("direct", "oldest", "no_strategy", "preferred", "delayed", "texts")
]  # fmt: skip


@pytest.mark.parametrize("scenario", CONFIGS, ids=lambda scenario: scenario.name)
def test_config(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)


def _refused(target: Target, name: str) -> Answer:
    """Why a model is not served: the reason of the index, or, of a config that the reference cannot use, its log line."""
    index = json.loads(target.http("POST", "/v2/repository/index").body)
    reasons = [each.get("reason", "") for each in index if each["name"] == name]
    told = [
        line
        for line in target.process.output().splitlines()
        if f"for {name}" in line or f"model {name} " in line
    ]
    served = any(each["name"] == name and each.get("state") == "READY" for each in index)
    return {"served": served, "error": "\n".join([*filter(None, reasons), *told])}


REFUSALS = [
    Scenario(
        f"sequence refused: {name}", ("11.26", "11.27"), partial(_refused, name=name), says=says,
        expect={"served": False}, server=_SERVER,
    )
    for name, (says, *_) in REFUSED.items()
]  # fmt: skip


@pytest.mark.parametrize("scenario", REFUSALS, ids=lambda scenario: scenario.name)
def test_refused(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)
