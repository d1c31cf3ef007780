"""Who answers what a model in a worker process asks of the server: one desk a host, so that what a worker held goes with it."""

import collections.abc
import typing
from typing import Any

from naiad.core.inference import Inference
from naiad.hosts.worker.link import Parcel


class Tell(typing.Protocol):
    """Posts a message to the worker."""

    def __call__(
        self, kind: int, number: int = 0, header: bytes = b"", parcel: Parcel | None = None
    ) -> None:
        """As `WorkerProcess.post`."""
        ...


BatchAt = collections.abc.Callable[[int, int], list[Inference] | None]
"""What is left of the batch that began with a request's number and had so many."""


class Desk(typing.Protocol):
    """All of it on the event loop."""

    def take(
        self, number: int, header: bytes | bytearray, base: Any, *, batch_at: BatchAt, answer: Tell
    ) -> None:
        """Answer a question, now or later.

        Args:
            number: the question's.
            header: as in `worker/asking.py`.
            base: its segment; the desk's to keep.
            batch_at: whose question it is.
            answer: posts answers.

        Raises:
            Exception: it is no question.
        """
        ...

    def left(self) -> None:
        """The worker is gone: nobody wants its answers, nobody holds its metrics. Another one may come."""
        ...


class ClosedDesk:
    """Implements `Desk` where hosts run without a server behind them: a question ends the worker."""

    def take(
        self, number: int, header: bytes | bytearray, base: Any, *, batch_at: BatchAt, answer: Tell
    ) -> None:
        """Refuse."""
        raise ValueError("there is no server to ask")

    def left(self) -> None:
        """Nobody was there."""
