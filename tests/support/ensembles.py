"""Ensembles for tests: their configs, and scripted models of their steps."""

import collections.abc

import msgspec
import numpy as np

from naiad.config.model_config import Ensemble, EnsembleStep, ModelConfig, TensorSpec
from naiad.config.resolving import composing
from naiad.core.datatypes import FP32
from naiad.core.inference import ExecutionTimes, Inference
from naiad.core.messages import model_config_pb2
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, InferenceError
from naiad.scheduling.relays.calls import CallInProgress
from tests.support.inferences import make_config, make_spec

Maps = collections.abc.Mapping[str, str]


def step(model: str, inputs: str, outputs: str, *, version: int = -1) -> EnsembleStep:
    """A step of `a=x b=y` (input of the model = tensor of the ensemble) and the same of its outputs."""
    return EnsembleStep(
        model=model, version=version, namespace="", inputs=_maps(inputs), outputs=_maps(outputs)
    )


def _maps(text: str) -> Maps:
    return dict(part.split("=") for part in text.split())


def model(
    name: str, inputs: str, outputs: str, *, decoupled: bool = False, max_batch_size: int = 8
) -> ModelConfig:
    """The config of a model with these tensors, each FP32 of one element; `?` behind the name of an optional input."""
    config = make_config(
        name=name,
        max_batch_size=max_batch_size,
        inputs=[
            make_spec(each.removesuffix("?"), optional=each.endswith("?"))
            for each in inputs.split()
        ],
        outputs=[make_spec(each) for each in outputs.split()],
    )
    return msgspec.structs.replace(config, decoupled=decoupled)


def ensemble(
    inputs: str | collections.abc.Sequence[TensorSpec],
    outputs: str | collections.abc.Sequence[TensorSpec],
    *steps: EnsembleStep,
    limit: int = 0,
    name: str = "E",
    max_batch_size: int = 8,
) -> ModelConfig:
    """The config of an ensemble, whose steps are not bound yet."""
    if isinstance(inputs, str):
        inputs = model("", inputs, "").inputs
    if isinstance(outputs, str):
        outputs = model("", "", outputs).outputs
    config = make_config(name=name, max_batch_size=max_batch_size, inputs=inputs, outputs=outputs)
    return msgspec.structs.replace(
        config,
        platform="ensemble",
        backend="",
        instance_groups=(),
        ensemble=Ensemble(steps=tuple(steps), max_inflight_requests=limit),
        message=model_config_pb2.ModelConfig(name=name, platform="ensemble"),
    )


def bound(config: ModelConfig, *models: ModelConfig) -> ModelConfig:
    """The ensemble with what follows from these models; every step has one."""
    result, wrong = composing.bound(config, {each.name: {1: each} for each in models})
    assert wrong == []
    return result


def number(name: str, *values: float) -> Tensor:
    """A tensor of one column."""
    return Tensor(name, FP32, (len(values), 1), np.array(values, np.float32).reshape(-1, 1))


class Call:
    """A call that a scheduler has made, to be answered by the test."""

    def __init__(self, call: CallInProgress) -> None:
        self.request = call.request
        self.flow = call.flow
        self.cancelled = 0
        self._call: CallInProgress | None = call
        call.handle = self

    @property
    def inputs(self) -> dict[str, list[float]]:
        """The values that came."""
        return {each.name: each.array.ravel().tolist() for each in self.request.inputs}

    def cancel(self) -> None:
        self.cancelled += 1

    def took(self, *, queue: int, parts: tuple[int, int, int]) -> None:
        """Say how long the model took, in nanoseconds."""
        assert self._call is not None, "it is in progress"
        inference = Inference(self.request, _nothing, batch_size=1, received_ns=0)
        self._call.inference = inference
        start, (first, second, third) = queue, parts
        inference.execution = ExecutionTimes(
            1, start, start + first, start + first + second, start + first + second + third
        )

    def respond(
        self,
        *outputs: Tensor,
        final: bool = True,
        parameters: dict[str, bool | int | float | str] | None = None,
    ) -> None:
        self._send(
            InferResponse(
                self.request.model_name,
                1,
                self.request.id,
                list(outputs),
                parameters or {},
                final=final,
                empty=final and not outputs,
            )
        )

    def fail(self, message: str, code: ErrorCode = ErrorCode.INTERNAL) -> None:
        error = InferenceError(code, message)
        self._send(InferResponse(self.request.model_name, 1, self.request.id, [], {}, error))

    def _send(self, response: InferResponse) -> None:
        assert self._call is not None, "a call has one final response"
        call = self._call
        if response.final:
            self._call = None
        call.respond(response)


def _nothing(_: InferResponse) -> None:
    pass


class Models:
    """The models of the steps. Implements `Submit`: the test answers each call.

    Attributes:
        calls: those in progress and those before, in order.
        refuses: models that refuse at once, with this error.
        namespaces: of the calls.
    """

    def __init__(self) -> None:
        self.namespaces: list[str] = []
        self.calls: list[Call] = []
        self.refuses: dict[str, str] = {}

    def __call__(self, *calls: CallInProgress, namespace: str = "") -> None:
        for call in calls:
            self._take(call, namespace)

    def _take(self, call: CallInProgress, namespace: str) -> None:
        caller = call.made_by()
        assert caller.model == "E"
        assert caller.batch is not None
        assert len(caller.batch) == 1
        self.namespaces.append(namespace)
        made = Call(call)
        self.calls.append(made)
        if call.request.model_name in self.refuses:
            made.fail(self.refuses[call.request.model_name], ErrorCode.UNAVAILABLE)

    def of(self, name: str) -> list[Call]:
        """The calls of a model."""
        return [call for call in self.calls if call.request.model_name == name]

    def names(self) -> list[str]:
        """The models that were called, in order."""
        return [call.request.model_name for call in self.calls]
