"""What the batcher adds to the requests of a batch: control inputs, states and null rows; and the next states, which it takes out of the responses.

Pure: no loop and no clock.
"""

import typing

import msgspec

from naiad.config.model_config import ModelConfig
from naiad.config.sequence_batching import SequenceBatching
from naiad.core.inference import Inference
from naiad.core.record import Record
from naiad.core.request import InferRequest
from naiad.hosts.host import BatchOutcome
from naiad.scheduling.sequence.controls import ControlInputs, with_inputs
from naiad.scheduling.sequence.slot import Taken
from naiad.scheduling.sequence.states import SequenceStates


class PreparedBatch(Record, frozen=True, gc=True):
    """A batch as its instance gets it.

    Attributes:
        batch: its inferences, null rows included.
        taken: where each one comes from; None for a null row.
        requests: each request without added inputs; None for a null row.
        nulls: how many rows are null.
    """

    batch: list[Inference]
    taken: list[Taken | None]
    requests: list[InferRequest | None]
    nulls: int


class Preparation:
    """Prepares the batches of one model.

    Args:
        config: the model's.
        batching: its sequence batcher.
        states: its implicit states, which have prepared the requests; None without any.
    """

    def __init__(
        self, config: ModelConfig, batching: SequenceBatching, states: SequenceStates | None
    ) -> None:
        self._controls = ControlInputs(batching, batched=config.max_batch_size > 0)
        self._replaced = self._controls.names & {spec.name for spec in config.inputs}
        self._states = states

    def prepare(self, rows: list[Taken | None]) -> PreparedBatch:
        """Add inputs to the requests of a batch, and fill its null rows."""
        batch: list[Inference] = []
        requests: list[InferRequest | None] = []
        nulls: list[int] = []
        like: InferRequest | None = None
        states = self._states
        for taken in rows:
            if taken is None:
                nulls.append(len(batch))
                batch.append(_PLACEHOLDER)
                requests.append(None)
                continue
            inference = taken.inference
            request = inference.request
            requests.append(request if states is None else states.original(inference))
            batch.append(inference)
            like = like or request
            controls = self._controls.of(taken.sequence, request.flags)
            inference.request = with_inputs(self._own(request), controls)
        if nulls:
            assert like is not None, "a batch has a request"
            for row in nulls:
                batch[row] = self._controls.null_row(self._own(like))
        return PreparedBatch(batch, rows, requests, len(nulls))

    def keep_states(self, outcome: BatchOutcome) -> None:
        """Take the next states out of the responses of a batch that came back."""
        states, execution = self._states, outcome.execution
        if states is None or execution is None:
            return
        execution.responses = [
            None if response is None else states.keep(inference, response)
            for inference, response in zip(outcome.batch, execution.responses, strict=False)
        ]

    def _own(self, request: InferRequest) -> InferRequest:
        """A request without inputs that have the name of a control: the batcher's values replace them."""
        if not self._replaced:
            return request
        inputs = [tensor for tensor in request.inputs if tensor.name not in self._replaced]
        return msgspec.structs.replace(request, inputs=inputs)


_PLACEHOLDER: typing.Any = None
"""Stands in a batch until its null rows are made."""
