"""A request of the fast lane between the call of its handler and its response, and the handler's callback."""

import logging
import typing

import msgspec
from typing_extensions import override

from naiad.core.inference import Cancellable, RequestContext
from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.transport.head import RequestHead

_logger = logging.getLogger(__name__)


class Sends(typing.Protocol):
    """Sends the responses of a connection: `response_sender.ResponseSender`."""

    def responded(self, exchange: "Exchange") -> None:
        """The response of a request without a context is ready."""

    def followed(self, exchange: "Exchange", context: RequestContext) -> None:
        """That of one with a context is."""


class Exchange(msgspec.Struct, eq=False):
    """A request of the fast lane whose handler was called and whose response was not sent yet.

    Attributes:
        sender: sends the response; None once the client has gone.
        response: the response, once there is one; it waits here for the responses before it.
        handle: cancels the work in progress, if the handler gave one.
        context: for the engine and the access log; None without such a log, and once it has its entry.
    """

    sender: Sends | None
    head: RequestHead
    context: RequestContext | None
    response: HttpReply | None = None
    handle: Cancellable | None = None

    def reply(self, reply: HttpReply) -> None:
        """The handler's callback. A second response, or one after the client has gone, is dropped."""
        sender = self.sender
        if sender is None or self.response is not None:
            return
        self.response = reply
        # It holds this callback: without a cycle the request ends here, not in the garbage collector. A stream goes on.
        self.handle = reply.stream
        sender.responded(self)

    def refuse(self, reply: HttpReply) -> None:
        """Respond in place of the handler and cancel its work, unless it has responded."""
        if self.response is None:
            handle = self.handle
            self.reply(reply)
            self._cancel(handle)

    def abandon(self) -> HttpReply | None:
        """The client has gone: nothing is sent, and the work is cancelled. Returns the response, if there is one already."""
        response, self.response = self.response, None
        self.sender = None
        if response is None or response.stream is not None:
            self._cancel(self.handle)
        context, self.handle, self.context = self.context, None, None
        if context is not None:
            context.finish()
        return response

    def _cancel(self, handle: Cancellable | None) -> None:
        try:
            if handle is not None:
                handle.cancel()
        except Exception:
            _logger.exception("cancelling %s failed", self.head.path)


class FollowedExchange(Exchange, eq=False):
    """One with a context when its handler is called."""

    @override
    def reply(self, reply: HttpReply) -> None:
        sender = self.sender
        if sender is None or self.response is not None:
            return
        self.response = reply
        self.handle = reply.stream  # as above
        context = self.context
        assert context is not None, "it is kept until the response was sent"
        sender.followed(self, context)
