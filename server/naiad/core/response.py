"""A response to an inference request; a stream of responses is several of these, the last one final."""

from naiad.core.record import Record
from naiad.core.request import InferRequest, Parameters
from naiad.core.tensor import Tensor, Texts
from naiad.errors import InferenceError

NO_PARAMETERS: Parameters = {}
"""Shared by all responses without parameters; read only."""

NO_OUTPUTS: list[Tensor] = []
"""Shared by all failed responses; read only."""


class InferResponse(Record, frozen=True):
    """A response.

    Attributes:
        model_version: the version that responds; the requested one if that does not exist.
        outputs: in the model's order, only the requested ones; shapes with the batch dimension.
        parameters: set by the model (row 3.37).
        error: set instead of outputs when the request failed; `bare()` if it was raised.
        empty: it is final and carries nothing else: the model has sent everything before, or sends nothing (row 10.30).
        texts: of a response from the response cache: what protocols have written of it.
    """

    model_name: str
    model_version: int
    id: str
    outputs: list[Tensor]
    parameters: Parameters
    error: InferenceError | None = None
    final: bool = True
    empty: bool = False
    texts: Texts | None = None


def failure(request: InferRequest, error: InferenceError, *, version: int) -> InferResponse:
    """The final response to a request that failed by itself, not with its batch."""
    return InferResponse(
        request.model_name, version, request.id, NO_OUTPUTS, NO_PARAMETERS, error.bare()
    )
