"""One response to an inference request; a stream of responses is several of these, the last one final."""

from naiad.core.record import Record
from naiad.core.request import InferRequest, Parameters
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError

NO_PARAMETERS: Parameters = {}
"""Shared by the many responses without parameters: nobody may add to it."""

NO_OUTPUTS: list[Tensor] = []
"""Shared by failed responses: nobody may add to it."""


class InferResponse(Record, frozen=True):
    """What one request gets back.

    Attributes:
        model_name: the model that answered.
        model_version: the version that answered; of a request that found none, the one it asked for.
        id: the request's id, echoed.
        outputs: in the model's order, only the requested ones; shapes with the batch dimension.
        parameters: the model's own (row 3.37).
        error: set instead of outputs when the request failed; `bare()` if it was raised.
        final: whether no further response follows.
        empty: it is final and says nothing else: the model had sent everything before, or sends nothing (row 10.30).
    """

    model_name: str
    model_version: int
    id: str
    outputs: list[Tensor]
    parameters: Parameters
    error: InferenceError | None = None
    final: bool = True
    empty: bool = False


def failure(request: InferRequest, error: InferenceError, *, version: int) -> InferResponse:
    """The final response to a request that failed on its own."""
    return InferResponse(
        request.model_name, version, request.id, NO_OUTPUTS, NO_PARAMETERS, error.bare()
    )
