"""Metadata that become request parameters: --grpc-header-forward-pattern (rows 1.18, 10.21). Pure."""

import re

from naiad.core.request import Parameters
from naiad.errors import invalid
from naiad.protocol.grpc.call import Metadata
from naiad.protocol.grpc.settings import CannotServeError
from naiad.protocol.reserved import is_reserved


class HeaderForwarding:
    """The rule of which metadata go to the model.

    Args:
        pattern: a regular expression that is searched in a key, not matched against all of it.
    """

    def __init__(self, pattern: "re.Pattern[str]") -> None:
        self._pattern = pattern

    def parameters(self, metadata: Metadata) -> Parameters:
        """String parameters out of the metadata that the pattern finds; the last one of a key counts.

        Raises:
            InferenceError: INVALID_ARG for a key that Triton uses itself (row 1.18).
        """
        found: Parameters = {}
        for key, value in metadata:
            if self._pattern.search(key) is None:
                continue
            if is_reserved(key):
                raise invalid(
                    f"Header '{key}' is reserved for Triton usage and cannot be forwarded. Send it under another name, or "
                    "start the server with a --grpc-header-forward-pattern that does not match it"
                )
            found[key] = value if isinstance(value, str) else value.decode("utf-8", "replace")
        return found


def compiled(pattern: str) -> HeaderForwarding | None:
    """The rule of an option's value; None for "", which forwards nothing.

    Raises:
        CannotServeError: the pattern is no regular expression.
    """
    if not pattern:
        return None
    try:
        # Metadata keys are in lower case on the wire: a pattern with capitals means the same keys (row 1.17).
        return HeaderForwarding(re.compile(pattern, re.IGNORECASE))
    except re.error as error:
        raise CannotServeError(
            f"--grpc-header-forward-pattern={pattern}: not a regular expression: {error}"
        ) from None
