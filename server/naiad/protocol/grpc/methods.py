"""Which path is which method (rows 10.1, 10.2), who may call it (row 10.35), and when no more calls are taken (row 10.34).

A transport asks `find` for a method and gives it bytes; it learns nothing else of the service.
"""

import collections.abc
import functools

from naiad.engine.api import Engine
from naiad.errors import unavailable, unsupported
from naiad.protocol.grpc.call import (
    Call,
    Cancellable,
    Conversation,
    OnAnswer,
    Refusal,
    Replies,
    Streaming,
    Unary,
    at_once,
    later,
    refusal,
)
from naiad.protocol.grpc.control import Control
from naiad.protocol.grpc.forwarding import HeaderForwarding, compiled
from naiad.protocol.grpc.health import CHECK, WATCH, HealthCheck
from naiad.protocol.grpc.infer import ModelInfer
from naiad.protocol.grpc.settings import GrpcSettings
from naiad.protocol.grpc.stream import StreamInfer
from naiad.protocol.restricted import Category, Restriction, Restrictions
from naiad.protocol.tokens import ASK_FOR_ONE, HEADER, TokenFile

SERVICE = "/inference.GRPCInferenceService/"
INFER = SERVICE + "ModelInfer"
STREAM_INFER = SERVICE + "ModelStreamInfer"

KEY_PREFIX = "triton-grpc-protocol-"
"""What a restriction's header is called in metadata begins with this (row 10.35)."""

REFUSED: collections.abc.Mapping[str, Refusal] = {
    WATCH: refusal(
        unsupported("Watch is not implemented: call grpc.health.v1.Health/Check from time to time")
    ),
}
"""Methods that are known and refused; a transport answers them without waiting for a message."""

_SHUT_ERROR = unavailable(
    "GRPC server is shutting down and has stopped accepting new requests. Send them to another server"
)
_SHUT = refusal(_SHUT_ERROR)


_Check = collections.abc.Callable[[Call], Refusal | None]
"""Looks whether a call brings what it has to."""

_UNAUTHENTICATED = 16
_NO_TOKEN = Refusal(_UNAUTHENTICATED, ASK_FOR_ONE)


