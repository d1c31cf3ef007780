"""How long batches take on instances of one kind. Pure."""

_WEIGHT = 8
"""A batch has a weight of one eighth in the average."""


class BatchTimes:
    """A moving average.

    Attributes:
        batch_ns: of the recent batches; 0 before the first one.
    """

    __slots__ = ("batch_ns",)

    def __init__(self) -> None:
        self.batch_ns = 0

    def record(self, duration_ns: int) -> None:
        """A batch took this long."""
        before = self.batch_ns
        self.batch_ns = before + (duration_ns - before) // _WEIGHT if before else duration_ns
