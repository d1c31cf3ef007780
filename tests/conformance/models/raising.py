"""Cannot be initialised."""


class TritonPythonModel:
    """Raises before it could serve."""

    def initialize(self, args: dict[str, str]) -> None:
        """Fails with a message that the reason must carry."""
        raise RuntimeError("no weights on purpose")

    def execute(self, requests: list[object]) -> list[object]:
        """Never called."""
        return []
