"""An instance in this process, with the server's types around it: requests go in as they are, its responses become `InferResponse`s.

A model may go on writing to an array that it returned (`Instance.keeps_arrays`) while the response waits to be sent. So an array that
the model, or anything else, can still reach (a buffer that it keeps, a slice of a larger result) is copied; one that nothing else
refers to is not.
"""

import collections.abc
import sys
from typing import Any

import numpy as np

from naiad.backends import batch as batches
from naiad.backends.batch import Array
from naiad.backends.instance import Execution, Instance, Response, host_array
from naiad.backends.python.api.datatypes import elements_of
from naiad.config.model_config import ModelConfig
from naiad.config.sequence_tensors import model_outputs
from naiad.core import datatypes
from naiad.core.flow import RESPONSE_BYTES
from naiad.core.inference import Inference
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError
from naiad.hosts.host import DeferredResponse

_ARRAY: Any = np.ndarray
_BY_NAME, _BYTES, _BF16 = datatypes.BY_NAME, datatypes.BYTES, datatypes.BF16
_count = sys.getrefcount
_COPY_NOTHING = -1

Post = collections.abc.Callable[[DeferredResponse], None]
"""Takes a deferred response, in any thread; does not wait."""


class LocalInstance:
    """Used by one thread at a time, like the instance.

    Args:
        instance: what runs batches.
        config: the model's.
        version: the model's version.

    Attributes:
        instance: the same.
        on_error: called with the error of each response that has one, in the thread that made it.
    """

    def __init__(self, instance: Instance, config: ModelConfig, version: int) -> None:
        self.instance = instance
        self._version = version
        self._batched = config.max_batch_size > 0
        self._reshaped = {spec.name: spec for spec in config.outputs if spec.reshape is not None}
        self._converts = bool(self._reshaped) or any(
            spec.datatype is _BF16 for spec in model_outputs(config)
        )
        self._post: Post | None = None
        self.on_error: collections.abc.Callable[[InferenceError], None] = _ignore
        self._lone = _LONE if instance.keeps_arrays else _COPY_NOTHING

    def execute(self, batch: collections.abc.Sequence[Inference]) -> Execution[InferResponse]:
        """Run a batch; see `Instance.execute`."""
        execution: Execution[Any] = self.instance.execute(batch)
        made = execution.responses
        if len(made) != len(batch):
            model = batch[0].request.model_name
            raise batches.broken(
                f"model '{model}' answered {len(made)} responses to {len(batch)} requests; it must give one for each, in their order"
            )
        version, converts, lone = self._version, self._converts, self._lone
        responses: list[InferResponse | None] = []
        for inference, response in zip(batch, made):  # noqa: B905  they are as long as each other; asking for it costs as much as an output
            if response is None:
                responses.append(None)
                continue
            if response.error is not None or converts:
                responses.append(self._build(inference, response, True, lone))
                continue
            # The hot path: as `_build`, without a call for each response.
            outputs: list[Tensor] = []
            for name, kind, returned in response.outputs:
                array = returned if type(returned) is _ARRAY else host_array(name, returned)
                datatype = _BY_NAME[kind]
                if lone >= 0:
                    if datatype is _BYTES:
                        array = _objects(array)
                    elif array.base is not None or _count(array) > lone:
                        array = array.copy()
                outputs.append(Tensor(name, datatype, array.shape, array))
            request = inference.request
            parameters = response.parameters or NO_PARAMETERS
            responses.append(
                InferResponse(request.model_name, version, request.id, outputs, parameters)
            )
        execution.responses = responses
        return execution

    def respond_through(self, post: Post) -> None:
        """Set where deferred responses go. Called once, before the first batch."""
        self._post = post
        self.instance.respond_through(self)

    def send(
        self, call: Inference, response: Response | None, *, final: bool, begun_ns: int
    ) -> None:
        """See `Responder`. Arrays are copied: the model may go on with them."""
        post = self._post
        if post is None:
            return
        if response is None:
            request = call.request
            made = InferResponse(
                request.model_name, self._version, request.id, NO_OUTPUTS, NO_PARAMETERS, empty=True
            )
        else:
            made = self._build(call, response, final, 0)
        flow = call.flow
        if flow is None:
            post(DeferredResponse(call, made, begun_ns))
            return
        weight = _weight(made)
        flow.sent(weight)
        post(DeferredResponse(call, made, begun_ns, weight))

    def wait_for_capacity(self, call: Inference) -> None:
        """See `Responder`."""
        flow = call.flow
        if flow is not None and flow.is_full():
            flow.wait()

    def _build(
        self,
        inference: Inference,
        response: Response,
        final: bool,  # noqa: FBT001 - a call for each response, with plain arguments
        lone: int,
    ) -> InferResponse:
        """The response as the server has it, in the shapes that clients see; arrays with more than `lone` references are copied.

        A negative `lone` copies nothing.
        """
        request = inference.request
        error = response.error
        if error is not None:
            self.on_error(error)
            return InferResponse(
                request.model_name,
                self._version,
                request.id,
                NO_OUTPUTS,
                NO_PARAMETERS,
                error,
                final,
            )
        outputs: list[Tensor] = []
        for name, kind, returned in response.outputs:
            array = returned if type(returned) is _ARRAY else host_array(name, returned)
            datatype = _BY_NAME[kind]
            if lone >= 0:
                if datatype is _BYTES:
                    array = _objects(array)
                elif array.base is not None or _count(array) > lone:
                    array = array.copy()
            if datatype is _BF16:
                array = array.view(datatype.dtype)
            if self._reshaped and name in self._reshaped:
                spec = self._reshaped[name]
                array = array.reshape(
                    batches.client_shape(spec, array.shape, batched=self._batched)
                )
            outputs.append(Tensor(name, datatype, array.shape, array))
        parameters = response.parameters or NO_PARAMETERS
        return InferResponse(
            request.model_name, self._version, request.id, outputs, parameters, None, final
        )


def _ignore(_: InferenceError) -> None:
    """Until a host sets its callback."""


def _lone_count() -> int:
    """What `sys.getrefcount` says, where `_build` asks, of an array that only its response refers to."""
    counts: list[int] = []
    for _name, _kind, returned in [("x", "FP32", np.zeros(1))]:
        array = returned if type(returned) is _ARRAY else host_array("x", returned)
        counts.append(_count(array))
    return counts[0]


_LONE = _lone_count()


def _objects(array: Array) -> Array:
    """BYTES as the server has them: an object array of bytes."""
    elements = np.empty(array.size, dtype=object)
    elements[:] = elements_of(array)
    return elements.reshape(array.shape)


def _weight(response: InferResponse) -> int:
    """About how much memory a response takes."""
    weight = RESPONSE_BYTES
    for tensor in response.outputs:
        weight += tensor.array.nbytes
        if tensor.datatype is datatypes.BYTES:
            weight += sum(map(len, tensor.array.flat))
    return weight
