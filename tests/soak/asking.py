"""What a client of the soak sends and receives, whichever protocol carries it; and what is wrong with an answer."""

import time
import typing
from dataclasses import dataclass

from tests.soak import repository


@dataclass(frozen=True)
class Place:
    """The place of a request in a sequence."""

    key: int | str
    start: bool
    end: bool


@dataclass(frozen=True)
class Question:
    """A request: an array of one row.

    Attributes:
        model: which is asked.
        values: the row.
        place: of a request of a sequence.
        since: when the request before it was sent (monotonic): the machine may be so busy that a sequence is idle for too long.
    """

    model: str
    values: list[float]
    place: Place | None = None
    since: float = 0.0


@dataclass(frozen=True)
class Told:
    """What came of a request.

    Attributes:
        responses: the row of each response.
        error: what the server says went wrong; nothing where all is well.
        unavailable: whether it says that another try may succeed; None where the protocol does not tell.
    """

    responses: list[list[float]]
    error: str = ""
    unavailable: bool | None = False


class Client(typing.Protocol):
    """One client. After any exception and after a request that was given up it connects again."""

    async def ask(self, question: Question, *, leave_after_s: float | None = None) -> Told | None:
        """Sends a request and gives the answer; None for a client that left before it came.

        Raises:
            ConnectionBrokenError: it will not come.
        """
        ...

    async def close(self) -> None:
        """Ends its connection in good order."""
        ...


class ConnectionBrokenError(Exception):
    """The connection was lost."""


REFUSED = "refused"


def judged(question: Question, wanted: list[float], told: Told) -> tuple[str, str]:
    """The outcome of a request that was answered, in one word, and what is wrong with it."""
    model = question.model
    if told.error:
        return _judged_error(question, told)
    expected = [wanted] * (repository.STREAMED if model == repository.STREAM else 1)
    if told.responses == expected:
        return "answered", ""
    found = told.responses
    short = [each[:4] for each in found[:6]]
    sizes = [len(each) for each in found[:6]]
    return (
        "wrong",
        f"asked for {wanted[:4]}, got {short} of {sizes} values in {len(found)} responses",
    )


def _judged_error(question: Question, told: Told) -> tuple[str, str]:
    model, error = question.model, told.error
    if (
        "it had no request for more than" in error
        and question.since
        and time.monotonic() - question.since >= repository.IDLE_S
    ):
        return REFUSED, ""
    if model not in repository.KILLED:
        return "failed", f"failed: {error}"
    if "worker process" not in error:
        return "failed", f"an error that does not say why: {error}"
    goes_on = question.place is not None and not question.place.start
    if not told.unavailable and told.unavailable is not None and not goes_on:
        return "failed", f"not an error of a server that is unavailable: {error}"
    return REFUSED, ""
