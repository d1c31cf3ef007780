"""One piece of work that waits for a codec process, between two callbacks on the loop."""

import asyncio
import collections.abc
import logging
import typing

from naiad.core.inference import Inference
from naiad.errors import InferenceError, internal
from naiad.protocol.access_log import inference_of
from naiad.protocol.codec.pool import Codec

_log = logging.getLogger(__name__)

T = typing.TypeVar("T")


class Cancellable(typing.Protocol):
    """A handle on work under way."""

    def cancel(self) -> object:
        """The client is gone. Safe at any time, any number of times."""
        ...


class CodecCall(typing.Generic[T]):
    """Work under way; `cancel` it when the client has gone, which then gets no response.

    Args:
        work: done on a thread of the codec; may raise InferenceError.
        proceed: called on the loop with its result; what it returns is cancelled in this one's stead. May raise InferenceError.
        fail: called on the loop with the error, when one was raised.
    """

    __slots__ = ("_cancelled", "_fail", "_future", "_next", "_proceed")

    def __init__(
        self,
        codec: Codec,
        work: collections.abc.Callable[[], T],
        *,
        proceed: collections.abc.Callable[[T], Cancellable | None],
        fail: collections.abc.Callable[[InferenceError], None],
    ) -> None:
        self._proceed = proceed
        self._fail = fail
        self._next: Cancellable | None = None
        self._cancelled = False
        self._future = codec.submit(work)
        self._future.add_done_callback(self._done)

    @property
    def inference(self) -> Inference | None:
        """What was asked of a model, once that was done."""
        return inference_of(self._next)

    def cancel(self) -> None:
        """See the class."""
        self._cancelled = True
        self._future.cancel()
        if self._next is not None:
            self._next.cancel()

    def _done(self, work: "asyncio.Future[T]") -> None:
        if self._cancelled:
            if not work.cancelled():
                work.exception()  # or asyncio logs that it was never retrieved
            return
        try:
            self._next = self._proceed(work.result())
        except InferenceError as error:
            self._fail(
                error.bare()
            )  # the traceback holds this frame, and with it `work`, which holds the error
        except (asyncio.CancelledError, Exception) as error:  # noqa: BLE001 - whatever it is, a client waits
            _log.exception("a message could not be decoded or encoded")
            self._fail(
                internal(
                    f"the message could not be decoded or encoded ({type(error).__name__}); the server's log says where"
                )
            )
