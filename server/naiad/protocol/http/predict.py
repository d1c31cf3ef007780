"""KServe's v1: a request to `:predict` or `:explain` in, the engine called, its response out (docs/kserve-v1.md). The fast lane's work.

It takes the same way as infer: limits, compression, forwarded headers, codec processes for what is large, cancelling. The statuses are those of KServe's server:
400 for whatever is wrong with a body. The id of a request is its `X-Request-Id` header, as there.
"""

import collections.abc
import functools
import logging

import msgspec

from naiad.config.explainer import EXPLAINER, decoupled, of_model
from naiad.core.clock import Clock, SystemClock
from naiad.core.inference import Cancellable
from naiad.core.request import LATEST
from naiad.core.response import InferResponse
from naiad.engine.api import Engine, ModelTraits
from naiad.errors import InferenceError, unsupported
from naiad.protocol.codec.pool import Codec
from naiad.protocol.http.codec import (
    cloud_events,
    compression,
    large_bodies,
    predict_json,
    request_parameters,
)
from naiad.protocol.http.codec.cloud_events import Mode
from naiad.protocol.http.codec.compression import Encoding
from naiad.protocol.http.codec.infer_json import Target
from naiad.protocol.http.codec.predict_json import Model, Predict, PredictForm
from naiad.protocol.http.codec.reply_json import ALL_JSON
from naiad.protocol.http.inference import InferenceLimits
from naiad.protocol.http.message import Headers, HttpReply, HttpRequest, OnReply
from naiad.protocol.http.replies import (
    JSON_HEADERS,
    error_callback,
    error_reply,
    server_fault,
)
from naiad.protocol.offload import OffloadedCall

log = logging.getLogger(__name__)

_OK = 200
_ENCODING = b"content-encoding"

Wrap = collections.abc.Callable[[HttpReply], HttpReply]
"""Makes another reply of a successful one."""


