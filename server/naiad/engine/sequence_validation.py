"""Validates requests to a model whose correlation ID is one of its inputs: the id has the type of that input (row 4.15). Pure."""

from typing_extensions import override

from naiad.config.model_config import ModelConfig
from naiad.config.sequence_batching import ControlKind, SequenceControl
from naiad.core import datatypes
from naiad.core.request import InferRequest
from naiad.engine.validation import RequestValidator
from naiad.errors import invalid


def validator_of(config: ModelConfig) -> RequestValidator:
    """The validator of a model's requests."""
    sequences = config.sequence_batching
    control = None if sequences is None else sequences.control(ControlKind.CORRID)
    return RequestValidator(config) if control is None else SequenceValidator(config, control)


class SequenceValidator(RequestValidator):
    """Validates the requests of one model, with their correlation IDs."""

    def __init__(self, config: ModelConfig, control: SequenceControl) -> None:
        super().__init__(config)
        self._control = control
        self._expected = str if control.datatype is datatypes.BYTES else int

    @override
    def validate(self, request: InferRequest) -> int:
        batch_size = super().validate(request)
        if type(request.correlation_id) is not self._expected:
            control, sent = self._control, request.correlation_id
            raise invalid(
                f"{request.label}sequence batching control '{control.name}' data-type is '{'BYTES' if isinstance(sent, str) else 'UINT64'}', "
                f"but model '{self._model}' expects '{control.datatype.name}': the sequence_id {sent!r} has to be "
                + ("a string" if self._expected is str else "a number")
            )
        return batch_size
