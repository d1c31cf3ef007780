"""One piece of work on another thread, between two callbacks on the loop: (de)compression of large bodies, and waiting for a codec process.

The request's reply is still given exactly once, also when the work fails, when what follows it raises, and when the client
leaves while the work is done.
"""

import asyncio
import collections.abc
import logging
import typing

from naiad.core.inference import Inference
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.access_log import inference_of
from naiad.protocol.codec.pool import Codec
from naiad.protocol.http.message import Cancellable, OnReply
from naiad.protocol.http.replies import error_reply, server_fault

log = logging.getLogger(__name__)

T = typing.TypeVar("T")

_LEFT = InferenceError(ErrorCode.CANCELLED, "the client left before its request was read")


class Offloaded(typing.Generic[T]):
    """Work under way; `cancel` it when the client is gone.

    Args:
        work: done on a thread; may raise InferenceError.
        proceed: called on the loop with its result, and must see to it that the client is answered; what it returns is cancelled in
            this one's stead. When it raises, it has not answered.
        on_reply: told of failures.
    """

    __slots__ = ("_cancelled", "_next", "_on_reply", "_proceed", "_work")

    def __init__(
        self,
        work: collections.abc.Callable[[], T],
        proceed: collections.abc.Callable[[T], Cancellable | None],
        on_reply: OnReply,
    ) -> None:
        self._work = work
        self._proceed = proceed
        self._on_reply = on_reply
        self._next: Cancellable | None = None
        self._cancelled = False

    def start(self, codec: Codec | None = None) -> "Offloaded[T]":
        """Hand the work to a thread: of the codec, if it calls that, else of the running loop's executor. Once."""
        if codec is None:
            done = asyncio.get_running_loop().run_in_executor(None, self._work)
        else:
            done = codec.submit(self._work)
        done.add_done_callback(self._done)
        return self

    @property
    def inference(self) -> Inference | None:
        """What was asked of a model, once that was done."""
        return inference_of(self._next)

    def cancel(self) -> None:
        """The client is gone: what follows the work will not be begun."""
        self._cancelled = True
        if self._next is not None:
            self._next.cancel()

    def _done(self, work: "asyncio.Future[T]") -> None:
        try:
            result = work.result()
            if self._cancelled:
                self._on_reply(error_reply(_LEFT))
            else:
                self._next = self._proceed(result)
        except asyncio.CancelledError:
            self._on_reply(error_reply(_LEFT))
        except InferenceError as error:
            # Bare: the traceback holds this frame, and with it `work`, which holds the error: a cycle around the whole body.
            self._on_reply(error_reply(error.bare()))
        except Exception:  # a bug of ours must not leave the client without an answer
            log.exception("a request could not be answered")
            self._on_reply(server_fault())
