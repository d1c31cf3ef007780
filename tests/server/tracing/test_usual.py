"""Usual traces: the same text many at once as each alone and as a whole trace, and what becomes of a request that turns out to be unusual."""

import collections.abc
import functools
import gc
import itertools
import pathlib
import random
import weakref

import numpy as np
import pytest

from naiad.core.flow import Flow
from naiad.core.inference import Inference
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse, failure
from naiad.errors import unavailable
from naiad.tracing import files, usual_queue
from naiad.tracing.settings import TENSORS
from naiad.tracing.usual import LONGEST_ID, Usual, UsualTexts, text
from tests.server.tracing.test_tracer import names
from tests.server.tracing.traces import model, tensor
from tests.server.tracing.world import World, ids
from tests.support.waiting import until

One = tuple[list[int], str, str]
"""The numbers of a trace, its request id, and the name of its model."""

MS = 1_000_000
NAMES = ("m", 'model "id":1,"ns":2', "größe")


def made(
    count: int,
    *,
    first: int = 1,
    since_ns: int = 10**14,
    request_id: collections.abc.Callable[[int], str] = lambda _: "",
    kinds: int = 1,
) -> list[One]:
    """Traces of so many forms."""
    chosen = random.Random(7)
    return [
        (
            [
                number,
                1 + chosen.randrange(kinds),
                chosen.randrange(min(2, kinds)),
                *(since_ns + chosen.randrange(10**9) for _ in range(11)),
            ],
            request_id(number),
            NAMES[chosen.randrange(kinds)],
        )
        for number in range(first, first + count)
    ]


def together(traces: list[One]) -> Usual:
    rows = np.array([numbers for numbers, _, _ in traces], np.int64)
    runs = [(at, each, name) for at, (_, each, name) in enumerate(traces)]
    return Usual(rows, [run for run in runs if not run[0] or run[1:] != runs[run[0] - 1][1:]])


def one_by_one(traces: list[One]) -> bytes:
    return ("".join(f",{text(*trace)}" for trace in traces) + "]").encode()