class Methods:
    """The table.

    Args:
        engine: answers.
        forwarding: which metadata become request parameters; None when none do.
        restrictions: the categories that ask for a key.
        tokens: the tokens of which every call but those about health has to bring one; None asks nobody.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        forwarding: HeaderForwarding | None,
        restrictions: Restrictions,
        tokens: TokenFile | None = None,
    ) -> None:
        self._restrictions = restrictions
        self._tokens = tokens
        self._shut = False
        self._streams = StreamInfer(engine, forwarding, shut=_SHUT_ERROR)
        self._streaming: dict[str, Streaming] = {
            STREAM_INFER: _begun(self._streams, restrictions.get(Category.INFERENCE), tokens)
        }
        self._table = {
            path: self._guarded(method, category)
            for path, (method, category) in _everything(engine, forwarding).items()
        }

    def find(self, path: str) -> Unary | None:
        """The method of a path, or None when there is none (UNIMPLEMENTED, says the transport)."""
        return self._table.get(path)

    def find_stream(self, path: str) -> Streaming | None:
        """The method of a path whose calls are streams both ways, or None when there is none."""
        return self._streaming.get(path)

    def paths(self) -> tuple[str, ...]:
        """All paths that `find` knows."""
        return tuple(self._table)

    def stream_paths(self) -> tuple[str, ...]:
        """All paths that `find_stream` knows."""
        return tuple(self._streaming)

    def shut(self) -> None:
        """From now on refuse new calls (row 10.34), all but those about health: those say themselves what goes on.

        Streams take no more requests and end when those they have are answered.
        """
        self._shut = True
        self._streams.shut()

    def _guarded(self, method: Unary, category: Category) -> Unary:
        restriction = self._restrictions.get(category)
        guarded = method if restriction is None else _checked(method, _check(restriction))
        if category is Category.HEALTH:
            return guarded
        if self._tokens is not None:
            guarded = _checked(guarded, functools.partial(_check_token, self._tokens))

        def gate(body: bytes, call: Call, on_answer: OnAnswer) -> Cancellable | None:
            if self._shut:
                on_answer(_SHUT)
                return None
            return guarded(body, call, on_answer)

        return gate


def build(engine: Engine, settings: GrpcSettings) -> Methods:
    """The table that the settings ask for.

    Raises:
        CannotServeError: the header pattern is no regular expression.
    """
    return Methods(
        engine,
        forwarding=compiled(settings.header_forward_pattern),
        restrictions=settings.restrictions,
        tokens=settings.tokens,
    )


def _checked(method: Unary, check: _Check) -> Unary:
    def guarded(body: bytes, call: Call, on_answer: OnAnswer) -> Cancellable | None:
        refused = check(call)
        if refused is None:
            return method(body, call, on_answer)
        on_answer(refused)
        return None

    return guarded


def _begun(
    streams: StreamInfer, restriction: Restriction | None, tokens: TokenFile | None
) -> Streaming:
    """A stream is asked for its token and its key once, when it begins (row 10.35)."""
    checks: list[_Check] = []
    if tokens is not None:
        checks.append(functools.partial(_check_token, tokens))
    if restriction is not None:
        checks.append(_check(restriction))
    if not checks:
        return streams

    def begin(call: Call, replies: Replies) -> Conversation:
        refused = next((found for check in checks if (found := check(call)) is not None), None)
        stream = streams(call, replies)
        if refused is not None:
            stream.refuse(refused)
        return stream

    return begin


def _check(restriction: Restriction) -> _Check:
    wanted = KEY_PREFIX + restriction.header.lower()  # metadata keys are in lower case on the wire
    refused = refusal(
        unavailable(
            f"This protocol is restricted, expecting header '{wanted}': send it as metadata with the value that "
            "whoever runs this server was given"
        )
    )

    def check(call: Call) -> Refusal | None:
        return None if restriction.admits(_sent(call, wanted)) else refused

    return check


def _check_token(tokens: TokenFile, call: Call) -> Refusal | None:
    return None if tokens.admits(_sent(call, HEADER)) else _NO_TOKEN


def _sent(call: Call, wanted: str) -> bytes | None:
    """The first value of a key; None when it did not come."""
    for key, value in call.invocation_metadata() or ():
        if key == wanted:
            return value.encode() if isinstance(value, str) else value
    return None


def _everything(
    engine: Engine, forwarding: HeaderForwarding | None
) -> dict[str, tuple[Unary, Category]]:
    control = Control(engine)
    change = at_once(control.shared_memory_change)
    methods: dict[str, tuple[Unary, Category]] = {
        "ModelInfer": (ModelInfer(engine, forwarding), Category.INFERENCE),
        "ServerLive": (at_once(control.server_live), Category.HEALTH),
        "ServerReady": (later(control.server_ready), Category.HEALTH),
        "ModelReady": (later(control.model_ready), Category.HEALTH),
        "ServerMetadata": (at_once(control.server_metadata), Category.METADATA),
        "ModelMetadata": (at_once(control.model_metadata), Category.METADATA),
        "ModelConfig": (at_once(control.model_config), Category.MODEL_CONFIG),
        "ModelStatistics": (at_once(control.model_statistics), Category.STATISTICS),
        "RepositoryIndex": (later(control.repository_index), Category.MODEL_REPOSITORY),
        "RepositoryModelLoad": (later(control.repository_model_load), Category.MODEL_REPOSITORY),
        "RepositoryModelUnload": (
            later(control.repository_model_unload),
            Category.MODEL_REPOSITORY,
        ),
        "SystemSharedMemoryStatus": (
            at_once(control.system_shared_memory_status),
            Category.SHARED_MEMORY,
        ),
        "SystemSharedMemoryRegister": (change, Category.SHARED_MEMORY),
        "SystemSharedMemoryUnregister": (change, Category.SHARED_MEMORY),
        "CudaSharedMemoryStatus": (
            at_once(control.cuda_shared_memory_status),
            Category.SHARED_MEMORY,
        ),
        "CudaSharedMemoryRegister": (change, Category.SHARED_MEMORY),
        "CudaSharedMemoryUnregister": (change, Category.SHARED_MEMORY),
        "TraceSetting": (at_once(control.trace_setting), Category.TRACE),
        "LogSettings": (at_once(control.log_settings), Category.LOGGING),
    }
    table = {SERVICE + name: entry for name, entry in methods.items()}
    table[CHECK] = (later(HealthCheck(engine).check), Category.HEALTH)
    return table
