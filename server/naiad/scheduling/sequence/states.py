"""Applies implicit states to the requests of sequences: gives each one its states before it is batched, and keeps those of its responses.

`implicit_state` says what they are. A sequence holds its own, so that they are freed with it. All of it belongs to the event loop.
"""

from naiad.config.model_config import ModelConfig
from naiad.core.inference import Inference, OnResponse
from naiad.core.request import SEQUENCE_START, InferRequest
from naiad.core.response import InferResponse
from naiad.scheduling.sequence.implicit_state import ImplicitState
from naiad.scheduling.sequence.slot import Sequence


class SequenceStates:
    """The implicit states of one model version."""

    def __init__(self, config: ModelConfig) -> None:
        self._state = ImplicitState(config)

    def prepare(self, sequence: Sequence, inference: Inference) -> None:
        """Give a request that a batch may take next the states of its sequence: as inputs, and as outputs that it asks for.

        The request before it in its sequence has come back. What batches are formed by are its inputs, so the shapes of states count as well.
        """
        responder = _of(inference)
        if responder is None:
            responder = _Responder(self._state, sequence, inference)
            inference.on_response = responder
        if inference.request is not responder.prepared:
            responder.request = inference.request
        request = responder.request
        if request.flags & SEQUENCE_START or not sequence.states:
            sequence.states = self._state.initial
        prepared = self._state.with_states(request, sequence.states)
        inference.request = responder.prepared = prepared

    def original(self, inference: Inference) -> InferRequest:
        """The request without states."""
        responder = _of(inference)
        return inference.request if responder is None else responder.request

    def keep(self, inference: Inference, response: InferResponse) -> InferResponse:
        """Keep the states of a response that came back with its batch; returns it as its client gets it."""
        responder = _of(inference)
        return response if responder is None else responder.keep(response)


class _Responder:
    """The response callback of a request with states. A response that does not come back with its batch is stripped of them here.

    Attributes:
        request: without states.
        prepared: with them.
    """

    __slots__ = ("_kept", "_on_response", "_sequence", "_state", "prepared", "request")

    def __init__(self, state: ImplicitState, sequence: Sequence, inference: Inference) -> None:
        self._state = state
        self._sequence = sequence
        self._on_response: OnResponse = inference.on_response
        self._kept: InferResponse | None = None
        self.request = inference.request
        self.prepared = inference.request

    def __call__(self, response: InferResponse) -> None:
        self._on_response(response if response is self._kept else self.keep(response))

    def keep(self, response: InferResponse) -> InferResponse:
        """Take the states out of a response."""
        sequence = self._sequence
        sequence.states, self._kept = self._state.advance(self.request, sequence.states, response)
        return self._kept


def _of(inference: Inference) -> _Responder | None:
    responder = inference.on_response
    return responder if isinstance(responder, _Responder) else None
