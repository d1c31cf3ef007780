"""The scheduler keeps the implicit state of each sequence: what the model gives with one response it gets with the next request."""

import asyncio
import typing

import msgspec
import numpy as np
import pytest

from naiad.config.sequence_batching import SequenceBatching
from naiad.config.sequence_states import SequenceState
from naiad.core.datatypes import FP32
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.host import DeferredResponse
from tests.server.scheduling.sequence.scheduled import OLDEST, SequenceModel, inputs_of
from tests.support.scheduled import turn

pytestmark = pytest.mark.looptime

STATE = SequenceState(
    input_name="state_in",
    output_name="state_out",
    datatype=FP32,
    dims=(1,),
    is_output=False,
    initial_dims=(1,),
    initial=None,
)


def fp32(name: str, value: float) -> Tensor:
    return Tensor(name, FP32, (1, 1), np.full((1, 1), value, np.float32))


def response(inference: Inference, *, final: bool = True) -> InferResponse:
    """The state grows by one; "y" says what it was."""
    before = typing.cast("float", inputs_of(inference)["state_in"])
    outputs = [fp32("y", before), fp32("state_out", before + 1)]
    return InferResponse("m", 1, inference.request.id, outputs, {}, None, final=final)


def made(batching: SequenceBatching | None = None) -> SequenceModel:
    model = SequenceModel(batching, states=(STATE,))
    model.host.respond = response
    return model


def seen(model: SequenceModel, inference: Inference) -> list[tuple[str, float]]:
    outputs = model.answers[inference.request.id].outputs
    return [(tensor.name, tensor.array.ravel().tolist()[0]) for tensor in outputs]


@pytest.mark.parametrize("batching", [SequenceBatching(), SequenceBatching(strategy=OLDEST)])
async def test_each_sequence_has_its_own_state_and_start_begins_with_the_initial_one(
    batching: SequenceBatching,
) -> None:
    model = made(batching)
    sent = []
    for flags in ("s", "", "s", "e"):
        sent += [model.send(key, flags) for key in (1, 2)]
        await turn()
        model.host.finish()
    assert [seen(model, each) for each in sent[::2]] == [
        [("y", 0.0)], [("y", 1.0)], [("y", 0.0)], [("y", 1.0)],
    ]  # fmt: skip
    model.nothing_left()


async def test_requests_that_wait_get_the_state_of_the_one_before() -> None:
    model = made()
    sent = [model.send(1, flags) for flags in ("s", "", "", "e")]
    await turn()
    for _ in sent:
        model.host.finish()
    assert [seen(model, each) for each in sent] == [[("y", float(n))] for n in range(4)]


async def test_a_failed_request_leaves_the_state_as_it_was() -> None:
    model = made()
    model.send(1, "s")
    await turn()
    model.host.finish()
    model.send(1)
    await turn()
    model.host.fail(InferenceError(ErrorCode.INTERNAL, "broken", reason=FailureReason.BACKEND))
    last = model.send(1, "e")
    await turn()
    model.host.finish()
    assert seen(model, last) == [("y", 1.0)]


async def test_a_null_row_has_zeros_and_changes_no_state() -> None:
    model = made()
    for key in (1, 2):
        model.send(key, "s")
    await turn()
    model.host.finish()
    model.send(2)
    await turn()
    null = model.host.batches[1][0]
    assert inputs_of(null) == {"x": 0.0, "state_in": 0.0}
    model.host.finish()
    last = model.send(1)
    await turn()
    model.host.finish()
    assert seen(model, last) == [("y", 1.0)]


async def test_each_deferred_response_leaves_a_state() -> None:
    model = made()
    first = model.send(1, "s")
    await turn()
    assert model.host.on_deferred is not None
    model.host.on_deferred(DeferredResponse(first, response(first, final=False), 0))
    model.host.finish_with([None])
    model.host.on_deferred(DeferredResponse(first, response(first), 0))
    assert seen(model, first) == [("y", 0.0)]
    last = model.send(1, "e")
    await turn()
    assert inputs_of(last)["state_in"] == 1.0
    model.host.finish()
    model.nothing_left()


async def test_the_state_of_a_sequence_goes_with_it() -> None:
    model = made(SequenceBatching(max_sequence_idle_us=10_000))
    model.send(1, "s")
    await turn()
    model.host.finish()
    await asyncio.sleep(0.1)
    first = model.send(2, "s")
    await turn()
    model.host.finish()
    assert seen(model, first) == [("y", 0.0)]
    assert model.statistics.sequences is not None
    assert model.statistics.sequences().used == 1


GROWS = msgspec.structs.replace(STATE, dims=(-1,))


def grown(inference: Inference) -> InferResponse:
    """The state is as long as the request's value says."""
    size = int(typing.cast("float", inputs_of(inference)["x"]))
    values = np.arange(size, dtype=np.float32).reshape(1, size)
    outputs = [Tensor("state_out", FP32, values.shape, values)]
    return InferResponse("m", 1, inference.request.id, outputs, {})


def sized(size: int) -> Tensor:
    return fp32("x", size)


def shapes(batch: list[Inference]) -> list[tuple[str, tuple[int, ...]]]:
    """Whose row each one is, and the shape of its state."""
    return [
        (
            str(each.request.correlation_id or "-"),
            next(t.shape for t in each.request.inputs if t.name == "state_in"),
        )
        for each in batch
    ]


@pytest.mark.parametrize(
    ("batching", "second"),
    [
        (SequenceBatching(), [[("1", (1, 2)), ("-", (1, 2)), ("3", (1, 2))], [("-", (1, 3)), ("2", (1, 3))]]),
        (SequenceBatching(strategy=OLDEST), [[("1", (1, 2))], [("2", (1, 3))], [("3", (1, 2))]]),
    ],
)  # fmt: skip
async def test_states_of_other_shapes_are_not_in_one_batch(
    batching: SequenceBatching, second: list[list[tuple[str, tuple[int, ...]]]]
) -> None:
    """Null rows have the shapes of the batch."""
    model = SequenceModel(batching, states=(GROWS,))
    model.host.respond = grown
    for key, size in ((1, 2), (2, 3), (3, 2)):
        model.send(key, "s", sized(size))
    await turn()
    assert shapes(model.host.batches[0]) == [("1", (1, 1)), ("2", (1, 1)), ("3", (1, 1))]
    model.host.finish()
    for key in (1, 2, 3):
        model.send(key, "e", sized(1))
    await turn()
    for _ in second:
        model.host.finish()
    assert [shapes(batch) for batch in model.host.batches[1:]] == second
    model.nothing_left()


async def test_a_client_that_asks_for_some_outputs_gets_these_and_its_state_goes_on() -> None:
    model = made()
    first = model.send(1, "s", outputs=("y",))
    await turn()
    assert model.host.batches[0][0].request.output_names == ["y", "state_out"]
    model.host.finish()
    assert seen(model, first) == [("y", 0.0)]
    last = model.send(1, "e")
    await turn()
    model.host.finish()
    assert seen(model, last) == [("y", 1.0)]


async def test_a_request_that_comes_back_has_its_new_state() -> None:
    model = made(SequenceBatching(iterative=True))
    sent = model.send(0)
    await turn()
    given: list[object] = []
    assert model.host.on_deferred is not None
    for _ in range(3):
        given.append((inputs_of(sent)["state_in"], len(sent.request.inputs)))
        model.host.on_deferred(DeferredResponse(sent, response(sent, final=False), 0))
        model.host.finish_with([None], rescheduled=[0])
        await turn()
    model.host.finish()
    assert given == [(0.0, 2), (1.0, 2), (2.0, 2)]
    model.nothing_left()
