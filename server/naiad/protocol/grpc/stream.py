"""ModelStreamInfer: many requests on one stream, any models, any number of responses to each (rows 10.26-10.34).

Responses of models that are not decoupled leave in the order of their requests; those of decoupled ones as they come. An error is a
message and leaves the stream as it is, unless the client asked for a status when the stream began (row 10.28). What a client does
not read stays bounded: decoupled models are held (`core/flow.py`), and no further request is read.
"""

import collections
import collections.abc
import functools
import typing

import msgspec

from naiad.core.flow import Flow
from naiad.core.inference import Cancellable
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.engine.api import Engine
from naiad.errors import InferenceError, unavailable
from naiad.protocol.codec.packed_strings import check
from naiad.protocol.codec.pool import Codec
from naiad.protocol.grpc.call import Call, RpcStatus, StreamWriter, bug_error, rpc_status
from naiad.protocol.grpc.codec import response_proto
from naiad.protocol.grpc.codec.large_messages import (
    MAYBE_LARGE,
    LargeRequest,
    decode,
    needs_process,
)
from naiad.protocol.grpc.codec.request_proto import RequestReader, wants_empty_final
from naiad.protocol.grpc.forwarding import HeaderForwarding
from naiad.protocol.offload import OffloadedCall
from naiad.protocol.raw_tensors import unchecked

T = typing.TypeVar("T")

STATUS_WANTED = ("triton_grpc_error", "true")
"""The metadata of a stream that shall end with the status of its first error (row 10.28)."""

MOST_IN_FLIGHT = 4096
"""Requests of one stream that wait for their responses; the next is not read until one has its last."""


_TOO_SLOW = unavailable(
    "this client does not read what it is sent: its stream is cut off. Read responses as they come, or ask for fewer at a time"
)


class StreamInfer:
    """The method; a `call.Streaming`.

    Args:
        engine: answers.
        forwarding: which metadata become request parameters; None when none do.
        shut: what a request is told when the server takes no more of them.
        codec: decodes what is large; without it the loop does.
    """

    def __init__(
        self,
        engine: Engine,
        forwarding: HeaderForwarding | None,
        *,
        shut: InferenceError,
        codec: Codec | None = None,
    ) -> None:
        self._codec = codec
        self._engine = engine
        self._forwarding = forwarding
        self._reader = RequestReader()
        self._shut_error = shut
        self._is_shut = False
        self._live = set[InferStream]()

    def __call__(self, call: Call, writer: StreamWriter) -> "InferStream":
        """Begin a stream."""
        stream = InferStream(
            self._engine,
            self._reader,
            call,
            writer,
            forwarding=self._forwarding,
            codec=self._codec,
            on_end=self._live.discard,
        )
        self._live.add(stream)
        if self._is_shut:
            stream.shut(self._shut_error)
        return stream

    def shut(self) -> None:
        """Take no more requests (row 10.34); streams end once what is in flight has its responses."""
        self._is_shut = True
        for stream in tuple(self._live):
            stream.shut(self._shut_error)


class _Asked(msgspec.Struct, eq=False):
    """A request of a stream.

    Attributes:
        id: the client's own name for it.
        inference: the handle on it, once the engine has taken it; before that, on its decoding.
        flow: holds its model; None when it answers once.
        ordered: its responses wait for those of the requests before it.
        empty_final: the client wants an empty final response too.
        messages: what waits for its turn; None when nothing does.
        done: it has its last response.
    """

    id: str = ""
    inference: Cancellable | None = None
    flow: Flow | None = None
    ordered: bool = True
    empty_final: bool = False
    messages: list[bytes] | None = None
    done: bool = False


