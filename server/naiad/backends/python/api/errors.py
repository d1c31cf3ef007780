"""Errors that models raise, return and catch (rows 15.14, 15.15)."""

import enum


class TritonModelException(Exception):  # noqa: N818 - models catch it by this name
    """What everything in `triton_python_backend_utils` raises."""


class TritonErrorCode(enum.IntEnum):
    """The eight codes of Triton's C API."""

    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7

    def __str__(self) -> str:  # type: ignore[explicit-override]  # `override` is in no standard library of 3.8
        return self.name


class TritonError:
    """Why one request failed: given to its InferenceResponse, not raised.

    Args:
        message: for the client.
        code: one of the class's own constants.
    """

    UNKNOWN = TritonErrorCode.UNKNOWN
    INTERNAL = TritonErrorCode.INTERNAL
    NOT_FOUND = TritonErrorCode.NOT_FOUND
    INVALID_ARG = TritonErrorCode.INVALID_ARG
    UNAVAILABLE = TritonErrorCode.UNAVAILABLE
    UNSUPPORTED = TritonErrorCode.UNSUPPORTED
    ALREADY_EXISTS = TritonErrorCode.ALREADY_EXISTS
    CANCELLED = TritonErrorCode.CANCELLED

    __slots__ = ("_code", "_message")

    def __init__(self, message: str, code: TritonErrorCode = TritonErrorCode.INTERNAL) -> None:
        if not isinstance(message, str):
            raise TypeError(
                f"TritonError(message, code): message must be a str, not {type(message).__name__}; write str(...)"
            )
        if not isinstance(code, TritonErrorCode):
            raise TypeError(
                f"TritonError(message, code): code must be one of TritonError.INTERNAL, INVALID_ARG, …, not {code!r}"
            )
        self._message = message
        self._code = code

    def code(self) -> TritonErrorCode:
        """What kind of failure it is."""
        return self._code

    def message(self) -> str:
        """The message that the client gets."""
        return self._message
