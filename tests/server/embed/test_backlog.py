"""A model is paused while too many responses wait for the program, and resumed when half of them are taken."""

import collections.abc
import types
import typing

from typing_extensions import override

from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.embed.calls import AHEAD, Backlog, Calls, Responses
from naiad.engine.api import Engine

Call = collections.abc.Callable[[], object]


def watched() -> tuple[Flow, list[bool]]:
    """A flow, and whether its model was paused or resumed."""
    flow, states = Flow(), list[bool]()
    flow.watch(states.append)
    return flow, states


def test_a_model_is_paused_and_resumed() -> None:
    flow, states = watched()
    posted: list[Call] = []
    backlog = Backlog(flow, posted.append)
    for _ in range(AHEAD - 1):
        backlog.came()
    assert states == []
    backlog.came()
    backlog.came()
    assert states == [True]

    for _ in range(AHEAD // 2):
        backlog.took()
    assert posted == []
    backlog.took()
    assert states == [True], "the loop resumes it, not the program's thread"
    posted.pop()()
    assert states == [True, False]

    for _ in range(AHEAD):
        backlog.came()
    assert states == [True, False, True]


def test_a_program_that_takes_all_while_the_model_is_paused_resumes_it() -> None:
    class Late(Flow):
        @override
        def pause(self) -> None:
            super().pause()
            for _ in range(AHEAD):  # as another thread, which does not know of the pause yet
                backlog._taken += 1

    flow, states = Late(), list[bool]()
    flow.watch(states.append)
    backlog = Backlog(flow, lambda call: call())
    for _ in range(AHEAD):
        backlog.came()
    assert states == [True, False]


class OneModel:
    """An engine with one model, whose requests never end."""

    def __init__(self) -> None:
        self.traits = types.SimpleNamespace(decoupled=True)
        self.begun: list[Inference] = []

    def look_up(self, *_: object) -> typing.Self:
        return self

    def infer(self, request: InferRequest, on_response: OnResponse, flow: Flow) -> Inference:
        self.begun.append(Inference(request, on_response, 1, 0, flow=flow))
        return self.begun[0]


def test_a_paused_model_waits_no_more_once_the_server_has_stopped() -> None:
    model = OneModel()
    calls = Calls(typing.cast(Engine, model))
    request = InferRequest("m", -1, "", [], [], {})
    came: list[InferResponse] = []
    responses = Responses(request, came.append, lambda call: call())
    responses.begin(calls)
    [inference] = model.begun
    assert inference.flow is not None
    inference.flow.pause()
    calls.close()
    assert [response.final for response in came] == [True]
    assert inference.cancelled
    assert not inference.flow.is_full()