class PredictRoute:
    """The handler of one model version's predict or explain path."""

    __slots__ = ("_clock", "_engine", "_explains", "_limits", "_model", "_version")

    def __init__(
        self,
        engine: Engine,
        limits: InferenceLimits,
        *,
        model: str,
        version: int = LATEST,
        explains: bool = False,
        clock: Clock = SystemClock(),  # noqa: B008 - it has no state
    ) -> None:
        self._clock = clock
        self._engine = engine
        self._limits = limits
        self._model = model
        self._version = version
        self._explains = explains

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
            self._asked()
        except InferenceError as error:
            return error_reply(error)
        encoded = headers.get(_ENCODING)
        if encoded is None or compression.of_request(encoded) is not Encoding.UNKNOWN:
            return None
        return _unsupported(encoded)

    def _asked(self) -> Model:
        """The model that answers.

        Raises:
            InferenceError: it is not there, it may answer many times, or the model has no explainer.
        """
        name, version = self._model, self._version
        traits = self._engine.look_up(name, version).traits
        member = "predictions"
        if self._explains:
            if not traits.explainer:
                raise unsupported(
                    f"model '{name}' has no explainer: name the model that explains it in its config, by the parameter '{EXPLAINER}'"
                )
            name, version, member = traits.explainer, LATEST, "explanations"
            traits = self._explainer(name)
        if traits.decoupled:
            reason = decoupled(name)
            raise unsupported(of_model(self._model, reason) if self._explains else reason)
        return Model(traits, Target(name, version, self._limits.max_input_size), member)

    def _explainer(self, name: str) -> ModelTraits:
        try:
            return self._engine.look_up(name).traits
        except InferenceError as error:
            raise InferenceError(error.code, of_model(self._model, error.message)) from None

    def _run(self, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
        """Decompress, decode, ask the engine.

        Raises:
            InferenceError: the model is not there, or the request cannot be read.
        """
        model = self._asked()
        wrap = self._event(request.headers)
        if request.context is not None:
            request.context.asks(model.target.model)
        elif self._engine.tracer.active:
            self._engine.tracer.passed(model.target.model)
        encoded = request.headers.get(_ENCODING, b"identity")
        encoding = compression.of_request(encoded)
        if encoding is Encoding.IDENTITY:
            return self._decode(request, model, on_reply, wrap, request.body)
        if encoding is Encoding.UNKNOWN:
            on_reply(_unsupported(encoded))
            return None
        unpack = functools.partial(
            compression.decompress, request.body, limit=self._limits.max_input_size
        )
        if len(request.body) <= compression.UNPACKED_HERE:
            return self._decode(request, model, on_reply, wrap, unpack())
        proceed = functools.partial(self._decode, request, model, on_reply, wrap)
        return OffloadedCall(None, unpack, proceed=proceed, fail=error_callback(on_reply))

    def _event(self, headers: Headers) -> Wrap | None:
        """What makes an event of the response; None for a client that has sent none."""
        mode = cloud_events.asked(headers)
        if mode is Mode.NONE:
            return None
        model, clock = self._model, self._clock
        return lambda reply: cloud_events.event_of(reply, mode, model, clock.wall_ns())

    def _decode(
        self,
        request: HttpRequest,
        model: Model,
        on_reply: OnReply,
        wrap: Wrap | None,
        body: bytes,
    ) -> Cancellable | None:
        codec = self._limits.codec
        request_id = request.headers.get(b"x-request-id", b"").decode("latin-1")
        proceed = functools.partial(self._infer, request, on_reply, wrap)
        if codec is None or not large_bodies.is_large_json(body, len(body)):
            return proceed(predict_json.decode(body, model, request_id))
        work: collections.abc.Callable[[], Predict] = functools.partial(
            large_bodies.decode_predict, codec, body, model, request_id
        )
        return OffloadedCall(codec, work, proceed=proceed, fail=error_callback(on_reply))

    def _infer(
        self,
        request: HttpRequest,
        on_reply: OnReply,
        wrap: Wrap | None,
        predict: Predict,
    ) -> Cancellable | None:
        limits, headers = self._limits, request.headers
        if limits.forwarded is not None:
            request_parameters.forward_headers(
                headers, limits.forwarded, predict.request.parameters
            )
        accepted = headers.get(b"accept-encoding")
        encoding = Encoding.IDENTITY if accepted is None else compression.of_reply(accepted)
        responder = _Responder(on_reply, predict.form, encoding, limits.codec, wrap)
        return self._engine.infer(predict.request, responder, None, request.context)


def _unsupported(encoded: bytes) -> HttpReply:
    error = compression.unsupported_encoding(encoded)
    return error_reply(error, extra=(compression.ACCEPTED,))


class _Responder(msgspec.Struct, eq=False):
    """The engine's callback: encodes the response and replies."""

    on_reply: OnReply
    form: PredictForm
    encoding: Encoding
    codec: Codec | None
    wrap: Wrap | None

    def __call__(self, response: InferResponse) -> None:
        """See `OnResponse`."""
        on_reply, codec, encoding = self.on_reply, self.codec, self.encoding
        if response.error is not None:
            on_reply(error_reply(response.error, request_id=response.id))
            return
        if codec is not None and large_bodies.takes_long(response, ALL_JSON):
            work = functools.partial(_encode_large, codec, response, self.form, encoding, self.wrap)
            OffloadedCall(codec, work, proceed=on_reply, fail=error_callback(on_reply))
            return
        reply = _reply_of(response, self.form, self.wrap)
        if encoding is Encoding.IDENTITY or reply.status != _OK:
            on_reply(reply)
        elif compression.size_of(reply) <= compression.PACKED_HERE:
            on_reply(compression.compress(reply, encoding))
        else:
            pack = functools.partial(compression.compress, reply, encoding)
            OffloadedCall(None, pack, proceed=on_reply, fail=error_callback(on_reply))


def _reply_of(response: InferResponse, form: PredictForm, wrap: Wrap | None) -> HttpReply:
    try:
        body = predict_json.encode(response, form)
    except InferenceError as error:
        return error_reply(error, request_id=response.id)
    except Exception:  # this request fails, its batch-mates in the same callback round do not
        log.exception("a response of model '%s' could not be written", response.model_name)
        return server_fault()
    reply = HttpReply(_OK, JSON_HEADERS, (body,), response.id)
    return reply if wrap is None else wrap(reply)


def _encode_large(
    codec: Codec,
    response: InferResponse,
    form: PredictForm,
    encoding: Encoding,
    wrap: Wrap | None,
) -> HttpReply:
    """On a thread."""
    body = large_bodies.encode_predict(codec, response, form)
    reply = HttpReply(_OK, JSON_HEADERS, (body,), response.id)
    reply = reply if wrap is None else wrap(reply)
    return reply if encoding is Encoding.IDENTITY else compression.compress(reply, encoding)
