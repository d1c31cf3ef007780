"""ModelStreamInfer: many requests on one stream, any models, any number of responses to each (rows 10.26-10.34).

Responses of models that are not decoupled are sent in the order of their requests; those of decoupled models as they come. An error is a
message and the stream continues, unless the client requested a status when the stream began (row 10.28). What a client does
not read stays bounded: decoupled models are paused (`core/flow.py`), and no further request is read.
"""

import collections.abc
import functools
import itertools
import typing

import msgspec

from naiad.core.flow import Flow
from naiad.core.inference import Cancellable, RequestContext
from naiad.core.request import SEQUENCE_END, SEQUENCE_START, InferRequest
from naiad.core.response import InferResponse
from naiad.engine.api import Engine, Infers, ServedModel
from naiad.errors import InferenceError, unavailable
from naiad.protocol import regions
from naiad.protocol.codec.packed_strings import check
from naiad.protocol.codec.pool import Codec
from naiad.protocol.grpc.access_log import header_of
from naiad.protocol.grpc.call import (
    LongMessage,
    RpcCall,
    RpcStatus,
    StreamWriter,
    as_inference_error,
    rpc_status,
)
from naiad.protocol.grpc.codec import response_proto
from naiad.protocol.grpc.codec.large_messages import (
    MAYBE_LARGE,
    LargeRequest,
    decode,
    needs_process,
)
from naiad.protocol.grpc.codec.request_parameters import forward_metadata
from naiad.protocol.grpc.codec.request_proto import Incoming, RequestReader
from naiad.protocol.header_pattern import HeaderPattern
from naiad.protocol.observer import HeaderLookup, Observer
from naiad.protocol.offload import OffloadedCall
from naiad.protocol.raw_tensors import unchecked

T = typing.TypeVar("T")

STATUS_WANTED = ("triton_grpc_error", "true")
"""The metadata of a stream that is to end with the status of its first error (row 10.28)."""

MAX_IN_FLIGHT = 4096
"""Requests of one stream that wait for their responses; the next is not read until one has its last."""

MAX_SEQUENCES = 4096
"""The sequences of a stream that end with it; of more, those that began first end by their idle time."""


_TOO_SLOW = unavailable(
    "this client does not read what it is sent: its stream is cut off. Read responses as they come, or ask for fewer at a time"
)


class StreamInfer:
    """The method; a `call.Streaming`.

    Args:
        shut: the error of a request once the server takes no more.

    Attributes:
        live: the streams that have not ended.
        observer: gives each request of a stream its context; None for none.
    """

    def __init__(
        self,
        engine: Engine,
        forwarding: HeaderPattern | None,
        *,
        shut: InferenceError,
        codec: Codec | None = None,
    ) -> None:
        self.engine = engine
        self.forwarding = forwarding
        self.codec = codec
        self.reader = RequestReader()
        self.live = set[InferStream]()
        self.is_shut = False
        self.shut_error = shut
        self.observer: Observer | None = None

    def __call__(self, call: RpcCall, writer: StreamWriter) -> "InferStream":
        """Begin a stream."""
        stream = InferStream(self, call, writer)
        self.live.add(stream)
        stream.end_if_done()
        return stream

    def shut(self) -> None:
        """Take no more requests (row 10.34); streams end once what is in flight has its responses."""
        self.is_shut = True
        for stream in tuple(self.live):
            stream.end_if_done()


class _PendingRequest(msgspec.Struct, eq=False):
    """A request of a stream.

    Attributes:
        work: the inference, once the engine has taken the request; before that, its decoding.
        flow: pauses its model; None for a model with one response.
        ordered: its responses wait for those of the requests before it.
        empty_final: the client wants an empty final response too.
        context: see `Observer`; None without one.
        messages: those that wait for the responses to earlier requests; None if there are none.
    """

    id: str = ""
    work: Cancellable | None = None
    flow: Flow | None = None
    ordered: bool = True
    empty_final: bool = False
    context: RequestContext | None = None
    messages: list[bytes | LongMessage] | None = None
    done: bool = False


