"""What a worker hears about the requests that it has: cancelled, and hold back or go on with responses."""

import collections.abc
import functools

from naiad.core.inference import Inference
from naiad.hosts.in_flight import InFlight
from naiad.hosts.worker import link


class RequestSignals:
    """Of one host. All of it is on the event loop.

    Args:
        in_flight: the requests that the worker has.
        post: sends a message's kind and a request's number to the worker, if there is one.
    """

    __slots__ = ("_in_flight", "_post")

    def __init__(
        self, in_flight: InFlight, post: collections.abc.Callable[[int, int], None]
    ) -> None:
        self._in_flight = in_flight
        self._post = post

    def watch(self, batch: list[Inference]) -> None:
        """From now on, let the worker know of these."""
        on_cancel = self.cancelled
        for inference in batch:
            inference.on_cancel = on_cancel
            if inference.flow is not None:
                inference.flow.watch(functools.partial(self._held, inference))

    def cancelled(self, inference: Inference) -> None:
        """Its client left: the model may ask."""
        self._send(link.CANCEL, inference)

    def _held(self, inference: Inference, held: bool) -> None:  # noqa: FBT001  as flows call it
        """Its client does not take what is sent to it, or does again: the model waits as long."""
        self._send(link.PAUSE if held else link.RESUME, inference)

    def _send(self, kind: int, inference: Inference) -> None:
        number = self._in_flight.number_of(inference)
        if number is not None:
            self._post(kind, number)
