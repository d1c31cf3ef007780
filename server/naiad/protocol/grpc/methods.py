"""The table of methods: which path is which method (rows 10.1, 10.2), what a call needs (row 10.35), when no more calls are taken (row 10.34).

A transport passes a call's metadata to `admit` before it receives a message; then it passes the message's bytes to the method of the path. It knows nothing else of the service.
"""

import collections.abc
import functools
import typing

from naiad.core.inference import Cancellable
from naiad.engine.api import Engine
from naiad.errors import invalid, unavailable, unsupported
from naiad.protocol.codec.pool import CODEC_BYTES, Codec
from naiad.protocol.grpc.access_log import logged, logged_stream, record_refused
from naiad.protocol.grpc.call import (
    Metadata,
    OnRpcResponse,
    RpcCall,
    RpcStatus,
    Streaming,
    Unary,
    ValuesIn,
    at_once,
    later,
    rpc_status,
)
from naiad.protocol.grpc.codec.request_split import values_in
from naiad.protocol.grpc.control import Control
from naiad.protocol.grpc.infer import ModelInfer
from naiad.protocol.grpc.settings import CannotServeError, GrpcSettings
from naiad.protocol.grpc.stream import StreamInfer
from naiad.protocol.header_pattern import HeaderPattern, compiled
from naiad.protocol.observer import Observer
from naiad.protocol.restricted import Category, Restriction, Restrictions
from naiad.protocol.tokens import HEADER, UNAUTHENTICATED, TokenFile

if typing.TYPE_CHECKING:
    from naiad.protocol.grpc.reflection import Reflection

SERVICE = "/inference.GRPCInferenceService/"
INFER = SERVICE + "ModelInfer"
STREAM_INFER = SERVICE + "ModelStreamInfer"
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"

KEY_PREFIX = "triton-grpc-protocol-"
"""The prefix of a restriction's header in metadata (row 10.35)."""

REFUSED: collections.abc.Mapping[str, RpcStatus] = {
    WATCH: rpc_status(
        unsupported("Watch is not implemented: call grpc.health.v1.Health/Check from time to time")
    ),
}
"""Methods that are known and refused; a transport answers them without waiting for a message."""

_SHUT_ERROR = unavailable(
    "GRPC server is shutting down and has stopped accepting new requests. Send them to another server"
)
_SHUT = rpc_status(_SHUT_ERROR)

_MAY_BE_LARGE = frozenset(("ModelInfer", "RepositoryModelLoad"))
_TOO_LONG = rpc_status(
    invalid(
        f"the message is longer than {CODEC_BYTES} bytes; only ModelInfer, ModelStreamInfer and RepositoryModelLoad take longer ones"
    )
)

_Check = collections.abc.Callable[[Metadata], RpcStatus | None]
"""Returns the error of a call whose metadata lack what it needs."""

_UNAUTHENTICATED = 16
_NO_TOKEN = RpcStatus(_UNAUTHENTICATED, UNAUTHENTICATED)


class Methods:
    """The table.

    Args:
        settings: the header pattern, the categories that require a key, and the tokens: with a token file, every call except
            those about health needs one of them.

    Attributes:
        unary: the methods by their paths; a transport answers calls of unknown paths with UNIMPLEMENTED. They check no token: see `admit`.
        streaming: the methods whose calls are streams both ways.
        refused, compressed: see `MethodTable`; responses other than infer responses are not compressed (row 10.36).
        unchecked: the paths of which `admit` refuses no call now.
        values_in: see `MethodTable`.

    Raises:
        CannotServeError: the header pattern is not a regular expression.
    """

    def __init__(self, engine: Engine, settings: GrpcSettings, codec: Codec | None = None) -> None:
        try:
            forwarding = compiled(
                settings.header_forward_pattern, option="--grpc-header-forward-pattern"
            )
        except ValueError as error:
            raise CannotServeError(str(error)) from None
        self._shut = False
        self._observer: Observer | None = None
        self._streams = StreamInfer(engine, forwarding, shut=_SHUT_ERROR, codec=codec)
        methods = _methods_of(engine, forwarding, codec)
        self.refused = REFUSED
        self.unary = {path: method for path, (method, _) in methods.items()}
        self.streaming: dict[str, Streaming] = {STREAM_INFER: self._streams}
        categories = {path: category for path, (_, category) in methods.items()}
        categories[STREAM_INFER] = Category.INFERENCE
        self._reflection = _reflection_methods() if settings.reflection else {}
        self.streaming |= self._reflection
        categories |= dict.fromkeys(self._reflection, Category.METADATA)
        self.compressed = frozenset((INFER, *self.streaming))
        self.values_in: collections.abc.Mapping[str, ValuesIn] = {
            INFER: values_in,
            STREAM_INFER: values_in,
        }
        self._checks = {
            path: needed
            for path, category in categories.items()
            if (needed := _checks(category, settings.restrictions, settings.tokens))
        }
        self.unchecked = frozenset(categories) - self._checks.keys()
        self._health = frozenset(
            path for path, category in categories.items() if category is Category.HEALTH
        )

    def observe(self, observer: Observer) -> None:
        """Have every call observed; before a transport gets the methods."""
        self._streams.observer = observer
        self._observer = observer
        self.unary = {path: logged(path, method, observer) for path, method in self.unary.items()}
        self.streaming = {
            path: logged_stream(path, method, observer) for path, method in self.streaming.items()
        }

    def admit(self, path: str, metadata: Metadata) -> RpcStatus | None:
        """Why a call may not begin, or None.

        A transport calls this when it has the metadata, before it receives a message: a client that is refused occupies no memory. For a
        stream this is called once, when it begins (row 10.35).
        """
        if path in self.unchecked:
            return None  # nearly every call
        refused = self._refusal(path, metadata)
        if refused is not None and self._observer is not None:
            record_refused(path, refused, self._observer)
        return refused

    def _refusal(self, path: str, metadata: Metadata) -> RpcStatus | None:
        if self._shut and path not in self._health:
            return _SHUT
        for check in self._checks.get(path, ()):
            if (refused := check(metadata)) is not None:
                return refused
        return None

    def shut(self) -> None:
        """From now on refuse new calls (row 10.34), except those about health, which report the state themselves.

        Streams take no more requests and end once those in flight have their responses.
        """
        self._shut = True
        self.unchecked = frozenset()
        self._streams.shut()
        for method in self._reflection.values():
            method.shut()


