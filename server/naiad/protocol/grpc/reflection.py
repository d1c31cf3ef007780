"""Server reflection (`--grpc-reflection`, ours: row 10.1): tools such as grpcurl ask the port which services and messages it has.

One stream has any number of requests, each with one response. What a client may ask is what is in Triton's public proto files, so that no
response says anything about models.
"""

import collections.abc
import functools
import typing

from naiad.errors import InferenceError, invalid
from naiad.protocol.codec.pool import CODEC_BYTES
from naiad.protocol.grpc.call import RpcCall, RpcStatus, StreamHandler, StreamWriter, rpc_status
from naiad.protocol.grpc.codec.request_proto import parse
from naiad.protocol.grpc.codec.response_proto import serialized
from naiad.protocol.grpc.reflection_files import PACKAGES, ProtoFiles

PATHS = {f"/{package}.ServerReflection/ServerReflectionInfo": package for package in PACKAGES}
"""The paths of the method in both versions of the service, and the package of their messages."""

_INVALID_ARGUMENT, _NOT_FOUND = 3, 5

_TOO_LONG = rpc_status(
    invalid(f"the message is longer than {CODEC_BYTES} bytes: a name of a file or symbol was expected")
)  # fmt: skip


class Reflection:
    """The method, in one version; a `call.Streaming`.

    Args:
        shut: the status of streams that end because the server stops.
    """

    def __init__(self, files: ProtoFiles, package: str, *, shut: RpcStatus) -> None:
        self._files = files
        self._request = files.message_class(f"{package}.ServerReflectionRequest")
        self._response = files.message_class(f"{package}.ServerReflectionResponse")
        self._shut = shut
        self.live = set[ReflectionStream]()

    def __call__(self, call: RpcCall, writer: StreamWriter) -> StreamHandler:
        """Begin a stream."""
        stream = ReflectionStream(self, writer)
        self.live.add(stream)
        return stream

    def shut(self) -> None:
        """End every stream: none has a request without its response."""
        for stream in tuple(self.live):
            stream.end(self._shut)

    def respond(self, body: bytes) -> bytes:
        """The response to one request.

        Raises:
            InferenceError: INTERNAL for bytes that are not a request.
        """
        request = parse(self._request, body)
        response = self._response(valid_host=request.host, original_request=request)
        kind = request.WhichOneof("message_request")
        if kind is None:
            _refuse(response, _INVALID_ARGUMENT, "the request asks nothing: set one of its fields behind 'host'")  # fmt: skip
        else:
            _ANSWERS[kind](self._files, getattr(request, kind), response)
        return serialized(response)


class ReflectionStream:
    """One stream; a `call.StreamHandler`."""

    __slots__ = ("_ended", "_held", "_method", "_writer")

    def __init__(self, method: Reflection, writer: StreamWriter) -> None:
        self._method = method
        self._writer = writer
        self._held = self._ended = False

    def take(self, body: bytes) -> None:
        """See `StreamHandler`."""
        if self._ended:
            return
        if len(body) > CODEC_BYTES:
            self.end(_TOO_LONG)
            return
        try:
            response = self._method.respond(body)
        except InferenceError as error:
            self.end(rpc_status(error))
            return
        self._writer.send(response)

    def half_close(self) -> None:
        """See `StreamHandler`."""
        self.end(None)

    def pause(self) -> None:
        """See `StreamHandler`."""
        self._held = True

    def resume(self) -> None:
        """See `StreamHandler`."""
        self._held = False

    def may_take(self) -> bool:
        """See `StreamHandler`."""
        return not self._held

    def has_sequences(self) -> bool:
        """See `StreamHandler`."""
        return False

    def cancel(self) -> None:
        """See `StreamHandler`."""
        self._ended = True
        self._method.live.discard(self)

    def end(self, refused: RpcStatus | None) -> None:
        """End the stream. Idempotent."""
        if not self._ended:
            self.cancel()
            self._writer.end(refused)


def _refuse(response: typing.Any, code: int, message: str) -> None:
    response.error_response.error_code = code
    response.error_response.error_message = message


def _files_or_refusal(response: typing.Any, found: list[bytes] | None, message: str) -> None:
    if found is None:
        _refuse(response, _NOT_FOUND, message)
    else:
        response.file_descriptor_response.file_descriptor_proto.extend(found)


def _list_services(files: ProtoFiles, asked: str, response: typing.Any) -> None:
    for name in files.services:
        response.list_services_response.service.add(name=name)


def _file_by_filename(files: ProtoFiles, name: str, response: typing.Any) -> None:
    _files_or_refusal(response, files.by_name(name), f"File not found: '{name}'")


def _file_containing_symbol(files: ProtoFiles, symbol: str, response: typing.Any) -> None:
    _files_or_refusal(response, files.by_symbol(symbol), f"Symbol not found: '{symbol}'")


def _file_containing_extension(files: ProtoFiles, asked: typing.Any, response: typing.Any) -> None:
    """The served files are proto3, which has no extensions."""
    _refuse(
        response,
        _NOT_FOUND,
        f"Extension not found: number {asked.extension_number} of '{asked.containing_type}'",
    )


def _all_extension_numbers(files: ProtoFiles, name: str, response: typing.Any) -> None:
    if name in files.messages:
        response.all_extension_numbers_response.base_type_name = name
    else:
        _refuse(response, _NOT_FOUND, f"Type not found: '{name}'")


_ANSWERS: dict[str, collections.abc.Callable[[ProtoFiles, typing.Any, typing.Any], None]] = {
    "list_services": _list_services,
    "file_by_filename": _file_by_filename,
    "file_containing_symbol": _file_containing_symbol,
    "file_containing_extension": _file_containing_extension,
    "all_extension_numbers_of_type": _all_extension_numbers,
}


@functools.cache
def _proto_files() -> ProtoFiles:
    return ProtoFiles()


def methods(shut: RpcStatus) -> dict[str, Reflection]:
    """The method by its paths."""
    files = _proto_files()
    return {path: Reflection(files, package, shut=shut) for path, package in PATHS.items()}
