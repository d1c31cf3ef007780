"""Classifies the responses to one request on their way out (see `classification`)."""

from typing_extensions import override

from naiad.config.labels import Labels
from naiad.core.inference import OnResponse
from naiad.core.response import InferResponse
from naiad.engine.forms.classification import Classes, classify, cost
from naiad.engine.forms.formed import FormedResponses

_LONG = 100_000
"""Responses that cost more are classified in a thread: about a millisecond."""


class ClassifiedResponses(FormedResponses):
    """Classes in place of values.

    Args:
        on_response: gets the responses.
        classes: of each output that is wanted as classes.
        labels: of the model.
        batched: whether the first dimension of its outputs is the batch.
    """

    __slots__ = ("_batched", "_classes", "_labels")

    WHAT = "the classes of the outputs could not be computed"

    def __init__(
        self, on_response: OnResponse, classes: Classes, labels: Labels, *, batched: bool
    ) -> None:
        super().__init__(on_response)
        self._classes = classes
        self._labels = labels
        self._batched = batched

    @override
    def form(self, response: InferResponse) -> InferResponse:
        return classify(response, self._classes, self._labels, batched=self._batched)

    @override
    def takes_long(self, response: InferResponse) -> bool:
        return cost(response, self._classes) > _LONG