def _checks(
    category: Category, restrictions: Restrictions, tokens: TokenFile | None
) -> tuple[_Check, ...]:
    """The checks of a category's calls."""
    checks: list[_Check] = []
    if tokens is not None and category is not Category.HEALTH:
        checks.append(functools.partial(_check_token, tokens))
    restriction = restrictions.get(category)
    if restriction is not None:
        checks.append(_check(restriction))
    return tuple(checks)


def _check(restriction: Restriction) -> _Check:
    name = KEY_PREFIX + restriction.header.lower()  # metadata keys are in lower case on the wire
    refused = rpc_status(
        unavailable(
            f"This protocol is restricted, expecting header '{name}': send it as metadata with the value that "
            "the administrator of this server chose"
        )
    )

    def check(metadata: Metadata) -> RpcStatus | None:
        return None if restriction.admits(_value_of(metadata, name)) else refused

    return check


def _check_token(tokens: TokenFile, metadata: Metadata) -> RpcStatus | None:
    return None if tokens.admits(_value_of(metadata, HEADER)) else _NO_TOKEN


def _value_of(metadata: Metadata, name: str) -> bytes | None:
    """The first value of a key; None if the metadata do not have it."""
    for key, value in metadata:
        if key == name:
            return value.encode() if isinstance(value, str) else value
    return None


def _methods_of(
    engine: Engine, forwarding: HeaderPattern | None, codec: Codec | None
) -> dict[str, tuple[Unary, Category]]:
    """Path -> the method and its category."""
    control = Control(engine, codec)
    methods: dict[Category, dict[str, Unary]] = {
        Category.INFERENCE: {"ModelInfer": ModelInfer(engine, forwarding, codec)},
        Category.HEALTH: {
            "ServerLive": at_once(control.server_live),
            "ServerReady": later(control.server_ready),
            "ModelReady": later(control.model_ready),
        },
        Category.METADATA: {
            "ServerMetadata": at_once(control.server_metadata),
            "ModelMetadata": at_once(control.model_metadata),
        },
        Category.MODEL_CONFIG: {"ModelConfig": at_once(control.model_config)},
        Category.STATISTICS: {"ModelStatistics": at_once(control.model_statistics)},
        Category.MODEL_REPOSITORY: {
            "RepositoryIndex": later(control.repository_index),
            "RepositoryModelLoad": later(control.repository_model_load),
            "RepositoryModelUnload": later(control.repository_model_unload),
        },
        Category.SHARED_MEMORY: {
            "SystemSharedMemoryStatus": at_once(control.system_shared_memory_status),
            "SystemSharedMemoryRegister": at_once(control.system_shared_memory_register),
            "SystemSharedMemoryUnregister": at_once(control.system_shared_memory_unregister),
            "CudaSharedMemoryStatus": at_once(control.cuda_shared_memory_status),
            "CudaSharedMemoryRegister": later(control.cuda_shared_memory_register),
            "CudaSharedMemoryUnregister": at_once(control.cuda_shared_memory_unregister),
        },
        Category.TRACE: {"TraceSetting": later(control.trace_setting)},
        Category.LOGGING: {"LogSettings": at_once(control.log_settings)},
    }
    table = {
        SERVICE + name: (method if name in _MAY_BE_LARGE else _bounded(method), category)
        for category, named in methods.items()
        for name, method in named.items()
    }
    table[CHECK] = (_bounded(later(control.health_check)), Category.HEALTH)
    return table


def _reflection_methods() -> "dict[str, Reflection]":
    from naiad.protocol.grpc import reflection  # noqa: PLC0415 - builds descriptors, which few servers need

    return reflection.methods(_SHUT)


def _bounded(method: Unary) -> Unary:
    """A method for short messages only: protobuf would keep the loop for a second with 64 MB of fields that nothing needs."""

    def bounded(body: bytes, call: RpcCall, on_response: OnRpcResponse) -> Cancellable | None:
        if len(body) > CODEC_BYTES:
            on_response(_TOO_LONG)
            return None
        return method(body, call, on_response)

    return bounded