class InferStream:
    """One stream; a `call.StreamHandler`."""

    def __init__(self, method: StreamInfer, call: RpcCall, writer: StreamWriter) -> None:
        self._method = method
        self._call = call
        self._writer = writer
        self._wants_status = STATUS_WANTED in (call.invocation_metadata() or ())
        self._in_flight = set[_PendingRequest]()
        self._order: list[
            _PendingRequest
        ] = []  # not a deque, whose 700 bytes each idle stream would have
        self._held = False
        self._half_closed = False
        self._ended = False
        self._decoding = False
        self._sequences: dict[tuple[str, int, int | str], None] = {}

    @functools.cached_property
    def _header(self) -> HeaderLookup:
        return functools.cache(functools.partial(header_of, self._call))

    def take(self, body: bytes | memoryview) -> None:
        """See `StreamHandler`."""
        if self._ended:
            return
        pending = _PendingRequest()
        self._in_flight.add(pending)
        observer = self._method.observer
        if observer is not None and observer.follows(self._header):
            pending.context = observer.begin(self._header, observer.now_ns(), len(body))
        codec = self._method.codec if len(body) > MAYBE_LARGE else None
        try:
            if codec is not None and needs_process(body):
                work = functools.partial(decode, codec, body)
                self._offload(codec, pending, work, functools.partial(self._decoded, pending))
                return
            incoming = self._read(body, pending)
            model = self._admit(pending, incoming)
            request = incoming.request()
            pending.empty_final = incoming.empty_final
            if codec is not None and unchecked(request.inputs):
                check_it = functools.partial(check, codec, request)
                infer = functools.partial(self._infer, self._method.engine, pending)
                self._offload(codec, pending, check_it, infer)
                return
            self._infer(model, pending, request)
        except Exception as error:  # noqa: BLE001 - the client waits for a response
            self._refuse(pending, as_inference_error(error, "ModelStreamInfer"))

    def _offload(
        self,
        codec: Codec | None,
        pending: _PendingRequest,
        work: collections.abc.Callable[[], T],
        proceed: collections.abc.Callable[[T], object],
    ) -> None:
        """Do slow work on a thread, or in a codec process. The next request is read after that, so that requests keep their order."""

        def read_on() -> None:
            if self._decoding:
                self._decoding, pending.work = False, None
                self._writer.capacity()

        def resume(result: T) -> None:
            read_on()
            proceed(result)

        def fail(error: InferenceError) -> None:
            read_on()
            self._refuse(pending, error)

        pending.work = OffloadedCall(codec, work, proceed=resume, fail=fail)
        self._decoding = True  # not before: a codec that is closed raises

    def _decoded(self, pending: _PendingRequest, decoded: LargeRequest) -> None:
        """Continue with a message that a codec process has decoded."""
        pending.id = decoded.id
        decoded.raise_if_unread()
        model = self._admit(pending, decoded)
        pending.empty_final = decoded.empty_final
        self._infer(model, pending, decoded.request())

    def _infer(self, model: Infers, pending: _PendingRequest, request: InferRequest) -> None:
        if request.in_regions:
            self._bring(pending, request)
            return
        forwarding = self._method.forwarding
        if forwarding is not None:
            forward_metadata(self._call.invocation_metadata(), forwarding, request.parameters)
        on_response = functools.partial(self._on_response, pending)
        inference = model.infer(request, on_response, pending.flow, pending.context)
        if request.correlation_id and inference is not None:  # it was not refused
            self._note_sequence(request)
        if not pending.done:
            pending.work = inference

    def _bring(self, pending: _PendingRequest, request: InferRequest) -> None:
        """Continue with a request whose tensors are in clients' shared memory."""
        engine, codec = self._method.engine, self._method.codec

        def offload(work: regions.Work, proceed: regions.Proceed) -> None:
            self._offload(codec, pending, work, proceed)

        def proceed(brought: InferRequest) -> None:
            self._infer(engine, pending, brought)

        regions.bring(engine, codec, request, proceed, offload)

    def _note_sequence(self, request: InferRequest) -> None:
        """Keep the sequences that this stream has begun and not ended: they end with it if its client is gone."""
        key = request.model_name, request.model_version, request.correlation_id
        sequences = self._sequences
        if request.flags & SEQUENCE_END:
            sequences.pop(key, None)
        elif request.flags & SEQUENCE_START:
            sequences[key] = None
            if len(sequences) > MAX_SEQUENCES:
                del sequences[next(iter(sequences))]

    def half_close(self) -> None:
        """See `StreamHandler`."""
        self._half_closed = True
        self.end_if_done()

    def pause(self) -> None:
        """See `StreamHandler`."""
        self._held = True
        for pending in self._in_flight:
            if pending.flow is not None:
                pending.flow.pause()

    def resume(self) -> None:
        """See `StreamHandler`."""
        self._held = False
        for pending in self._in_flight:
            if pending.flow is not None:
                pending.flow.resume()

    def may_take(self) -> bool:
        """See `StreamHandler`."""
        return not (self._held or self._decoding) and len(self._in_flight) < MAX_IN_FLIGHT

    def has_sequences(self) -> bool:
        """See `StreamHandler`."""
        return bool(self._sequences)

    def cancel(self) -> None:
        """See `StreamHandler`; requests in flight are cancelled (row 10.33)."""
        if not self._ended:
            self._ended = True
            self._method.live.discard(self)
        in_flight = tuple(self._in_flight)
        self._in_flight.clear()
        self._order.clear()
        for pending in in_flight:
            # Dropped as well: it holds the callback that holds `pending`.
            work, pending.work = pending.work, None
            if work is not None:
                work.cancel()
            context, pending.context = pending.context, None
            if context is not None:
                context.finish()
        sequences, self._sequences = self._sequences, {}
        for name, version, correlation_id in sequences:
            self._method.engine.end_sequence(name, version, correlation_id)

    def _read(self, body: bytes | memoryview, pending: _PendingRequest) -> Incoming:
        """Read the model that a message is for; `pending` gets its id, even if the rest cannot be read."""
        reader = self._method.reader
        try:
            incoming = reader.read(body)
        except InferenceError:
            pending.id = reader.id_of(body)
            raise
        pending.id = incoming.id
        return incoming

    def _admit(self, pending: _PendingRequest, incoming: Incoming | LargeRequest) -> ServedModel:
        """Look up the model, which decides the order of the responses.

        Raises:
            InferenceError: it does not serve, or the stream takes no more requests.
        """
        method = self._method
        try:
            if method.is_shut:
                raise method.shut_error
            model = method.engine.look_up(incoming.model_name, incoming.model_version)
        except InferenceError:
            self._order.append(pending)
            raise
        if pending.context is not None:
            pending.context.asks(incoming.model_name)
        elif method.engine.tracer.active:
            method.engine.tracer.passed(incoming.model_name)
        if model.traits.decoupled:
            pending.ordered = False
            pending.flow = Flow()
            if self._held:
                pending.flow.pause()
        else:
            self._order.append(pending)
        return model

    def _on_response(self, pending: _PendingRequest, response: InferResponse) -> None:
        """The engine's callback. It must not raise: responses to other requests may follow in the same call."""
        if self._ended:
            return
        error = response.error
        message: bytes | LongMessage = b""
        if error is None and (pending.empty_final or not response.empty):
            try:
                message = response_proto.encode_streamed(response)
            except Exception as failure:  # noqa: BLE001 - as above
                error = as_inference_error(failure, "encoding the response")
        if error is not None:
            if self._wants_status:
                self._end(rpc_status(error))
                return
            # An error before the engine has taken the request is not an error of the model.
            of_model = response if pending.work is not None else None
            message = response_proto.encode_streamed_error(error.message, pending.id, of_model)
        self._send_recorded(pending, message, final=response.final)
        if pending.flow is not None and pending.flow.overran() and not self._ended:
            self._end(rpc_status(_TOO_SLOW))

    def _refuse(self, pending: _PendingRequest, error: InferenceError) -> None:
        """Respond to a request that cannot be run."""
        if pending.ordered and pending not in self._order:
            self._order.append(pending)
        if self._wants_status:
            self._end(rpc_status(error))
            return
        message = response_proto.encode_streamed_error(error.message, pending.id)
        self._send_recorded(pending, message, final=True)

    def _send_recorded(
        self, pending: _PendingRequest, message: bytes | LongMessage, *, final: bool
    ) -> None:
        """As `_send`; what follows the request learns when its first response began to be sent, and when its last one was."""
        context, observer = pending.context, self._method.observer
        if context is None or observer is None:
            self._send(pending, message, final=final)
            return
        context.send_ns = context.send_ns or observer.now_ns()
        self._send(pending, message, final=final)
        if final:
            pending.context = None
            context.sent_ns = observer.now_ns()
            context.finish()

    def _send(self, pending: _PendingRequest, message: bytes | LongMessage, *, final: bool) -> None:
        """Send a message, or keep it until those of earlier requests are sent (row 10.31)."""
        in_flight = self._in_flight
        if final:
            pending.done = True
            pending.work = None
            was_full = len(in_flight) >= MAX_IN_FLIGHT
            in_flight.discard(pending)
            if was_full:
                self._writer.capacity()
        if message:
            if not pending.ordered or self._order[0] is pending:
                self._writer.send(message)
            elif pending.messages is None:
                pending.messages = [message]
            else:
                pending.messages.append(message)
        if final:
            if pending.ordered and self._order[0] is pending:
                self._next_in_order()
            if not in_flight:
                self.end_if_done()

    def _next_in_order(self) -> None:
        """The first request has its last response: send what waited for that."""
        order = self._order
        done = 1
        for following in itertools.islice(order, 1, None):
            messages, following.messages = following.messages, None
            for message in messages or ():
                self._writer.send(message)
            if not following.done:
                break
            done += 1
        del order[:done]

    def end_if_done(self) -> None:
        """End the stream if no request is in flight and none can follow."""
        if self._in_flight or self._ended:
            return
        if self._half_closed:
            self._end(None)
        elif self._method.is_shut:
            self._end(rpc_status(self._method.shut_error))

    def _end(self, refused: RpcStatus | None) -> None:
        """End the stream and cancel the requests in flight. Its client may continue sequences on another stream."""
        self._sequences.clear()
        self.cancel()
        self._writer.end(refused)
