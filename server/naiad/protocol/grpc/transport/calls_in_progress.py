"""The calls of a gRPC port that have no response yet, and how they are carried over the moment at which the port closes.

grpc.aio takes one call at a time from grpc. When its server stops, grpc cancels the calls that wait to be taken: their clients would get
CANCELLED. So `hold` keeps all responses back for a moment: a client that waits for its response sends no other call, so that soon no call waits
inside grpc. Then the server stops, which sends GOAWAY, and `release` sends the responses: the clients' next calls go to another connection.
"""

import asyncio
import collections.abc
import functools

from naiad.core.inference import Cancellable
from naiad.protocol.grpc.call import Response, as_inference_error, rpc_status
from naiad.protocol.grpc.codec.compression import HERE, decompress
from naiad.protocol.grpc.transport.aio_stream import BidiStream
from naiad.protocol.grpc.transport.message_memory import MessageMemory
from naiad.protocol.transport.frontend import unheard
from naiad.protocol.transport.listener import UNANSWERED

_UNANSWERED = rpc_status(UNANSWERED)

_TICK_S = 0.01
_QUIET_TICKS = 5
"""So many ticks without a new call end `hold`. Ticks, not a time: after a stall of the event loop the calls that waited are taken first."""


class CallsInProgress:
    """The calls, and whether their responses are kept back.

    Attributes:
        waiting: the unary calls without a response, each with the handle on its work.
        arrived: how many calls have come, refused ones included.
        on_arrival: called with each of them.
        given_up: how many of them `give_up` has ended.
        is_held: whether a call that has its response waits for `released` before it ends.
    """

    def __init__(self) -> None:
        self.waiting: dict[asyncio.Future[Response], Cancellable | None] = {}
        self.streams = set[BidiStream]()
        self.memory = MessageMemory()
        self.arrived = 0
        self.on_arrival: collections.abc.Callable[[], None] = unheard
        self.given_up = 0
        self.is_held = False
        self._released = asyncio.Event()

    async def answered(
        self, response: "asyncio.Future[Response]", work: Cancellable | None
    ) -> None:
        """Wait for the response of a unary call; `work` is cancelled with this coroutine.

        That happens when the client has gone, when its deadline has passed, or when the server stops.
        """
        self.waiting[response] = work
        try:
            await response
        except asyncio.CancelledError:
            if work is not None:
                work.cancel()
            raise
        finally:
            del self.waiting[response]

    async def decompressed(self, message: bytes, limit: int) -> Response:
        """See `decompress`; the message of a call that is given up meanwhile gets that error."""
        if len(message) <= HERE:
            return decompress(message, limit)
        loop = asyncio.get_running_loop()
        response: asyncio.Future[Response] = loop.create_future()
        work = loop.run_in_executor(None, decompress, message, limit)
        work.add_done_callback(functools.partial(_pass_on, response))
        await self.answered(response, None)
        return response.result()

    async def hold(self, limit: float) -> None:
        """Keep responses back, and wait until no call arrives; at most `limit` seconds, since a client may send calls without waiting."""
        if not self.arrived:
            return
        self.is_held = True
        self._released.clear()
        loop = asyncio.get_running_loop()
        deadline, arrived, quiet = loop.time() + limit, self.arrived, 0
        while quiet < _QUIET_TICKS and (left := deadline - loop.time()) > 0:
            await asyncio.sleep(min(_TICK_S, left))
            quiet = quiet + 1 if self.arrived == arrived else 0
            arrived = self.arrived

    async def released(self) -> None:
        """Wait until responses are sent again."""
        await self._released.wait()

    def release(self) -> None:
        """Send the responses that were kept back. Idempotent."""
        self.is_held = False
        self._released.set()

    def give_up(self) -> None:
        """End all calls: their clients get UNAVAILABLE, and their work is cancelled."""
        self.release()
        self.given_up += len(self.waiting) + len(self.streams)
        for response_future, work in tuple(self.waiting.items()):
            complete(response_future, _UNANSWERED)
            if work is not None:
                work.cancel()
        for bidi_stream in tuple(self.streams):
            bidi_stream.end(_UNANSWERED)


def complete(response_future: "asyncio.Future[Response]", response: Response) -> None:
    """Give a call its response, unless it was cancelled: then nothing waits for it any more."""
    if not response_future.done():
        response_future.set_result(response)


def _pass_on(response: "asyncio.Future[Response]", work: "asyncio.Future[Response]") -> None:
    """Complete a response with what a thread has done."""
    if work.cancelled():
        complete(response, _UNANSWERED)
    elif isinstance(error := work.exception(), Exception):
        complete(response, rpc_status(as_inference_error(error, "decompression")))
    else:
        complete(response, work.result())
