"""Errors of the engine."""


class EngineGenerateError(Exception):
    """A request failed; the engine lives."""


class EngineDeadError(Exception):
    """The engine has died."""

    def __init__(self, *args: object, suppress_context: bool = False) -> None:
        super().__init__(
            "EngineCore encountered an issue. See stack trace (above) for the root cause.", *args
        )
        self.__suppress_context__ = suppress_context
