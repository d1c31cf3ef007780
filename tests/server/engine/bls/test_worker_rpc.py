"""What worker processes ask of the server, as frames, and what is left when a worker is gone."""

import asyncio
import json
import unittest.mock
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from naiad.core.inference import Inference, RecordsInference
from naiad.core.response import InferResponse
from naiad.core.tensor import PackedStrings
from naiad.engine.bls.server_api import ServerApi
from naiad.engine.bls.worker_rpc import ModelRpcHandler
from naiad.errors import invalid
from naiad.hosts import unpacking
from naiad.hosts.link import codec, layouts
from naiad.hosts.link.call import CallWriter
from naiad.hosts.link.kinds import ERROR, RESULT
from naiad.hosts.link.payload import Payload
from naiad.metrics.custom import CustomMetrics
from tests.server.engine.bls.test_model_calls import Asking, ScriptedModel, answered, from_client

pytestmark = pytest.mark.looptime


class Control:
    """Takes loads and unloads; a model called "bad" fails."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def load_model(self, name: str, overrides: Any, *, requested_by: str) -> None:
        self.asked.append(("load", name, dict(overrides), requested_by))
        if name == "bad":
            raise invalid("it is bad")
        if name == "slow":
            await asyncio.sleep(60)

    async def unload_model(self, name: str, *, unload_dependents: bool, requested_by: str) -> None:
        self.asked.append(("unload", name, unload_dependents, requested_by))

    async def model_ready(self, name: str, version: int) -> bool:
        if name == "bad":
            raise invalid("unknown model")
        return version == -1


class Worker:
    """A worker at its rpc_handler."""

    def __init__(self, *models: ScriptedModel) -> None:
        self.metrics = CustomMetrics()
        self.control = Control()
        self.api = ServerApi(Asking(*models).calls, self.metrics)
        self.api.control = self.control
        self.rpc_handler = ModelRpcHandler(self.api, "m", "m_0")
        self.results: list[tuple[int, Any]] = []
        self.errors: list[tuple[int, str]] = []

    def ask(
        self, number: int, *question: Any, tensors: Sequence[Any] = (), segment: bool = False
    ) -> None:
        if question[0] == "infer":
            fields = question[1]
            rest = CallWriter().write(fields, 0, 0, blocks=True, decoupled=False)
        else:
            rest = json.dumps(question).encode()
        header, payload = codec.write([((), tensors)] if tensors else [], rest)
        base: Any = bytearray(payload.joined())
        if segment:
            base = np.frombuffer(base, np.uint8)
        self.rpc_handler.handle(number, header, base, batch_at=_no_batch, reply=self._post)

    def infer(self, number: int, model: str) -> None:
        fields: tuple[Any, ...] = (model, -1, "", 0, 0, 0, {}, [])
        self.ask(number, "infer", fields)

    def _post(
        self, kind: int, number: int = 0, header: bytes = b"", payload: Payload | None = None
    ) -> None:
        if kind == ERROR:
            self.errors.append((number, header.decode()))
            return
        assert kind == RESULT
        _, rest = layouts.Reader(unpacking.resolved).read(header)
        self.results.append((number, json.loads(rest)))


def _no_batch(first: int, count: int) -> list[Inference] | None:
    return None


async def test_a_call_is_answered_under_its_number() -> None:
    model = ScriptedModel("a")
    worker = Worker(model)
    worker.infer(7, "a")
    worker.infer(8, "absent")
    model.queue[0].on_response(answered())
    (refused, (final, error, _)), (number, answer) = worker.results
    assert (refused, final, error[0]) == (8, True, "INTERNAL")
    assert (number, answer) == (7, [True, None, {}])


@pytest.mark.parametrize("segment", [False, True])
async def test_tensors_are_read_where_they_lie(*, segment: bool) -> None:
    """Small ones in the packet, large ones in a segment."""
    model = ScriptedModel("a")
    worker = Worker(model)
    inputs = [
        ("T", "BYTES", np.array([b"hi"], object)),
        ("N", "FP32", np.arange(2, dtype=np.float32)),
        ("E", "INT32", np.empty(0, np.int32)),
    ]
    parameters: dict[str, object] = {}
    fields = ("a", -1, "", 0, 0, 0, parameters, ["OUT"])
    worker.ask(1, "infer", fields, tensors=inputs, segment=segment)
    (inference,) = model.queue
    tensors = {each.name: each.array.tolist() for each in inference.request.inputs}
    assert tensors == {"T": [b"hi"], "N": [0, 1], "E": []}


@pytest.mark.parametrize(
    "elements",
    [[b"hi"] * 5000, [b"h" * 300_000], [b"hi"] * 40, [b"a", b""]],
    ids=["many", "long", "few and short", "of two lengths"],
)
async def test_strings_of_a_call_do_not_become_objects_on_the_loop(elements: list[bytes]) -> None:
    model = ScriptedModel("a")
    worker = Worker(model)
    inputs = [("T", "BYTES", np.array(elements, dtype=object).reshape(-1, 1))]
    parameters: dict[str, object] = {}
    fields = ("a", -1, "", 0, 0, 0, parameters, ["OUT"])
    worker.ask(1, "infer", fields, tensors=inputs)
    ((tensor,),) = [inference.request.inputs for inference in model.queue]
    assert isinstance(tensor, PackedStrings)
    assert tensor.shape == (len(elements), 1)
    assert tensor.array.tolist() == [[element] for element in elements]


async def test_a_response_that_cannot_be_packed_is_an_error_for_the_model() -> None:
    model = ScriptedModel("a")
    worker = Worker(model)
    worker.infer(7, "a")
    odd: Any = {"x": object()}  # which JSON does not have
    model.queue[0].on_response(InferResponse("a", 1, "", [], odd))
    assert worker.results == []
    ((number, why),) = worker.errors
    assert number == 7
    assert "could not be handed over" in why


async def test_a_cancel_reaches_the_call_and_is_nothing_for_one_that_is_over() -> None:
    model = ScriptedModel("a")
    worker = Worker(model)
    worker.infer(7, "a")
    worker.ask(7, "cancel")
    assert worker.results[0][1][1][0] == "CANCELLED"
    worker.ask(7, "cancel")
    assert len(model.cancelled) == 1


async def test_a_worker_that_is_gone_leaves_no_call_and_no_metric() -> None:
    """Calls that wait in a queue end while they are cancelled."""
    model = ScriptedModel("a")
    worker = Worker(model)
    for number in range(3):
        worker.infer(number, "a")
    worker.ask(10, "open_family", "mine", "Mine", "counter")
    worker.ask(11, "open_metric", worker.results[-1][1][1], {}, None)
    assert len(worker.metrics.series()) == 1
    worker.rpc_handler.worker_exited()
    assert len(model.cancelled) == 3
    assert model.queue == []
    assert worker.metrics.series() == []
    worker.rpc_handler.worker_exited()
    worker.infer(20, "a")
    model.queue[0].on_response(answered())
    assert worker.results[-1] == (20, [True, None, {}]), "the next worker is served"


async def test_metrics_are_made_changed_and_refused() -> None:
    worker = Worker()
    worker.ask(1, "open_family", "mine", "Mine", "counter")
    family = worker.results[-1][1][1]
    worker.ask(2, "open_metric", family, {"x": "y"}, None)
    metric = worker.results[-1][1][1]
    worker.ask(3, "change_metric", metric, "increment", 2.5)
    worker.ask(4, "metric_value", metric)
    assert worker.results[2:] == [(3, [None, None]), (4, [None, 2.5])]
    worker.ask(5, "change_metric", metric, "increment", -1)
    assert "non-negative" in worker.results[-1][1][0]
    worker.ask(0, "close_family", family)
    assert worker.metrics.series() == []


@pytest.mark.parametrize("segment", [False, True])
async def test_loads_pass_on_their_parameters_and_the_requesting_model(*, segment: bool) -> None:
    worker = Worker()
    files = [("file:1/model.py", "UINT8", np.frombuffer(b"text", np.uint8))]
    worker.ask(1, "load", "a", "{}", True, tensors=files, segment=segment)
    worker.ask(2, "unload", "b", True, False)
    worker.ask(3, "ready", "a", -1)
    worker.ask(4, "ready", "bad", -1)
    worker.ask(5, "load", "bad", "", False)
    await asyncio.sleep(1)
    assert worker.control.asked == [
        ("load", "a", {"file:1/model.py": b"text", "config": "{}"}, "m"),
        ("unload", "b", True, ""),
        ("load", "bad", {}, ""),
    ]
    assert sorted(worker.results) == [
        (1, [None, None]),
        (2, [None, None]),
        (3, [None, True]),
        (4, [None, False]),
        (5, ["it is bad", None]),
    ]


async def test_a_call_that_waits_for_a_load_when_the_server_stops_gets_an_error() -> None:
    worker = Worker()
    worker.ask(1, "load", "slow", "", False)
    await asyncio.sleep(1)
    worker.api.close()
    await asyncio.sleep(0)
    worker.ask(2, "load", "a", "", False)
    await asyncio.sleep(1)
    stopping = "the server is stopping, or has not started yet"
    assert worker.results == [(1, [stopping, None]), (2, [stopping, None])]


async def test_a_message_of_another_kind_is_left_to_the_host() -> None:
    with pytest.raises(KeyError):
        Worker().ask(1, "what")


async def test_a_gauge_may_be_no_number_and_without_end() -> None:
    worker = Worker()
    worker.ask(1, "open_family", "mine", "", "gauge")
    worker.ask(2, "open_metric", worker.results[-1][1][1], {}, None)
    metric = worker.results[-1][1][1]
    for number, value in ((3, float("nan")), (4, float("-inf"))):
        worker.ask(number, "change_metric", metric, "set", value)
        worker.ask(10 * number, "metric_value", metric)
        assert worker.results[-2:] == [
            (number, [None, None]),
            (10 * number, [None, pytest.approx(value, nan_ok=True)]),
        ]


@pytest.mark.parametrize("what", ["load", "ready"])
async def test_a_name_that_is_not_text_is_refused_and_no_call_waits(what: str) -> None:
    worker = Worker()
    more: tuple[Any, ...] = ("", [], False) if what == "load" else (-1,)
    worker.ask(1, what, "bad\ud800", *more)
    worker.ask(2, what, 5, *more)
    await asyncio.sleep(0.1)
    assert {number for number, _ in worker.results} == {1, 2}


@pytest.mark.parametrize("traced", [True, False])
async def test_a_call_belongs_to_the_trace_of_the_request_that_it_names(*, traced: bool) -> None:
    model = ScriptedModel("a")
    worker = Worker(model)
    outer = from_client("m")
    if traced:
        outer.traced = unittest.mock.create_autospec(RecordsInference)
    fields: tuple[Any, ...] = ("a", -1, "", 0, 0, 0, {}, [])
    header, _ = codec.write(
        [((), [])], CallWriter().write(fields, 4, 3, blocks=True, decoupled=False, traced=6)
    )

    def batch_at(first: int, count: int) -> list[Inference] | None:
        return [outer] if (first, count) == (6, 1) else None

    worker.rpc_handler.handle(1, header, bytearray(), batch_at=batch_at, reply=worker._post)
    (inference,) = model.queue
    if outer.traced is None:
        assert inference.traced is None
    else:
        assert inference.traced is outer.traced.child.return_value  # type: ignore[attr-defined] # a mock
