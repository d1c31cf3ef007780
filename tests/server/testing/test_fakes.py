"""naiad.testing: what stands for the server around a model: other models, their loading, metrics."""

import collections.abc
from typing import Any

import numpy as np
import pytest

from naiad.testing import ErrorCode, InferenceError, Request, Response
from tests.server.testing.written import Load

ASKS = """
class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X")
        asked = pb_utils.InferenceRequest(
            model_name="other", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", x.as_numpy())],
            request_id="inner", parameters={"p": 1},
        )
        response = asked.exec(decoupled=DECOUPLED)
        if DECOUPLED:
            values = [each.output_tensors()[0].as_numpy() for each in response]
            return pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.concatenate(values, axis=1))])
        if response.has_error():
            return pb_utils.InferenceResponse(error=response.error())
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", response.output_tensors()[0].as_numpy())])
"""


ASKS_ONCE = ASKS.replace("DECOUPLED", "False")


ASKS_ALL = ASKS.replace("DECOUPLED", "True")


def test_calls_to_other_models_are_answered_by_fakes_and_kept(load: Load) -> None:
    model = load(ASKS_ONCE, models={"other": lambda request: {"OUT": request["IN"] + 1}})
    assert model.infer({"X": [[1]]})["Y"].tolist() == [[2]]
    ((name, request),) = model.calls
    assert name == "other"
    assert request["IN"].tolist() == [[1]]
    assert (request.id, request.parameters, request.requested_outputs) == (
        "inner",
        {"p": 1},
        ["OUT"],
    )


def test_a_fake_may_fail(load: Load) -> None:
    def busy(request: Request) -> Response:
        raise InferenceError(ErrorCode.UNAVAILABLE, "busy")

    with pytest.raises(InferenceError, match="busy") as caught:
        load(ASKS_ONCE, models={"other": busy}).infer({"X": [[1]]})
    assert caught.value.code is ErrorCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("fake", "error"),
    [
        (lambda request: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda request: [{"OUT": np.zeros((1, 1), np.float32)}] * 2, r"exec\(decoupled=True\)"),
        (lambda request: None, "the fake of model 'other' replied nothing: it has to reply a dict"),
        (lambda request: 5, "the fake of model 'other' replied int: it has to reply a dict"),
        (lambda request: "text", "the fake of model 'other' replied str: it has to reply a dict"),
        (None, r"unknown model: 'other' is not found: give load_model a fake"),
    ],
)
def test_what_goes_wrong_with_a_fake_is_an_error_response(
    fake: Any, error: str, load: Load
) -> None:
    models = {} if fake is None else {"other": fake}
    with pytest.raises(InferenceError, match=error):
        load(ASKS_ONCE, models=models).infer({"X": [[1]]})


def test_a_fake_that_yields_is_decoupled(load: Load) -> None:
    def count(request: Request) -> collections.abc.Iterator[dict[str, np.ndarray[Any, Any]]]:
        for each in range(3):
            yield {"OUT": np.array([[each]], np.float32)}

    model = load(ASKS_ALL, models={"other": count})
    assert model.infer({"X": [[1]]})["Y"].tolist() == [[0, 1, 2]]


def test_async_calls_are_answered_too(load: Load) -> None:
    code = ASKS_ONCE.replace("def ", "async def ").replace("asked.exec(", "await asked.async_exec(")
    code = code.replace("[self.answer(request)", "[await self.answer(request)")
    model = load(code, models={"other": lambda request: {"OUT": request["IN"]}})
    assert model.infer({"X": [[5]]})["Y"].tolist() == [[5]]


CONTROLS = """
class TritonPythonModel:
    def execute(self, requests):
        said = [pb_utils.is_model_ready("other"), pb_utils.is_model_ready("absent")]
        pb_utils.unload_model("other")
        said.append(pb_utils.is_model_ready("other"))
        pb_utils.load_model("other")
        said.append(pb_utils.is_model_ready("other"))
        y = pb_utils.Tensor("Y", np.array([said], np.float32))
        return [pb_utils.InferenceResponse([y]) for _ in requests]
"""


def test_models_can_be_loaded_and_unloaded(load: Load) -> None:
    model = load(CONTROLS, models={"other": lambda request: {}})
    assert model.infer({"X": [[1]]})["Y"].tolist() == [[1, 0, 0, 1]]


def test_metrics_of_the_model_can_be_read(load: Load) -> None:
    code = """
    class TritonPythonModel:
        def initialize(self, args):
            self.family = pb_utils.MetricFamily(
                name="seen", description="d", kind=pb_utils.MetricFamily.COUNTER
            )
            self.metric = self.family.Metric(labels={"model": "m"})

        def execute(self, requests):
            self.metric.increment(len(requests))
            y = pb_utils.Tensor("Y", np.zeros((1, 1), np.float32))
            return [pb_utils.InferenceResponse([y]) for _ in requests]
    """
    model = load(code)
    model.execute([Request({"X": [[1]]}), Request({"X": [[1]]})])
    assert model.metrics() == {'seen{model="m"}': 2.0}
