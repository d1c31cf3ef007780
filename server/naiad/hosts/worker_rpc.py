"""The interface for requests of a model in a worker process to the server: one handler per host, which releases what a worker held."""

import collections.abc
import typing
from typing import Any

from naiad.core.inference import Inference
from naiad.hosts.worker.link import Payload


class Reply(typing.Protocol):
    """Sends a notification to the worker."""

    def __call__(
        self, kind: int, number: int = 0, header: bytes = b"", payload: Payload | None = None
    ) -> None:
        """See `WorkerProcess.notify`."""
        ...


BatchAt = collections.abc.Callable[[int, int], list[Inference] | None]
"""The unfinished part of a batch, by the number of its first request and its size."""


class WorkerRpcHandler(typing.Protocol):
    """Handles the requests of one instance's workers. All methods are called on the event loop."""

    def handle(
        self, number: int, header: bytes | bytearray, base: Any, *, batch_at: BatchAt, reply: Reply
    ) -> None:
        """Handle a request, and reply now or later.

        Args:
            number: the request's number, which the reply repeats.
            header: as in `worker/asking.py`.
            base: the request's segment, owned by the handler.
            batch_at: finds the batch that makes the request.
            reply: sends replies.

        Raises:
            Exception: the request is invalid.
        """
        ...

    def worker_exited(self) -> None:
        """Cancel the calls of the worker that ended, and release its metrics. Another worker may follow."""
        ...


class ClosedRpcHandler:
    """Implements `WorkerRpcHandler` for hosts without a server: a request ends the worker."""

    def handle(
        self, number: int, header: bytes | bytearray, base: Any, *, batch_at: BatchAt, reply: Reply
    ) -> None:
        """Refuse the request."""
        raise ValueError("there is no server")

    def worker_exited(self) -> None:
        """Nothing to release."""
