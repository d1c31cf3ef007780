"""The parts of a benchmark, measured one after the other. The whole takes an hour: a part that fails is measured once more, and does not take the others along."""

import collections.abc
import sys

from benchmarks.load import LoadError
from tests.reference.process import ServerFailedError

_ATTEMPTS = 2
"""The reference aborts now and then when it starts, and a busy machine may answer nothing for a second, so that a ratio has no value."""

Texts = dict[str, str]
"""Tables as Markdown, by the marker of their place in the document."""


class Parts:
    """What was measured, and what could not be.

    Attributes:
        texts: of the parts that were measured.
        failed: the names of the others, with the last error of each.
    """

    def __init__(self) -> None:
        self.texts: Texts = {}
        self.failed: dict[str, str] = {}

    def measure(self, name: str, part: collections.abc.Callable[[], Texts]) -> None:
        """Measure a part; `name` is for messages."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self.texts |= part()
            except (LoadError, ServerFailedError, ZeroDivisionError) as error:
                print(f"bench: {name}, attempt {attempt}: {error}", file=sys.stderr, flush=True)
                self.failed[name] = str(error)
            else:
                self.failed.pop(name, None)
                return

    def check(self) -> None:
        """Fail if a part could not be measured.

        Raises:
            LoadError: it names them.
        """
        if self.failed:
            names = ", ".join(self.failed)
            raise LoadError(
                f"not measured, because each attempt failed: {names}; the errors are above. Run it again, with less other work on this machine"
            )
