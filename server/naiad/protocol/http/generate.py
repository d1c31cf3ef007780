"""The generate endpoints: flat JSON in, one flat JSON object out, or a stream of them as events (section 6).

They take ordinary and decoupled models alike. Forwarded headers, compression and binary tensors are not for them, as in Triton
(rows 1.16, 6.14).
"""

import functools
import logging

from naiad.core.flow import Flow
from naiad.core.inference import Cancellable, RequestContext
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse
from naiad.engine.api import Engine, ModelTraits
from naiad.errors import ErrorCode, InferenceError, internal, invalid
from naiad.protocol import raw_tensors
from naiad.protocol.codec.pool import Codec
from naiad.protocol.http.codec import compression, generate_json, large_bodies
from naiad.protocol.http.codec.compression import Encoding
from naiad.protocol.http.codec.event_stream import EventStream
from naiad.protocol.http.codec.generate_json import GenerateReader
from naiad.protocol.http.codec.infer_json import Target
from naiad.protocol.http.inference import InferenceLimits
from naiad.protocol.http.message import Headers, HttpReply, HttpRequest, OnReply
from naiad.protocol.http.replies import (
    JSON_HEADERS,
    error_body,
    error_callback,
    error_reply,
    server_fault,
)
from naiad.protocol.offload import OffloadedCall

log = logging.getLogger(__name__)


class GenerateRoute:
    """The handler of one model version's generate or generate_stream path. The codec decodes and encodes what is large; without it the loop does."""

    __slots__ = ("_codec", "_engine", "_model", "_reader", "_streams", "_target", "_version")

    def __init__(
        self,
        engine: Engine,
        limits: InferenceLimits,
        *,
        model: str,
        version: int = LATEST,
        streams: bool,
    ) -> None:
        self._codec = limits.codec
        self._engine = engine
        self._model = model
        self._version = version
        self._target = Target(model, version, limits.max_input_size)
        self._streams = streams
        self._reader: GenerateReader | None = None

    def __call__(self, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
        """Answer a request (a `FastHandler`)."""
        try:
            return self._run(request, on_reply)
        except InferenceError as error:
            on_reply(error_reply(error))
        except Exception:  # a bug of ours must not cost other requests their connection
            log.exception("a request for model '%s' could not be answered", self._model)
            on_reply(server_fault())
        return None

    def refusal(self, headers: Headers) -> HttpReply | None:
        """The answer that the head of a request alone decides; None when its body is needed."""
        try:
            self._traits(headers)
        except InferenceError as error:
            return error_reply(error)
        return None

    def _traits(self, headers: Headers) -> ModelTraits:
        """What the model takes.

        Raises:
            InferenceError: the model is not there, or the body is compressed.
        """
        traits = self._engine.look_up(self._model, self._version).traits
        encoding = headers.get(b"content-encoding", b"identity")
        if compression.of_request(encoding) is not Encoding.IDENTITY:
            raise invalid(
                "Unsupported content-encoding, only 'identity' is supported. Send the body as it is; /infer takes compressed ones"
            )
        return traits

    def _run(self, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
        """Decode, ask the engine.

        Raises:
            InferenceError: the model is not there, or the request cannot be read.
        """
        traits = self._traits(request.headers)
        if request.context is not None:
            request.context.asks(self._model)
        elif self._engine.tracer.active:
            self._engine.tracer.passed(self._model)
        codec = self._codec
        reader = self._reader
        if reader is None or reader.traits is not traits:
            reader = self._reader = GenerateReader(traits, self._target)
        proceed = functools.partial(self._ask, traits, on_reply, request.context)
        if codec is None or not large_bodies.is_large_json(request.body, len(request.body)):
            return proceed(reader.read(request.body))
        work = functools.partial(
            large_bodies.read_generate, codec, request.body, traits, self._target
        )
        return OffloadedCall(codec, work, proceed=proceed, fail=error_callback(on_reply))

    def _ask(
        self,
        traits: ModelTraits,
        on_reply: OnReply,
        context: RequestContext | None,
        request: InferRequest,
    ) -> Cancellable | None:
        if self._streams:
            ask = functools.partial(self._engine.infer, request, context=context)
            large = None if self._codec is None else large_bodies.generate_events(self._codec)
            return EventStream(generate_json.encode, on_reply, large).run(ask)
        # One response is wanted, but a model may send without end: it must not send faster than the others are discarded.
        flow = Flow() if traits.decoupled else None
        return self._engine.infer(request, OneAnswer(on_reply, self._codec).take, flow, context)


class OneAnswer:
    """Waits for the end and answers if the model gave exactly one response (rows 6.8, 6.9). Others are not kept."""

    __slots__ = ("_codec", "_count", "_large", "_on_reply", "_reply")

    def __init__(self, on_reply: OnReply, codec: Codec | None = None) -> None:
        self._on_reply = on_reply
        self._codec = codec
        self._large: InferResponse | None = None
        self._count = 0
        self._reply = HttpReply(200, JSON_HEADERS, ())

    def take(self, response: InferResponse) -> None:
        """The engine's callback."""
        if not response.empty:
            if not self._count:
                if self._codec is not None and any(map(raw_tensors.is_large, response.outputs)):
                    self._large = response
                else:
                    self._reply = _reply_of(response)
            self._count += 1
        if response.final:
            error = response.error
            if error is not None and error.code is ErrorCode.UNAVAILABLE:
                # Its worker died after it had answered: that is what a client shall hear, and ask again.
                self._on_reply(error_reply(error, request_id=response.id))
            elif self._count != 1:
                self._on_reply(self._wrong_count(response.id))
            elif self._large is not None and self._codec is not None:
                work = functools.partial(large_bodies.encode_generate, self._codec, self._large)
                OffloadedCall(
                    self._codec,
                    work,
                    proceed=self._on_reply,
                    fail=error_callback(self._on_reply),
                )
            else:
                self._on_reply(self._reply)

    def _wrong_count(self, request_id: str) -> HttpReply:
        """The status is that of the first response, 200 if there is none."""
        error = internal(
            "generate expects model to produce exactly 1 response, use generate stream for model that generates various number of "
            f"responses: it produced {self._count}"
        )
        return HttpReply(self._reply.status, JSON_HEADERS, (error_body(error.message),), request_id)


def _reply_of(response: InferResponse) -> HttpReply:
    error = response.error
    if error is None:
        try:
            body = generate_json.encode(response)
        except InferenceError as failure:
            error = failure
        except Exception:  # this request fails, others in the same callback round do not
            log.exception("a response of model '%s' could not be written", response.model_name)
            return server_fault()
        else:
            return HttpReply(200, JSON_HEADERS, (body,), response.id)
    return error_reply(error, request_id=response.id)
