"""The paths of the fast lane: infer, generate, generate_stream, live and ready (row 1.6). The control plane handles all others.

A path is parsed once: its handlers are kept (bounded), so that finding them costs one dictionary look-up per request. Restricted
APIs (row 17.16) put a guard around the handlers when they are made; without restrictions nothing is checked.
"""

import functools

import msgspec

from naiad.core.inference import Cancellable
from naiad.core.request import LATEST
from naiad.engine.api import Engine
from naiad.errors import InferenceError, invalid
from naiad.protocol.codec.pool import Codec
from naiad.protocol.header_pattern import compiled
from naiad.protocol.http.codec import compression
from naiad.protocol.http.codec.compression import Encoding
from naiad.protocol.http.codec.event_stream import takes_events
from naiad.protocol.http.generate import GenerateRoute
from naiad.protocol.http.health import HealthRoutes
from naiad.protocol.http.inference import MAX_INT32, InferenceLimits, InferRoute
from naiad.protocol.http.message import FastHandler, Headers, HttpReply, HttpRequest, OnReply
from naiad.protocol.http.paths import ApiPath, category_of, find, is_v1, without_base
from naiad.protocol.http.predict import PredictRoute
from naiad.protocol.http.replies import error_reply, options_reply, refusal, wrong_method
from naiad.protocol.restricted import Category, Restriction, Restrictions
from naiad.protocol.tokens import CHALLENGE, HEADER, UNAUTHENTICATED, TokenFile

MAX_INPUT_SIZE = 67_108_864
MAX_INT64 = 2**63 - 1

_MAX_KNOWN_PATHS = 1_024
"""Paths remembered. A client that uses more different ones pays for parsing again, and costs no more memory."""

_HEALTH_BODY = 65_536
"""Body bytes that a health check may have; they have no effect."""

_JSON_BODIES = ("/infer", "/generate", "/generate_stream", ":predict", ":explain")

_AUTHORIZATION = HEADER.encode()
_HEADER_LENGTH = b"inference-header-content-length"

_LENGTH_DIGITS = 20
"""More are out of range whatever they are."""

