"""What passes between a gRPC transport and a method: request bytes and a call in, one answer out, by callback.

A transport (`aio.py` today) knows HTTP/2, framing, deadlines and compression and nothing of inference; a method knows
inference and nothing of transports. A deadline is the transport's matter: when it passes, or when the client leaves, the
transport cancels the handle that the method gave it (row 10.24), so no method looks at the time.
"""

import asyncio
import collections.abc
import logging
import typing

import msgspec

from naiad.errors import InferenceError, internal
from naiad.protocol.status import grpc_status

Metadata = collections.abc.Iterable[tuple[str, str | bytes]]
"""Keys in lower case; the value of a key that ends in -bin is bytes. A key may come several times."""


class Call(typing.Protocol):
    """What a method may ask about its call."""

    def invocation_metadata(self) -> Metadata | None:
        """The metadata that the client sent. Asked only by those that need it: it costs a transport work."""
        ...

    def peer(self) -> str:
        """The client's address behind its family, such as "ipv4:10.0.0.9:1"; "" when it is not known."""
        ...


class Refusal(msgspec.Struct, frozen=True):
    """An answer that is not OK.

    Attributes:
        status: the number of the gRPC status, e.g. 3 for INVALID_ARGUMENT.
        message: what goes into grpc-message, short enough for the headers of any client.
    """

    status: int
    message: str


Answer = bytes | Refusal
"""The response message, or why there is none."""

OnAnswer = collections.abc.Callable[[Answer], None]


class Cancellable(typing.Protocol):
    """A handle on work under way."""

    def cancel(self) -> object:
        """The client is gone or its deadline passed. Safe at any time, any number of times."""
        ...


Unary = collections.abc.Callable[[bytes, Call, OnAnswer], Cancellable | None]
"""Called on the loop with a whole request message; calls back exactly once, perhaps before it returns, unless it is cancelled
first. It does not raise."""


class Replies(typing.Protocol):
    """The way back of one stream. Loop only."""

    def send(self, message: bytes) -> None:
        """Send a message, after those before it."""
        ...

    def room(self) -> None:
        """`Conversation.may_take` has become true by itself: a request has its last response, perhaps without a message."""
        ...

    def end(self, refused: Refusal | None) -> None:
        """What was sent is all; not OK when there is a refusal. Nothing is sent after it; a second call does nothing."""
        ...


class Conversation(typing.Protocol):
    """A stream under way, as its transport sees it. Loop only; nothing of it raises."""

    def take(self, body: bytes) -> None:
        """A request message came."""
        ...

    def half_close(self) -> None:
        """The client sends no more."""
        ...

    def hold(self) -> None:
        """The client does not take what is sent to it."""
        ...

    def go_on(self) -> None:
        """It does again."""
        ...

    def cancel(self) -> None:
        """The client is gone, its deadline passed, or the stream has ended. Safe at any time, any number of times."""
        ...

    def may_take(self) -> bool:
        """Whether another request should be read now; asked again after `go_on` and after `Replies.room`."""
        ...


Streaming = collections.abc.Callable[[Call, Replies], Conversation]
"""Called on the loop when a stream begins; may end it at once. It does not raise."""

_LONGEST_MESSAGE = 2048
"""UTF-8 bytes of a message. Percent-encoding can triple them, and clients take 8 KiB of headers by default; with more
they report a header problem in place of the error."""

_log = logging.getLogger(__name__)


def refusal(error: InferenceError) -> Refusal:
    """A failure as a status (row 10.6); an overlong message is cut."""
    return Refusal(grpc_status(error.code), _short(error.message))


def bug(error: Exception, what: str) -> Refusal:
    """The answer when our own code failed: the client must not wait for ever, and the log says where it happened."""
    return refusal(bug_error(error, what))


def bug_error(error: Exception, what: str) -> InferenceError:
    """The same as an error, for a stream that goes on."""
    _log.error("%s failed", what, exc_info=error)
    return internal(f"{what} failed inside the server ({type(error).__name__}); its log says where")


def at_once(run: collections.abc.Callable[[bytes], bytes]) -> Unary:
    """A method out of a function that has its answer at once.

    Args:
        run: request bytes to response bytes; raises InferenceError.
    """

    def unary(body: bytes, call: Call, on_answer: OnAnswer) -> None:
        answer: Answer
        try:
            answer = run(body)
        except InferenceError as error:
            answer = refusal(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            answer = bug(error, f"{run.__name__}()")
        on_answer(answer)

    return unary


def later(
    run: collections.abc.Callable[[bytes], collections.abc.Coroutine[None, None, bytes]],
) -> Unary:
    """A method out of a coroutine function; each call is a task, so this is not for inference.

    Args:
        run: request bytes to response bytes; raises InferenceError.
    """
    under_way = set[asyncio.Task[None]]()  # the loop itself keeps only weak references

    async def carry(body: bytes, on_answer: OnAnswer) -> None:
        answer: Answer
        try:
            answer = await run(body)
        except InferenceError as error:
            answer = refusal(error)
        except Exception as error:  # noqa: BLE001 - as in at_once
            answer = bug(error, f"{run.__name__}()")
        on_answer(answer)

    def unary(body: bytes, call: Call, on_answer: OnAnswer) -> Cancellable:
        task = asyncio.get_running_loop().create_task(carry(body, on_answer))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        return task

    return unary


def _short(message: str) -> str:
    if len(message) <= _LONGEST_MESSAGE // 4:
        return message
    encoded = message.encode("utf-8", "replace")
    if len(encoded) <= _LONGEST_MESSAGE:
        return message
    return encoded[:_LONGEST_MESSAGE].decode("utf-8", "ignore") + " …"
