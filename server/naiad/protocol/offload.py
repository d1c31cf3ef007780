"""Runs work that would keep the event loop for long on a thread, between two callbacks on the loop.

(De)compression of large bodies runs on a thread of the loop's own executor; what waits for a codec process runs on a thread of the codec.
"""

import asyncio
import collections.abc
import logging
import typing

from naiad.core.inference import Cancellable
from naiad.errors import InferenceError, internal, unavailable
from naiad.protocol.codec.pool import Codec

_log = logging.getLogger(__name__)

T = typing.TypeVar("T")


class OffloadedCall(typing.Generic[T]):
    """Work in progress, which begins at once; `cancel` it when the client has gone: then neither callback is called.

    Otherwise one of them is called exactly once, also when the work raises, and `fail` also when `proceed` raises.

    Args:
        codec: its threads run the work, which may then use `Codec.call`; None for the executor of the running loop.
        work: runs on a thread; may raise InferenceError.
        proceed: called on the loop with the result; `cancel` then cancels what it returns. If it raises, it has not
            given a response; it may raise InferenceError.
    """

    __slots__ = ("_cancelled", "_fail", "_future", "_next", "_proceed")

    def __init__(
        self,
        codec: Codec | None,
        work: collections.abc.Callable[[], T],
        *,
        proceed: collections.abc.Callable[[T], Cancellable | None],
        fail: collections.abc.Callable[[InferenceError], None],
    ) -> None:
        self._proceed = proceed
        self._fail = fail
        self._next: Cancellable | None = None
        self._cancelled = False
        if codec is None:
            self._future = asyncio.get_running_loop().run_in_executor(None, work)
        else:
            self._future = codec.submit(work)
        self._future.add_done_callback(self._done)

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
            # Bare: the traceback holds this frame, and with it `work`, which holds the error: a cycle around the whole body.
            self._fail(error.bare())
        except asyncio.CancelledError:  # the executor was shut down before the work began
            self._fail(unavailable("the server is shutting down; send the request to another one"))
        except Exception as error:  # noqa: BLE001 - a bug of ours must not leave the client without a response
            _log.exception("a request failed inside the server")
            self._fail(
                internal(
                    f"the request failed inside the server ({type(error).__name__}); its log says where"
                )
            )
