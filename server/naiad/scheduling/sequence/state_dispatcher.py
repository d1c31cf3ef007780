"""The dispatcher of a model with implicit state: deferred responses pass the scheduler, which takes the next states out of them (row 13.19)."""

import collections.abc

import msgspec
from typing_extensions import override

from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.hosts.host import DeferredResponse
from naiad.scheduling.response_dispatcher import ResponseDispatcher

Advance = collections.abc.Callable[[Inference, InferResponse], InferResponse]


class StateDispatcher(ResponseDispatcher):
    """A `ResponseDispatcher`; the scheduler sets `advance`, which makes of a model's response that of the client."""

    __slots__ = ("advance",)

    advance: Advance

    @override
    def respond(self, deferred: DeferredResponse) -> None:
        response = self.advance(deferred.inference, deferred.response)
        super().respond(msgspec.structs.replace(deferred, response=response))
