"""What the batcher adds to the requests of a batch: control inputs, states and null rows; and the next states, which it takes out of the responses.

Pure: no loop and no clock.
"""

import typing

import msgspec

from naiad.config.model_config import ModelConfig
from naiad.config.sequence_batching import SequenceBatching
from naiad.core.inference import Inference
from naiad.core.record import Record
from naiad.core.request import SEQUENCE_START, InferRequest
from naiad.core.response import InferResponse
from naiad.hosts.host import BatchOutcome
from naiad.scheduling.sequence.controls import ControlInputs, with_inputs
from naiad.scheduling.sequence.implicit_state import ImplicitState
from naiad.scheduling.sequence.slot import Sequence, Taken


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
    """

    def __init__(self, config: ModelConfig, batching: SequenceBatching) -> None:
        self._controls = ControlInputs(batching, batched=config.max_batch_size > 0)
        self._replaced = self._controls.names & {spec.name for spec in config.inputs}
        self._states = ImplicitState(config) if config.states else None
        self._stateful: dict[Inference, tuple[Sequence, InferRequest]] = {}

    def prepare(self, rows: list[Taken | None]) -> PreparedBatch:
        """Add inputs to the requests of a batch, and fill its null rows."""
        batch: list[Inference] = []
        requests: list[InferRequest | None] = []
        nulls: list[int] = []
        like: tuple[Sequence, InferRequest] | None = None
        for taken in rows:
            if taken is None:
                nulls.append(len(batch))
                batch.append(_PLACEHOLDER)
                requests.append(None)
                continue
            sequence, inference = taken.sequence, taken.inference
            request = inference.request
            requests.append(request)
            batch.append(inference)
            inference.request = self._with_inputs(sequence, request)
            if self._states is not None:
                self._stateful[inference] = sequence, request
            if like is None:
                like = sequence, request
        if nulls:
            assert like is not None, "a batch has a request"
            states = () if self._states is None else self._states.null(like[0].states)
            for row in nulls:
                batch[row] = self._controls.null_row(self._own(like[1]), states)
        return PreparedBatch(batch, rows, requests, len(nulls))

    def keep_states(self, outcome: BatchOutcome) -> None:
        """Take the next states out of the responses of a batch that came back."""
        if self._states is None:
            return
        execution = outcome.execution
        if execution is None:
            for inference in outcome.batch:
                self._stateful.pop(inference, None)
            return
        pairs = zip(outcome.batch, execution.responses, strict=False)
        execution.responses = [
            None if response is None else self.advance(inference, response)
            for inference, response in pairs
        ]

    def advance(self, inference: Inference, response: InferResponse) -> InferResponse:
        """Take the next states out of a response of the model."""
        assert self._states is not None
        entry = self._stateful.get(inference)
        if entry is None:  # a null row
            return response
        if response.final:
            del self._stateful[inference]
        sequence, request = entry
        sequence.states, shown = self._states.advance(request, sequence.states, response)
        return shown

    def _own(self, request: InferRequest) -> InferRequest:
        """A request without inputs that have the name of a control: the batcher's values replace them."""
        if not self._replaced:
            return request
        inputs = [tensor for tensor in request.inputs if tensor.name not in self._replaced]
        return msgspec.structs.replace(request, inputs=inputs)

    def _with_inputs(self, sequence: Sequence, request: InferRequest) -> InferRequest:
        """A request as the model gets it: with controls and states."""
        added = with_inputs(self._own(request), self._controls.of(sequence, request.flags))
        if self._states is None:
            return added
        if request.flags & SEQUENCE_START:
            sequence.states = self._states.initial
        return self._states.with_states(added, sequence.states)


_PLACEHOLDER: typing.Any = None
"""Stands in a batch until its null rows are made."""