class InferStream:
    """One stream; a `call.StreamHandler`.

    Args:
        engine: answers.
        reader: reads requests.
        call: for its metadata.
        writer: writes the responses.
        forwarding: as in `StreamInfer`.
        codec: as in `StreamInfer`.
        on_end: told with this stream once it is over.
    """

    def __init__(
        self,
        engine: Engine,
        reader: RequestReader,
        call: Call,
        writer: StreamWriter,
        *,
        forwarding: HeaderForwarding | None,
        codec: Codec | None,
        on_end: "collections.abc.Callable[[InferStream], None]",
    ) -> None:
        self._codec = codec
        self._engine = engine
        self._reader = reader
        self._call = call
        self._writer = writer
        self._forwarding = forwarding
        self._on_end = on_end
        self._wants_status = STATUS_WANTED in (call.invocation_metadata() or ())
        self._in_flight = set[_Asked]()
        self._order = collections.deque[_Asked]()
        self._held = False
        self._half_closed = False
        self._shut: InferenceError | None = None
        self._over = False
        self._decoding = False

    def take(self, body: bytes) -> None:
        """See `StreamHandler`."""
        if self._over:
            return
        asked = _Asked()
        self._in_flight.add(asked)
        codec = self._codec if len(body) > MAYBE_LARGE else None
        try:
            if codec is not None and needs_process(body):
                work = functools.partial(decode, codec, body)
                self._offload(codec, asked, work, functools.partial(self._decoded, asked))
                return
            request = self._read(body, asked)
            if codec is not None and unchecked(request.inputs):
                check_it = functools.partial(check, codec, request)
                self._offload(codec, asked, check_it, functools.partial(self._ask, asked))
                return
            self._ask(asked, request)
        except InferenceError as error:
            self._refuse(asked, error)
        except Exception as error:  # noqa: BLE001 - the client waits for a response
            self._refuse(asked, bug_error(error, "ModelStreamInfer"))

    def _offload(
        self,
        codec: Codec,
        asked: _Asked,
        work: collections.abc.Callable[[], T],
        proceed: collections.abc.Callable[[T], None],
    ) -> None:
        """Have a codec process do what takes long. The next request is not read before, so that requests keep their order."""

        def resume(result: T) -> None:
            self._decoding, asked.inference = False, None
            self._writer.capacity()
            proceed(result)

        def fail(error: InferenceError) -> None:
            if self._decoding:
                self._decoding, asked.inference = False, None
                self._writer.capacity()
            self._refuse(asked, error)

        asked.inference = OffloadedCall(codec, work, proceed=resume, fail=fail)
        self._decoding = True  # not before: a codec that is closed raises

    def _decoded(self, asked: _Asked, found: LargeRequest) -> None:
        """Go on with a message that a codec process has read."""
        asked.id = found.id
        found.raise_if_unread()
        self._admit(asked, found.model_name, found.model_version)
        asked.empty_final = found.empty_final
        self._ask(asked, found.taken())

    def _ask(self, asked: _Asked, request: InferRequest) -> None:
        if self._forwarding is not None:
            metadata = self._call.invocation_metadata() or ()
            request.parameters.update(self._forwarding.parameters(metadata))
        on_response = functools.partial(self._on_response, asked)
        inference = self._engine.infer(request, on_response, asked.flow)
        if not asked.done:
            asked.inference = inference

    def half_close(self) -> None:
        """See `StreamHandler`."""
        self._half_closed = True
        self._end_if_done()

    def pause(self) -> None:
        """See `StreamHandler`."""
        self._held = True
        for asked in self._in_flight:
            if asked.flow is not None:
                asked.flow.pause()

    def resume(self) -> None:
        """See `StreamHandler`."""
        self._held = False
        for asked in self._in_flight:
            if asked.flow is not None:
                asked.flow.resume()

    def may_take(self) -> bool:
        """See `StreamHandler`."""
        return not (self._held or self._decoding) and len(self._in_flight) < MOST_IN_FLIGHT

    def cancel(self) -> None:
        """See `StreamHandler`; what is in flight is cancelled (row 10.33)."""
        if not self._over:
            self._over = True
            self._on_end(self)
        in_flight = tuple(self._in_flight)
        self._in_flight.clear()
        self._order.clear()
        for asked in in_flight:
            # Let go of as well: it holds the callback that holds `asked`.
            inference, asked.inference = asked.inference, None
            if inference is not None:
                inference.cancel()

    def shut(self, error: InferenceError) -> None:
        """Take no more requests."""
        self._shut = error
        self._end_if_done()

    def _read(self, body: bytes, asked: _Asked) -> InferRequest:
        """The request of a message; what is known of it stands in `asked` even if it fails.

        Raises:
            InferenceError: it cannot be read, or its model is not there.
        """
        try:
            incoming = self._reader.read(body)
        except InferenceError:
            asked.id = self._reader.id_of(body)
            raise
        asked.id = incoming.id
        self._admit(asked, incoming.model_name, incoming.model_version)
        request = self._reader.request(incoming)
        asked.empty_final = wants_empty_final(incoming)
        return request

    def _admit(self, asked: _Asked, model_name: str, model_version: int) -> None:
        """Raises InferenceError: the stream takes no more requests, or there is no such model."""
        if self._shut is not None:
            self._order.append(asked)
            raise self._shut
        try:
            decoupled = self._engine.traits_of(model_name, model_version).decoupled
        except InferenceError:
            self._order.append(asked)
            raise
        if decoupled:
            asked.ordered = False
            asked.flow = Flow()
            if self._held:
                asked.flow.pause()
        else:
            self._order.append(asked)

    def _on_response(self, asked: _Asked, response: InferResponse) -> None:
        """Called back by the engine. Must not raise into it: others' answers may follow in the same turn."""
        if self._over:
            return
        error = response.error
        message = b""
        if error is None and (asked.empty_final or not response.empty):
            try:
                message = response_proto.encode_streamed(response)
            except InferenceError as failure:
                error = failure
            except Exception as failure:  # noqa: BLE001 - as above
                error = bug_error(failure, "encoding the response")
        if error is not None:
            if self._wants_status:
                self._end(rpc_status(error))
                return
            # An error before the engine has taken the request is not the model's.
            of_model = response if asked.inference is not None else None
            message = response_proto.encode_streamed_error(error.message, asked.id, of_model)
        self._give(asked, message, final=response.final)
        if asked.flow is not None and asked.flow.overran() and not self._over:
            self._end(rpc_status(_TOO_SLOW))

    def _refuse(self, asked: _Asked, error: InferenceError) -> None:
        """A request that cannot be run."""
        if asked.ordered and asked not in self._order:
            self._order.append(asked)
        if self._wants_status:
            self._end(rpc_status(error))
            return
        message = response_proto.encode_streamed_error(error.message, asked.id)
        self._give(asked, message, final=True)

    def _give(self, asked: _Asked, message: bytes, *, final: bool) -> None:
        """Send a message, or keep it until those of earlier requests are out (row 10.31)."""
        in_flight = self._in_flight
        if final:
            asked.done = True
            asked.inference = None
            was_full = len(in_flight) >= MOST_IN_FLIGHT
            in_flight.discard(asked)
            if was_full:
                self._writer.capacity()
        if message:
            if not asked.ordered or self._order[0] is asked:
                self._writer.send(message)
            elif asked.messages is None:
                asked.messages = [message]
            else:
                asked.messages.append(message)
        if final:
            if asked.ordered and self._order[0] is asked:
                self._next_in_order()
            if not in_flight:
                self._end_if_done()

    def _next_in_order(self) -> None:
        """The first request has its last response: send what waited for that."""
        order = self._order
        order.popleft()
        while order:
            first = order[0]
            messages, first.messages = first.messages, None
            for message in messages or ():
                self._writer.send(message)
            if not first.done:
                return
            order.popleft()

    def _end_if_done(self) -> None:
        if self._in_flight or self._over:
            return
        if self._half_closed:
            self._end(None)
        elif self._shut is not None:
            self._end(rpc_status(self._shut))

    def _end(self, refused: RpcStatus | None) -> None:
        """The stream is over; what is still in flight is not wanted any more."""
        self.cancel()
        self._writer.end(refused)
