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
from naiad.backends.instance import Execution, Instance, Output, Response, host_array
from naiad.backends.python.api.byte_tensors import elements_of
from naiad.config.model_config import ModelConfig
from naiad.core import datatypes
from naiad.core.flow import RESPONSE_BYTES
from naiad.core.inference import Inference
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.hosts.host import DeferredResponse

_ARRAY: Any = np.ndarray

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
    """

    def __init__(self, instance: Instance, config: ModelConfig, version: int) -> None:
        self.instance = instance
        self._version = version
        self._batched = config.max_batch_size > 0
        self._reshaped = {spec.name: spec for spec in config.outputs if spec.reshape is not None}
        self._post: Post | None = None

    def execute(self, batch: collections.abc.Sequence[Inference]) -> Execution[InferResponse]:
        """Run a batch; see `Instance.execute`."""
        execution = self.instance.execute(batch)
        made = execution.responses
        if len(made) != len(batch):
            model = batch[0].request.model_name
            raise batches.broken(
                f"model '{model}' answered {len(made)} responses to {len(batch)} requests; it must give one for each, in their order"
            )
        copies, response = self.instance.keeps_arrays, self._response
        responses = [
            None if each is None else response(inference, each, copies=copies)
            for inference, each in zip(batch, made, strict=True)
        ]
        return Execution(responses, execution.input_end_ns, execution.output_start_ns)

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
            made = self._response(call, response, final=final, copies=True, lone=0)
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

    def _response(
        self,
        inference: Inference,
        response: Response,
        *,
        final: bool = True,
        copies: bool,
        lone: int | None = None,
    ) -> InferResponse:
        request = inference.request
        error = response.error
        if error is not None:
            return InferResponse(
                request.model_name,
                self._version,
                request.id,
                NO_OUTPUTS,
                NO_PARAMETERS,
                error,
                final,
            )
        return InferResponse(
            request.model_name,
            self._version,
            request.id,
            self._outputs(response.outputs, copies=copies, lone=_LONE if lone is None else lone),
            response.parameters or NO_PARAMETERS,
            None,
            final,
        )

    def _outputs(self, given: list[Output], *, copies: bool, lone: int) -> list[Tensor]:
        """Outputs in the shape that clients see; with `copies`, arrays with more than `lone` references are copied."""
        reshaped = self._reshaped
        outputs: list[Tensor] = []
        for name, kind, returned in given:
            array = returned if type(returned) is _ARRAY else host_array(name, returned)
            datatype = datatypes.BY_NAME[kind]
            if copies:
                if datatype is datatypes.BYTES:
                    array = _objects(array)
                elif array.base is not None or sys.getrefcount(array) > lone:
                    array = array.copy()
            if datatype is datatypes.BF16:
                array = array.view(datatype.dtype)
            if reshaped and name in reshaped:
                array = array.reshape(
                    batches.client_shape(reshaped[name], array.shape, batched=self._batched)
                )
            outputs.append(Tensor(name, datatype, array.shape, array))
        return outputs


def _lone_count() -> int:
    """What `sys.getrefcount` says, where `_outputs` asks, of an array that only its response refers to."""
    counts: list[int] = []
    for _name, _kind, returned in [("x", "FP32", np.zeros(1))]:
        array = returned if type(returned) is _ARRAY else host_array("x", returned)
        counts.append(sys.getrefcount(array))
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
