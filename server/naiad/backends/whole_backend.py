"""A backend's own instance as a `Runner`, for frameworks that have no lighter one: ONNX Runtime and the like in a worker process.

The worker loads the model by the same code as a thread of the server would, so it needs everything that the server needs and runs in
the server's interpreter. Each process has a model of its own: instances share nothing.
"""

import base64
import collections.abc
import os
import pathlib
import sys
from typing import Any

from naiad.backends.backend import (
    Answer as Posted,
    AnswersApart,
    InstanceSpec,
    ModelSource,
    WorkerPlan,
)
from naiad.backends.registry import Registry
from naiad.backends.runner import Answer, Outcome, Post, ReceivedRequest, WorkerError
from naiad.backends.visible_devices import seen_by
from naiad.config.model_config import InstanceKind
from naiad.config.typed import typed
from naiad.core import datatypes
from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.core.messages import model_config_pb2
from naiad.core.request import LATEST, InferRequest, RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError


def plan_of(source: ModelSource, spec: InstanceSpec) -> WorkerPlan:
    """How an instance of any backend runs in a worker process."""
    config = source.config.message.SerializeToString(deterministic=True)
    seen = seen_by(
        spec, model=source.config.name, parameters=source.config.parameters, environ=os.environ
    )
    return WorkerPlan(
        runner=f"{__name__}:WholeBackend",
        settings={
            "config": base64.b64encode(config).decode(),
            "version": source.version,
            "model_dir": str(source.model_dir),
            "version_dir": str(source.version_dir),
            "options": dict(source.options),
            "name": spec.name,
            "kind": spec.kind.value,
            "device_id": seen.spec.device_id,
        },
        executable=sys.executable,
        environ=seen.variables,
    )


class WholeBackend:
    """Implements `Runner`.

    Args:
        settings: as `plan_of` makes them.

    Raises:
        WorkerError: the model cannot be loaded.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        message = model_config_pb2.ModelConfig.FromString(base64.b64decode(settings["config"]))
        config = typed(message)
        self._model = config.name
        self._batched = config.max_batch_size > 0
        source = ModelSource(
            config=config,
            version=settings["version"],
            model_dir=pathlib.Path(settings["model_dir"]),
            version_dir=pathlib.Path(settings["version_dir"]),
            options=settings["options"],
        )
        spec = InstanceSpec(
            name=settings["name"],
            kind=InstanceKind(settings["kind"]),
            device_id=settings["device_id"],
        )
        try:
            backend = Registry(clock=SystemClock()).get(config.backend)
            self._loaded = backend.load(source)
            self._instance = self._loaded.make_instance(spec)
        except InferenceError as error:
            raise WorkerError(error.code.name, error.message) from error

    def answer_through(self, post: Post) -> None:
        """See `Runner`."""
        if not isinstance(self._instance, AnswersApart):
            return

        def hand_on(posted: Posted) -> None:
            inference, response = posted.inference, posted.response
            assert isinstance(inference, _Call)
            assert inference.received is not None
            answer = None if response.empty else _answer(response)
            post(inference.received, answer, final=response.final, begun_ns=posted.begun_ns)

        self._instance.answer_through(hand_on)

    def execute(self, requests: list[ReceivedRequest]) -> Outcome:
        """See `Runner`."""
        try:
            execution = self._instance.execute([self._inference(each) for each in requests])
        except InferenceError as error:
            raise WorkerError(error.code.name, error.message) from error
        answers = [None if each is None else _answer(each) for each in execution.responses]
        return Outcome(answers, execution.input_end_ns, execution.output_start_ns)

    def ready(self) -> bool:
        """See `Runner`."""
        return self._instance.ready()

    def beat(self, call: collections.abc.Callable[[], None]) -> None:
        """See `Runner`."""
        call()

    def close(self) -> None:
        """See `Runner`."""
        self._instance.close()
        self._loaded.close()

    def _inference(self, received: ReceivedRequest) -> Inference:
        inputs: list[Tensor] = []
        for each in received.inputs:
            datatype = datatypes.BY_NAME[each.datatype]
            array = each.array
            if datatype is datatypes.BF16:
                array = array.view(datatype.dtype)
            inputs.append(Tensor(each.name, datatype, array.shape, array))
        request = InferRequest(
            model_name=self._model,
            model_version=LATEST,
            id=received.id,
            inputs=inputs,
            requested_outputs=[RequestedOutput(name) for name in received.output_names],
            parameters=received.parameters,
            timeout_us=received.timeout_us,
            correlation_id=received.correlation_id,
            flags=received.flags,
        )
        rows = inputs[0].shape[0] if self._batched and inputs and inputs[0].shape else 1
        call = _Call(request, _nobody, batch_size=rows, received_ns=0, cancelled=received.cancelled)
        call.received = received
        received.on_cancel = call.cancel
        return call


class _Call(Inference, eq=False):
    """An inference that knows what it was made of.

    Attributes:
        received: that.
    """

    received: ReceivedRequest | None = None


def _answer(response: InferResponse) -> Answer:
    error = response.error
    if error is not None:
        return Answer([], {}, (error.code.name, error.message))
    outputs = [(each.name, each.datatype.name, each.array) for each in response.outputs]
    return Answer(outputs, response.parameters)


def _nobody(response: InferResponse) -> None:
    """Answers go back by the batch."""
