"""How many functions something calls: what work it is, told without a clock, which a busy machine would change."""

import collections.abc
import contextlib
import sys
import types


class Calls:
    """Counts the calls of functions, of Python and of C, while it is watched."""

    def __init__(self) -> None:
        self.count = 0

    @contextlib.contextmanager
    def watched(self) -> collections.abc.Iterator[None]:
        """The calls in this block, of this thread, count."""
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)

    def perf_counter(self) -> float:
        """The count as a time in seconds, for code that measures with a clock."""
        return self.count

    def _on_event(self, _frame: types.FrameType, event: str, _argument: object) -> None:
        self.count += event in {"call", "c_call"}


def calls_of(function: collections.abc.Callable[[], object]) -> int:
    """How many functions this one calls."""
    calls = Calls()
    with calls.watched():
        function()
    return calls.count
