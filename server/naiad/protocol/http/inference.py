"""One infer route: a whole HTTP request in, the engine called, a whole HTTP reply out. The fast lane's work.

Callbacks all the way: no task, no future, no validation class per request. Only large bodies leave the loop: for a thread while they are
(de)compressed, for a codec process while they are decoded or encoded. The order of checks is row 3.1's: model and decoupled, decompression, header length, JSON.

A decoupled model answers as events if the client accepts them, and 501 if not (row 3.2, design).
"""

import collections.abc
import functools
import logging
import re

import msgspec

from naiad.core.inference import Cancellable, RequestContext
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import UNPACKED
from naiad.engine.api import Engine, Infers, ModelTraits
from naiad.errors import InferenceError, invalid, unsupported
from naiad.protocol import raw_tensors, regions
from naiad.protocol.codec.packed_strings import check
from naiad.protocol.codec.pool import Codec
from naiad.protocol.header_pattern import HeaderPattern
from naiad.protocol.http import known_replies
from naiad.protocol.http.codec import (
    compression,
    large_bodies,
    one_output,
    raw_request,
    reply_json,
    request_parameters,
    typed_json,
)
from naiad.protocol.http.codec.compression import Encoding
from naiad.protocol.http.codec.event_stream import EventStream, takes_events
from naiad.protocol.http.codec.infer_json import Decoded, Target
from naiad.protocol.http.codec.reply_json import ALL_JSON, HEADER_LENGTH, ReplyForm
from naiad.protocol.http.known_replies import Keeping
from naiad.protocol.http.message import Headers, HttpReply, HttpRequest, OnReply
from naiad.protocol.http.replies import error_callback, error_reply, server_fault
from naiad.protocol.offload import OffloadedCall

log = logging.getLogger(__name__)

MAX_INT32 = 2**31 - 1

_NUMBER = re.compile(rb"-?[0-9]+").fullmatch
_DIGITS = 20
"""More are out of range whatever they are; Python refuses to convert thousands."""

_USUAL_DIGITS = 9
"""No more make a number that is in range."""

_IDENTITY = Encoding.IDENTITY  # looking up a member of an enum takes longer

_MAYBE_LARGE = 4 * UNPACKED
"""Bytes of the smallest body that may take long: so many empty strings. What does is found out then."""


LONGEST_KNOWN = 1 << 20
"""Bytes of the longest request whose reply is kept for the same request again. Comparing so many takes a tenth of a millisecond."""


class InferenceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every infer request.

    Attributes:
        max_input_size: bytes (row 1.11).
        forwarded: which headers become request parameters (row 1.17); None means none, and costs nothing.
        codec: decodes and encodes what is large; without it the loop does.
    """

    max_input_size: int
    forwarded: HeaderPattern | None
    codec: Codec | None = None


class InferRoute:
    """The handler of one model version's infer path; there is one a path, made once and used by all requests."""

    __slots__ = ("_engine", "_limits", "_model", "_target", "_version")

    def __init__(
        self, engine: Engine, limits: InferenceLimits, *, model: str, version: int = LATEST
    ) -> None:
        self._engine = engine
        self._limits = limits
        self._model = model
        self._version = version
        self._target = Target(model, version, limits.max_input_size)

    def __call__(self, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
        """Answer a request (a `FastHandler`)."""
        headers = request.headers
        try:
            model = self._engine.look_up(self._model, self._version)
            traits = model.traits
            if traits.decoupled:
                self._require_events(headers)
            context = request.context
            if context is not None:
                if context.lean:
                    context.asked = True
                else:
                    context.asks(self._model)
            elif self._engine.tracer.active:
                self._engine.tracer.passed(self._model)
            if b"content-encoding" in headers:
                return self._unpack(request, traits, model, on_reply)
            shared = request.shared
            if model.replies is not None and self._may_be_known(request):
                content = request.body if shared is None else bytes(shared)
                form = (
                    headers.get(b"inference-header-content-length"),
                    headers.get(b"accept-encoding"),
                )
                known = known_replies.find(model.replies, content, form)
                if known is not None:
                    on_reply(known)
                    return None
                on_reply = Keeping(on_reply, model.replies, content, form)
            body = request.body if shared is None else shared
            return self._run(request, body, traits, model, on_reply)
        except InferenceError as error:
            on_reply(error_reply(error))
        except Exception:  # a bug of ours must not cost other requests their connection
            log.exception("a request for model '%s' could not be answered", self._model)
            on_reply(server_fault())
        return None

    def _may_be_known(self, request: HttpRequest) -> bool:
        """Whether the reply depends on nothing but the body and the two headers that name its form, and nothing reads what its inference did."""
        forwarded = self._limits.forwarded
        body = request.body if request.shared is None else request.shared
        return request.context is None and forwarded is None and len(body) <= LONGEST_KNOWN

    def refusal(self, headers: Headers) -> HttpReply | None:
        """The answer that the head of a request alone decides; None when its body is needed."""
        try:
            if self._engine.look_up(self._model, self._version).traits.decoupled:
                self._require_events(headers)
        except InferenceError as error:
            return error_reply(error)
        encoded = headers.get(b"content-encoding")
        if encoded is None or compression.of_request(encoded) is not Encoding.UNKNOWN:
            return None
        return _unsupported(encoded)

    def _require_events(self, headers: Headers) -> None:
        """Refuse a request for a decoupled model whose client does not take events."""
        if not takes_events(headers):
            raise unsupported(
                f"HTTP end point doesn't support models with decoupled transaction policy: '{self._model}' may "
                "answer many times. Send 'Accept: text/event-stream' to get its answers as events, or use generate_stream or gRPC's "
                "ModelStreamInfer"
            )

    def _unpack(
        self, request: HttpRequest, traits: ModelTraits, model: Infers, on_reply: OnReply
    ) -> Cancellable | None:
        encoded = request.headers[b"content-encoding"]
        match compression.of_request(encoded):
            case Encoding.IDENTITY:
                return self._run(request, request.body, traits, model, on_reply)
            case Encoding.UNKNOWN:
                on_reply(_unsupported(encoded))
                return None
            case Encoding.GZIP | Encoding.DEFLATE:
                pass
        unpack = functools.partial(
            compression.decompress, request.body, limit=self._limits.max_input_size
        )
        if len(request.body) <= compression.UNPACKED_HERE:
            return self._run(request, unpack(), traits, model, on_reply)

        def run(body: bytes) -> Cancellable | None:
            return self._run(request, body, traits, self._engine, on_reply)

        return OffloadedCall(None, unpack, proceed=run, fail=error_callback(on_reply))

    def _run(
        self,
        request: HttpRequest,
        body: bytes | memoryview,
        traits: ModelTraits,
        model: Infers,
        on_reply: OnReply,
    ) -> Cancellable | None:
        """Decode, forward headers, run the request: by `model`, or by the engine if other work came in between.

        Raises:
            InferenceError: the request cannot be read.
        """
        size = len(body)
        header = request.headers.get(b"inference-header-content-length")
        if header is None:
            header_length = size
        elif not (
            header.isdigit()
            and len(header) <= _USUAL_DIGITS
            and (header_length := int(header)) <= size
        ):
            header_length = header_length_of(header, size)
        # What takes long is done in a codec process: JSON, and looking through many strings.
        codec = self._limits.codec
        if header_length and (codec is None or size <= _MAYBE_LARGE):
            decoded = typed_json.decode(body, header_length, self._target)
            return self._infer(request, traits, model, on_reply, decoded)
        work: collections.abc.Callable[[], Decoded]
        if codec is not None and large_bodies.is_large_json(body, header_length):
            work = functools.partial(
                large_bodies.decode_infer, codec, body, header_length, self._target
            )
        else:
            if header_length:
                decoded = typed_json.decode(body, header_length, self._target)
            else:
                # A body without JSON is not shared.
                decoded = raw_request.decode(bytes(body), traits, self._target)
            if (
                codec is None
                or size <= _MAYBE_LARGE
                or not raw_tensors.unchecked(decoded.request.inputs)
            ):
                return self._infer(request, traits, model, on_reply, decoded)
            work = functools.partial(_checked, codec, decoded)
        proceed = functools.partial(self._infer, request, traits, self._engine, on_reply)
        return OffloadedCall(codec, work, proceed=proceed, fail=error_callback(on_reply))

    def _infer(
        self,
        request: HttpRequest,
        traits: ModelTraits,
        model: Infers,
        on_reply: OnReply,
        decoded: Decoded,
    ) -> Cancellable | None:
        limits, headers = self._limits, request.headers
        if decoded.request.in_regions:
            # The bytes of such a request do not say what it asks: its reply is not kept for them.
            if type(on_reply) is Keeping:
                on_reply = on_reply.on_reply
            left = regions.left_there(self._engine.regions, decoded.request, traits)
            if left is None:
                return self._bring(request, traits, on_reply, decoded)
            decoded = Decoded(left, decoded.form)
        if limits.forwarded is not None:
            parameters = decoded.request.parameters
            request_parameters.forward_headers(headers, limits.forwarded, parameters)
        if traits.decoupled:
            return self._stream(decoded, on_reply, request.context)
        accepted = headers.get(b"accept-encoding")
        encoding = _IDENTITY if accepted is None else compression.of_reply(accepted)
        responder = _Responder(on_reply, decoded.form, encoding, limits.codec)
        return model.infer(decoded.request, responder, None, request.context)

    def _bring(
        self, request: HttpRequest, traits: ModelTraits, on_reply: OnReply, decoded: Decoded
    ) -> Cancellable | None:
        """Continue with a request whose tensors are in clients' shared memory."""

        def proceed(brought: InferRequest) -> Cancellable | None:
            return self._infer(
                request, traits, self._engine, on_reply, Decoded(brought, decoded.form)
            )

        codec = self._limits.codec
        offload = regions.offloaded(codec, error_callback(on_reply))
        return regions.bring_some(self._engine, codec, decoded.request, traits, proceed, offload)

    def _stream(
        self, decoded: Decoded, on_reply: OnReply, context: RequestContext | None
    ) -> Cancellable | None:
        """Answer as events, each one a whole infer response."""
        form = decoded.form
        if form.binary or any(form.listed.values()):
            raise invalid(
                f"model '{self._model}' may answer many times, as events, which carry JSON only: leave binary_data_output and "
                "binary_data away, or use gRPC's ModelStreamInfer"
            )
        ask = functools.partial(self._engine.infer, decoded.request, context=context)
        codec = self._limits.codec
        large = None if codec is None else large_bodies.infer_events(codec)
        return EventStream(_event, on_reply, large).run(ask)


def _checked(codec: Codec, decoded: Decoded) -> Decoded:
    """On a thread: the request, its strings checked."""
    return Decoded(check(codec, decoded.request), decoded.form)


def _unsupported(encoded: bytes) -> HttpReply:
    error = compression.unsupported_encoding(encoded)
    return error_reply(error, extra=(compression.ACCEPTED,))


def header_length_of(header: bytes, body_length: int) -> int:
    """How many bytes of a body are JSON (row 3.3); 0 asks for raw mode (row 3.4).

    Raises:
        InferenceError: INVALID_ARG unless it is a number between 0 and the body's length.
    """
    name, text = HEADER_LENGTH.decode(), header[:40].decode("latin-1")
    if _NUMBER(header) is None:  # Python's int takes more: +69, 6_9
        raise invalid(f"Unable to parse {name}, got: {text}: send the number of bytes of the JSON")
    length = int(header) if len(header) <= _DIGITS else MAX_INT32 + 1
    if not -MAX_INT32 - 1 <= length <= MAX_INT32:
        raise invalid(
            f"Unable to parse {name}, value is out of range [ {-MAX_INT32 - 1}, {MAX_INT32} ], got: {text}"
        )
    if not 0 <= length <= body_length:
        raise invalid(
            f"inference header size should be in range (0, {body_length}), got: {text}: {name} is the number of bytes of the "
            "JSON with which the body begins"
        )
    return length


def _event(response: InferResponse) -> bytes:
    """A response as one line of JSON."""
    return b"".join(reply_json.encode(response, ALL_JSON).body)


class _Responder(msgspec.Struct, eq=False):
    """The engine's callback: encodes the response and replies. One object, where a partial is three."""

    on_reply: OnReply
    form: ReplyForm
    encoding: Encoding
    codec: Codec | None

    def __call__(self, response: InferResponse) -> None:
        """See `OnResponse`."""
        on_reply, codec, encoding = self.on_reply, self.codec, self.encoding
        if response.error is not None:
            on_reply(error_reply(response.error, request_id=response.id))
            return
        if response.texts is not None and type(on_reply) is Keeping:
            on_reply.response = response
        try:
            reply = one_output.encode(response, self.form)
            if reply is None:
                if codec is not None and large_bodies.takes_long(response, self.form):
                    work = functools.partial(_encode_large, codec, response, self.form, encoding)
                    OffloadedCall(codec, work, proceed=on_reply, fail=error_callback(on_reply))
                    return
                reply = reply_json.encode(response, self.form)
        except InferenceError as error:
            reply = error_reply(error, request_id=response.id)
        except Exception:  # this request fails, its batch-mates in the same callback round do not
            log.exception("a response of model '%s' could not be written", response.model_name)
            reply = server_fault()
        if encoding is _IDENTITY or reply.status != 200:  # noqa: PLR2004 - HTTP's own number
            on_reply(reply)
        elif compression.size_of(reply) <= compression.PACKED_HERE:
            on_reply(compression.compress(reply, encoding))
        else:
            work = functools.partial(compression.compress, reply, encoding)
            OffloadedCall(None, work, proceed=on_reply, fail=error_callback(on_reply))


def _encode_large(
    codec: Codec, response: InferResponse, form: ReplyForm, encoding: Encoding
) -> HttpReply:
    """On a thread."""
    reply = large_bodies.encode_infer(codec, response, form)
    return reply if encoding is Encoding.IDENTITY else compression.compress(reply, encoding)