@pytest.mark.parametrize(
    "traces",
    [
        made(3),
        made(200),
        made(40, first=10**6 - 20),
        made(60, since_ns=10**15 - 10**9 // 2),
        made(60, since_ns=0),
        made(60, since_ns=9 * 10**18),
        made(60, request_id=lambda number: f"request {number:08d}"),
        made(60, request_id=lambda number: '"\\"request_id":"ü\x00' * (number % 3)),
        made(300, kinds=3, request_id=str),
    ],
    ids=["few", "alike", "ids of two lengths", "times of two lengths", "times of many lengths", "long times", "request ids", "odd request ids", "forms"],
)  # fmt: skip
def test_many_have_the_text_of_each_one_alone(traces: list[One]) -> None:
    texts = UsualTexts()
    for those in (traces, traces[:2], traces):
        assert bytes(texts.framed(together(those))) == one_by_one(those)


def test_the_text_of_one() -> None:
    found = text((7, 2, 1, 4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10), "r", "m")
    assert found.startswith('{"id":7,"timestamps":[{"name":"GRPC_WAITREAD_START","ns":0}]},')
    assert '{"id":7,"model_name":"m","model_version":2,"request_id":"r"}' in found
    assert found.endswith('{"name":"GRPC_SEND_END","ns":10}]}')


@pytest.mark.parametrize("request_id", ["", "r", '"ü', "r" * (LONGEST_ID + 1)])
async def test_a_usual_trace_is_written_as_a_whole_one_is(
    tmp_path: pathlib.Path, request_id: str
) -> None:
    found = []
    for frequency in (0, 1):  # whole ones are made for files with numbers
        (tmp_path / str(frequency)).mkdir()
        world = World(tmp_path / str(frequency), log_frequency=frequency)
        for _ in range(20):
            context = world.requests.begin()
            world.requests.respond(world.requests.run(context, request_id=request_id))
            world.requests.finish(context)
        await world.tracer.aclose()
        pieces = [world.file] if not frequency else [world.file.with_name(f"t.json.{n}") for n in range(20)]  # fmt: skip
        found.append(",".join(piece.read_text()[1:-1] for piece in pieces))
    # A whole trace reads the clock when its response comes: the last of these ticks.
    assert found[0] == found[1]


async def test_what_does_not_fit_is_lost_and_counted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(files, "_WAITING", 2)
    monkeypatch.setattr(files, "_GATHER_SECONDS", 60)
    world = World(tmp_path)
    for _ in range(5):
        world.requests.whole()
    await world.tracer.aclose()
    assert ids(world.written()) == [1, 2]
    assert world.tracer.lost() == 3
    assert caplog.text.count("traces are lost") == 1


async def test_many_are_written_before_the_time_to_gather_them_is_over(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_ENOUGH_USUAL", 100)
    monkeypatch.setattr(files, "_GATHER_SECONDS", 3600)
    world = World(tmp_path)
    for _ in range(101):
        world.requests.whole()
    await until(lambda: not world.sink()._usual)
    await world.tracer.aclose()
    assert len(ids(world.written())) == 101


async def test_a_text_for_which_there_is_no_memory_costs_its_traces_and_no_other(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(files, "_GATHER_SECONDS", 60)
    monkeypatch.setattr(usual_queue, "SLOTS", 2)
    world = World(tmp_path)
    framed, calls = world.writer()._texts.framed, itertools.count()

    def short(traces: Usual) -> memoryview:
        if not next(calls):
            raise MemoryError
        return framed(traces)

    monkeypatch.setattr(world.writer()._texts, "framed", short)
    for _ in range(3):
        world.requests.whole()
    world.tracer.change("", {"level": TENSORS})
    context = world.requests.begin()
    given = tensor("A", "FP32", (4,), [0] * 4)
    world.requests.respond(world.requests.run(context, inputs=(given,)))
    world.requests.finish(context)
    await world.tracer.aclose()
    assert [record["id"] for record in world.written()] == [3] * 13 + [4]
    assert world.tracer.lost() == 2
    assert not world.tracer.tensors.bytes
    assert "2 traces cannot be written" in caplog.text


async def test_more_than_one_write_takes_are_written_in_order(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usual_queue, "SLOTS", 7)
    world = World(tmp_path)
    for _ in range(50):
        world.requests.whole()
    await world.tracer.aclose()
    assert ids(world.written()) == list(range(1, 51))


async def test_a_request_that_fails_has_the_time_of_its_failure(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    context = world.requests.begin()
    inference = world.requests.run(context)
    inference.answered_ns, inference.completed = world.requests.tick(), True
    inference.on_response(failure(inference.request, unavailable("full"), version=3))
    world.requests.finish(context)
    await world.tracer.aclose()
    records = world.written()
    assert names(records, 1) == [
        "HTTP_RECV_START", "HTTP_RECV_END", "REQUEST_START", "QUEUE_START", "INFER_RESPONSE_COMPLETE", "REQUEST_END",
        "HTTP_SEND_START", "HTTP_SEND_END",
    ]  # fmt: skip
    assert records[-3]["timestamps"] == [{"name": "REQUEST_END", "ns": 5 * MS}]


async def test_a_request_whose_client_has_gone_is_complete_with_its_last_response(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    context = world.requests.begin()
    inference = world.requests.run(context)
    context.finish()
    assert not world.sink()._usual
    world.requests.respond(inference)
    await world.tracer.aclose()
    found = names(world.written(), 1)
    assert found[-1] == "REQUEST_END"
    assert "COMPUTE_END" in found
    assert "HTTP_SEND_START" not in found


async def test_a_stream_has_the_time_of_each_response(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    context = world.requests.begin()
    asked = InferRequest("m", LATEST, "", [], [], {})
    inference = Inference(asked, lambda _: None, 1, world.requests.tick(), queued_ns=4, flow=Flow())
    context.runs(model(), inference)
    for final in (False, False, True):
        inference.on_response(InferResponse("m", 3, "", [], {}, final=final, empty=final))
        world.requests.tick()
    world.requests.finish(context)
    await world.tracer.aclose()
    assert names(world.written(), 1).count("INFER_RESPONSE_COMPLETE") == 2


async def test_a_call_that_comes_after_the_end_of_a_usual_trace_is_not_traced(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    context = world.requests.begin()
    inference = world.requests.run(context)
    traced = inference.traced
    assert traced is not None
    world.requests.respond(inference)
    world.requests.finish(context)
    assert inference.traced is None
    late = Inference(inference.request, lambda _: None, 1, world.requests.tick())
    traced.child().begins(model(), late)
    await world.tracer.aclose()
    assert ids(world.written()) == [1]


async def test_a_usual_trace_keeps_nothing_of_its_request(tmp_path: pathlib.Path) -> None:
    class Body:
        """Something large that the callback of a request holds."""

        def take(self, _: InferResponse) -> None:
            pass

    world = World(tmp_path)
    gc.disable()
    try:
        context = world.requests.begin()
        body = Body()
        request = InferRequest("m", LATEST, "", [], [], {})
        inference = Inference(request, functools.partial(Body.take, body), 1, 3, queued_ns=4)
        kept = weakref.ref(body)
        context.runs(model(), inference)
        world.requests.respond(inference)
        world.requests.finish(context)
        del body, inference, context, request
        assert kept() is None
    finally:
        gc.enable()
        await world.tracer.aclose()


async def test_a_context_knows_the_model_whether_or_not_it_is_traced(
    tmp_path: pathlib.Path,
) -> None:
    """What is logged of a request, and its exemplars, read it."""
    for rate in (1, 2):
        world = World(tmp_path, rate=rate)
        context = world.requests.begin()
        world.requests.run(context)
        assert context.model.version == 3
        await world.tracer.aclose()


async def test_traces_of_a_batch_are_complete_once_all_its_responses_were_sent(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    contexts = [world.requests.begin() for _ in range(4)]
    inferences = [world.requests.run(context) for context in contexts[:3]]
    for inference in inferences:
        world.requests.respond(inference)
    waits = world.sink()._usual
    contexts[0].answers_begin()
    world.requests.finish(contexts[0])
    assert (len(waits), inferences[0].traced) == (0, contexts[0])
    contexts[1].answers_begin()  # the response of one caused those of another batch
    world.requests.finish(contexts[1])
    contexts[1].answers_end()
    assert (len(waits), inferences[0].traced) == (2, None)
    world.requests.finish(contexts[2])
    assert len(waits) == 3
    contexts[0].answers_end()
    world.requests.finish(contexts[3])  # one without an inference
    await world.tracer.aclose()
    assert ids(world.written()) == [1, 2, 3]
    assert "HTTP_RECV_END" in names(world.written(), 4)


async def test_a_request_that_came_in_one_piece_was_whole_when_it_was_received(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path)
    context = world.requests.begin(read_ns=7)
    world.requests.finish(context)
    await world.tracer.aclose()
    assert world.written()[1]["timestamps"] == [{"name": "HTTP_RECV_END", "ns": 7}]