NO_TOKEN = refusal(401, UNAUTHENTICATED, extra=(CHALLENGE,))
"""The response to a call without a token, or with a wrong one."""


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the administrator chose for HTTP.

    Attributes:
        max_input_size: bytes; `--http-max-input-size` (row 1.11).
        header_forward_pattern: `--http-header-forward-pattern`; "" forwards none (row 1.17).
        tokens: `--auth-token-file`; None requires no token.
        base_path: `--http-base-path`: every path is served below it as well; "" for no prefix.
        kserve_v1: `--allow-kserve-v1`: whether the paths of KServe's v1 exist.
    """

    max_input_size: int = MAX_INPUT_SIZE
    header_forward_pattern: str = ""
    restrictions: Restrictions = msgspec.field(default_factory=dict)
    tokens: TokenFile | None = None
    codec: Codec | None = None
    base_path: str = ""
    kserve_v1: bool = True

    def limits(self) -> InferenceLimits:
        """The limits of infer requests.

        Raises:
            ValueError: the pattern is not a regular expression.
        """
        pattern = compiled(self.header_forward_pattern, option="--http-header-forward-pattern")
        return InferenceLimits(
            max_input_size=self.max_input_size, forwarded=pattern, codec=self.codec
        )


def model_version(segment: str) -> int:
    """The version that a path names; "" means LATEST.

    Raises:
        InferenceError: INVALID_ARG for a number that is too large (row 1.8).
    """
    if not segment:
        return LATEST
    # A number of 19 digits is compared; one of a thousand digits is not even converted.
    version = int(segment) if len(segment) <= 40 else MAX_INT64 + 1  # noqa: PLR2004 - any length above 19 does
    if version > MAX_INT64:
        raise invalid(
            f"failed to get model version from specified version string '{segment[:40]}' (details: out of range), version "
            "should be an integral value > 0"
        )
    return version


class Endpoint:
    """One path of the fast lane: a handler for its method, an error for all others. A restriction is checked before the method (row 17.16)."""

    __slots__ = ("_handler", "_restriction", "_tokens", "_verb", "handlers", "other")

    def __init__(self, verb: bytes, handler: FastHandler, restriction: Restriction | None) -> None:
        self._verb = verb
        self._handler = handler
        self._restriction = restriction
        self._tokens: TokenFile | None = None
        handlers: dict[bytes, FastHandler] = {verb: handler}
        allowed = b"OPTIONS, POST"
        if verb == b"GET":
            # The connection leaves out the body.
            handlers[b"HEAD"] = handler
            allowed = b"GET, HEAD, OPTIONS"
        handlers[b"OPTIONS"] = functools.partial(_always, options_reply(allowed))
        other: FastHandler = functools.partial(_always, wrong_method(allowed))
        if restriction is not None:
            guard = functools.partial(functools.partial, _guarded, restriction)
            handlers = {name: guard(handler) for name, handler in handlers.items()}
            other = guard(other)
        self.handlers = handlers
        self.other = other

    def require_token(self, tokens: TokenFile) -> None:
        """From now on a call needs a token; this is checked first."""
        self._tokens = tokens
        guard = functools.partial(functools.partial, _with_token, tokens)
        self.handlers = {name: guard(handler) for name, handler in self.handlers.items()}
        self.other = guard(self.other)

    def refusal(self, method: bytes, headers: Headers) -> HttpReply | None:
        """See `FastRoutes`; in the order in which the handlers check."""
        if self._tokens is not None and not self._tokens.admits(headers.get(_AUTHORIZATION)):
            return NO_TOKEN
        if self._restriction is not None and not _admits(self._restriction, headers):
            return refusal(403, self._restriction.refusal)
        handler = self._handler
        if method == self._verb and isinstance(handler, InferRoute | GenerateRoute | PredictRoute):
            return handler.refusal(headers)
        return None


def _admits(restriction: Restriction, headers: Headers) -> bool:
    return restriction.admits(headers.get(restriction.header.lower().encode()))


def _always(reply: HttpReply, request: HttpRequest, on_reply: OnReply) -> Cancellable | None:
    on_reply(reply)
    return None


def _guarded(
    restriction: Restriction, handler: FastHandler, request: HttpRequest, on_reply: OnReply
) -> Cancellable | None:
    if _admits(restriction, request.headers):
        return handler(request, on_reply)
    on_reply(refusal(403, restriction.refusal))
    return None


def _with_token(
    tokens: TokenFile, handler: FastHandler, request: HttpRequest, on_reply: OnReply
) -> Cancellable | None:
    if tokens.admits(request.headers.get(_AUTHORIZATION)):
        return handler(request, on_reply)
    on_reply(NO_TOKEN)
    return None


class Routes:
    """The fast lane's `FastRoutes`."""

    def __init__(self, engine: Engine, options: HttpOptions) -> None:
        self._engine = engine
        self._options = options
        self._limits = options.limits()
        guarded = options.tokens is not None or bool(options.restrictions)
        self._health = HealthRoutes(engine, names_models=not guarded)
        self._known: dict[str, Endpoint] = {}

    @property
    def known(self) -> int:
        """How many parsed paths are kept."""
        return len(self._known)

    def find(self, method: bytes, path: str, headers: Headers) -> FastHandler | None:
        """The handler of a path; None for the control plane."""
        endpoint = self._known.get(path) or self._learn(path)
        return None if endpoint is None else endpoint.handlers.get(method, endpoint.other)

    def refusal(self, method: bytes, path: str, headers: Headers) -> HttpReply | None:
        """See `FastRoutes`."""
        endpoint = self._known.get(path) or self._learn(path)
        return None if endpoint is None else endpoint.refusal(method, headers)

    def _learn(self, path: str) -> Endpoint | None:
        inner = without_base(self._options.base_path, path)
        endpoint = self._make(inner)
        if endpoint is not None:
            # Here and not where each endpoint is made: a path that is added later is guarded unless it is about health.
            if self._options.tokens is not None and category_of(inner) is not Category.HEALTH:
                endpoint.require_token(self._options.tokens)
            if len(self._known) >= _MAX_KNOWN_PATHS:
                self._known.clear()
            self._known[path] = endpoint
        return endpoint

    def body_limit(self, path: str, headers: Headers) -> int:
        """The limit of a request's body, in bytes (row 1.11).

        Binary tensors behind JSON are bounded by what a length header can say (row 3.3), as in Triton, not by the input
        size, which is for JSON, raw bodies and what a compressed body becomes.
        """
        limit = self._options.max_input_size
        if path.endswith(("/ready", "/live")) or self._is_v1_health(path):
            # Health checks need no token, and take no body.
            return min(limit, _HEALTH_BODY)
        if b"content-encoding" in headers:
            encoding = compression.of_request(headers[b"content-encoding"])
            if encoding is not Encoding.IDENTITY:
                # What does not compress grows by a little.
                return limit + limit // 1000 + 1024
        return MAX_INT32 if self._has_tensors(path, headers) else limit

    def _is_v1_health(self, path: str) -> bool:
        """Whether a path asks for the readiness of a model in KServe's v1."""
        inner = without_base(self._options.base_path, path)
        return inner.startswith("/v1/") and category_of(inner) is Category.HEALTH

    def tensors_from(self, path: str, headers: Headers) -> int:
        """See `FastRoutes`."""
        if b"content-encoding" in headers or not self._has_tensors(path, headers):
            return 0
        return int(headers[_HEADER_LENGTH][-_LENGTH_DIGITS:])

    def _has_tensors(self, path: str, headers: Headers) -> bool:
        """Whether binary tensors stand behind the JSON of a body."""
        declared_length = headers.get(_HEADER_LENGTH, b"0")
        return bool(
            declared_length.isdigit() and declared_length.strip(b"0") and path.endswith("/infer")
        )

    def too_large(self, path: str, headers: Headers, size: int | None) -> str:
        """See `FastRoutes`; in Triton's words for JSON."""
        limit, of = self.body_limit(path, headers), "" if size is None else f" of {size} bytes"
        plain = (
            b"inference-header-content-length" not in headers and b"content-encoding" not in headers
        )
        if plain and path.endswith(_JSON_BODIES):
            exceeds = (
                f"request JSON size{of} exceeds the maximum allowed input size of {limit} bytes"
            )
        else:
            exceeds = f"Request body{of} exceeds the maximum allowed value of {limit} bytes"
        return f"{exceeds}. Use --http-max-input-size to increase the limit."

    def may_stream(self, path: str, headers: Headers) -> bool:
        """See `FastRoutes`."""
        return path.endswith("/generate_stream") or (
            b"accept" in headers and path.endswith("/infer") and takes_events(headers)
        )

    def _make(self, path: str) -> Endpoint | None:
        match = find(path)
        if match is None or not match[0].fast:
            return None
        if not self._options.kserve_v1 and is_v1(match[0]):
            return None
        declared, parameters = match
        restriction = None
        if declared.category is not None:
            restriction = self._options.restrictions.get(declared.category)
        (method,) = declared.methods
        return Endpoint(method.encode(), self._handler(declared, parameters), restriction)

    def _handler(self, declared: ApiPath, parameters: dict[str, str]) -> FastHandler:
        health, operation = self._health, declared.operation
        of_server: dict[str, FastHandler] = {
            "server_live": health.live,
            "server_ready": health.ready,
            "v1_models": health.v1_models,
        }
        if operation in of_server:
            return of_server[operation]
        model = parameters["model"]
        try:
            version = model_version(parameters.get("version", ""))
        except InferenceError as error:
            return functools.partial(_always, error_reply(error))
        if operation == "model_ready":
            return functools.partial(health.model_ready, model, version)
        if operation == "v1_model_ready":
            return functools.partial(health.v1_model_ready, model, version)
        return self._inference(operation, model, version)

    def _inference(self, operation: str, model: str, version: int) -> FastHandler:
        engine, limits = self._engine, self._limits
        if operation == "infer":
            return InferRoute(engine, limits, model=model, version=version)
        if operation in ("predict", "explain"):
            explains = operation == "explain"
            return PredictRoute(engine, limits, model=model, version=version, explains=explains)
        streams = operation == "generate_stream"
        return GenerateRoute(engine, limits, model=model, version=version, streams=streams)
