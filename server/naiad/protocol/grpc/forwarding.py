"""Forwards metadata as request parameters: --grpc-header-forward-pattern (rows 1.18, 10.21). Pure."""

from naiad.core.request import Parameters
from naiad.errors import invalid
from naiad.protocol.grpc.call import Metadata
from naiad.protocol.grpc.settings import CannotServeError
from naiad.protocol.header_pattern import HeaderPattern
from naiad.protocol.reserved import is_reserved


class HeaderForwarding:
    """The rule of which metadata go to the model.

    Args:
        pattern: selects the keys.
    """

    def __init__(self, pattern: HeaderPattern) -> None:
        self._pattern = pattern

    def parameters(self, metadata: Metadata) -> Parameters:
        """The metadata that the pattern selects, as string parameters; the last value of a key counts.

        Raises:
            InferenceError: INVALID_ARG for a key that Triton uses itself (row 1.18).
        """
        selected: Parameters = {}
        for key, value in metadata:
            if not self._pattern.matches(key):
                continue
            if is_reserved(key):
                raise invalid(
                    f"Header '{key}' is reserved for Triton usage and cannot be forwarded. Send it under another name, or "
                    "start the server with a --grpc-header-forward-pattern that does not match it"
                )
            selected[key] = value if isinstance(value, str) else value.decode("utf-8", "replace")
        return selected


def compiled(pattern: str) -> HeaderForwarding | None:
    """The rule of an option's value; None for "", which forwards nothing.

    Raises:
        CannotServeError: the pattern is not a regular expression.
    """
    if not pattern:
        return None
    try:
        return HeaderForwarding(HeaderPattern(pattern, option="--grpc-header-forward-pattern"))
    except ValueError as error:
        raise CannotServeError(str(error)) from None
