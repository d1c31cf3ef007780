"""The methods about the server and its models: health, metadata, config, repository (rows 10.2-10.8, 7.1-7.7, 7.13, 5.7).

Each parses the message, calls the engine once, and writes the response. Bytes in, bytes out; failures are raised as InferenceError.
"""

import functools
import typing

from google.protobuf.message import DecodeError

from naiad.core.messages import service_pb2
from naiad.engine.api import Engine, TensorMetadata
from naiad.errors import ErrorCode, InferenceError, internal, unsupported
from naiad.protocol import not_supported
from naiad.protocol.codec.frames import large, large_values, on_bytes
from naiad.protocol.codec.pool import LARGE, Codec
from naiad.protocol.grpc.admin import model_control
from naiad.protocol.grpc.codec import statistics_proto
from naiad.protocol.grpc.codec.request_proto import version_number

_NOT_SERVED = frozenset((ErrorCode.NOT_FOUND, ErrorCode.UNAVAILABLE))
"""The errors of a model that is unknown, not loaded, or between states (row 2.8)."""


class Control:
    """The methods.

    Args:
        engine: knows the models.
        codec: decodes large messages; without it the loop does.
    """

    def __init__(self, engine: Engine, codec: Codec | None = None) -> None:
        self._engine = engine
        self._codec = codec

    def server_live(self, body: bytes) -> bytes:
        """ServerLive (row 10.4)."""
        return _bytes(service_pb2.ServerLiveResponse(live=self._engine.server_live()))

    async def server_ready(self, body: bytes) -> bytes:
        """ServerReady (row 10.4)."""
        return _bytes(service_pb2.ServerReadyResponse(ready=await self._engine.server_ready()))

    async def model_ready(self, body: bytes) -> bytes:
        """ModelReady: any model that does not serve is OK with ready=false; only an exiting server is an error (row 10.4).

        For a model that is unknown or not loaded, row 10.4 says NOT_FOUND. Releases before June 2026 respond with ready=false, which clients poll
        before a load, and so does this server.
        """
        request = _parse(service_pb2.ModelReadyRequest, body)
        version = version_number(request.version)
        self._engine.server_live()
        try:
            ready = await self._engine.model_ready(request.name, version)
        except InferenceError as error:
            if error.code not in _NOT_SERVED:
                raise
            ready = False
        return _bytes(service_pb2.ModelReadyResponse(ready=ready))

    def server_metadata(self, body: bytes) -> bytes:
        """ServerMetadata (row 2.13)."""
        metadata = self._engine.server_metadata()
        return _bytes(
            service_pb2.ServerMetadataResponse(
                name=metadata.name, version=metadata.version, extensions=metadata.extensions
            )
        )

    def model_metadata(self, body: bytes) -> bytes:
        """ModelMetadata (rows 2.15, 2.16)."""
        request = _parse(service_pb2.ModelMetadataRequest, body)
        metadata = self._engine.model_metadata(request.name, version_number(request.version))
        return _bytes(
            service_pb2.ModelMetadataResponse(
                name=metadata.name,
                versions=[str(version) for version in metadata.versions],
                platform=metadata.platform,
                inputs=[_tensor(tensor) for tensor in metadata.inputs],
                outputs=[_tensor(tensor) for tensor in metadata.outputs],
            )
        )

    def model_config(self, body: bytes) -> bytes:
        """ModelConfig (row 2.19): the message itself."""
        request = _parse(service_pb2.ModelConfigRequest, body)
        config = self._engine.model_config(request.name, version_number(request.version))
        return _bytes(service_pb2.ModelConfigResponse(config=config))

    def model_statistics(self, body: bytes) -> bytes:
        """ModelStatistics (rows 8.2-8.8)."""
        request = _parse(service_pb2.ModelStatisticsRequest, body)
        version = version_number(request.version)
        return statistics_proto.encode(self._engine.statistics(request.name, version))

    async def repository_index(self, body: bytes) -> bytes:
        """RepositoryIndex (rows 7.1-7.7)."""
        request = _parse(service_pb2.RepositoryIndexRequest, body)
        _refuse_repository_name(request)
        response = service_pb2.RepositoryIndexResponse()
        for entry in await self._engine.index(ready_only=request.ready):
            response.models.add(
                name=entry.name,
                version="" if entry.version is None else str(entry.version),
                state=entry.state,
                reason=entry.reason,
            )
        return _bytes(response)

    async def repository_model_load(self, body: bytes) -> bytes:
        """RepositoryModelLoad (rows 7.8, 7.11-7.14, 7.18)."""
        codec = self._codec
        if codec is None or len(body) <= LARGE:
            name, overrides = load_request(body)
        else:
            name, overrides = await codec.submit(
                functools.partial(codec.call, on_bytes, large_load_request, large(body))
            )
        await self._engine.load_model(name, overrides)
        return b""

    async def repository_model_unload(self, body: bytes) -> bytes:
        """RepositoryModelUnload (rows 7.9, 7.10, 7.13, 7.26)."""
        request = _parse(service_pb2.RepositoryModelUnloadRequest, body)
        _refuse_repository_name(request)
        dependents = model_control.unload_dependents(request.parameters)
        await self._engine.unload_model(request.model_name, unload_dependents=dependents)
        return b""

    def system_shared_memory_status(self, body: bytes) -> bytes:
        """SystemSharedMemoryStatus (rows 5.7, 5.13): there are no regions."""
        request = _parse(service_pb2.SystemSharedMemoryStatusRequest, body)
        if request.name:
            raise not_supported.shared_memory_status("system", request.name)
        return b""

    def cuda_shared_memory_status(self, body: bytes) -> bytes:
        """CudaSharedMemoryStatus (rows 5.7, 5.13): there are no regions."""
        request = _parse(service_pb2.CudaSharedMemoryStatusRequest, body)
        if request.name:
            raise not_supported.shared_memory_status("cuda", request.name)
        return b""

    def shared_memory_change(self, body: bytes) -> bytes:
        """Register and Unregister of both kinds (row 5.7)."""
        raise not_supported.shared_memory_change()

    def trace_setting(self, body: bytes) -> bytes:
        """TraceSetting: not supported yet."""
        raise unsupported("TraceSetting is not supported yet: this server does not trace requests")

    def log_settings(self, body: bytes) -> bytes:
        """LogSettings: not supported yet."""
        raise unsupported(
            "LogSettings is not supported yet: set the --log-* options when the server is started"
        )


def load_request(body: bytes) -> tuple[str, dict[str, str | bytes]]:
    """The model's name and the parameters of a RepositoryModelLoad; raises InferenceError."""
    request = _parse(service_pb2.RepositoryModelLoadRequest, body)
    _refuse_repository_name(request)
    return request.model_name, model_control.load_overrides(request.parameters)


def large_load_request(body: bytes) -> tuple[str, dict[str, typing.Any]]:
    """`load_request` in a codec process: large values arrive as views, text as its UTF-8."""
    name, overrides = load_request(body)
    return name, large_values(overrides)


def _parse(message_class: typing.Any, body: bytes) -> typing.Any:
    """The parsed message; bytes that are not one are INTERNAL, as in grpc."""
    try:
        return message_class.FromString(body)
    except DecodeError as error:
        name = message_class.DESCRIPTOR.name
        raise internal(
            f"Unable to parse request: the message is not a {name} ({error}); "
            "generate the client from Triton's grpc_service.proto"
        ) from None


def _bytes(message: typing.Any) -> bytes:
    return typing.cast("bytes", message.SerializeToString())


def _tensor(tensor: TensorMetadata) -> typing.Any:
    return service_pb2.ModelMetadataResponse.TensorMetadata(
        name=tensor.name, datatype=tensor.datatype.name, shape=tensor.shape
    )


def _refuse_repository_name(request: typing.Any) -> None:
    """A repository name is refused (row 7.7)."""
    if request.repository_name:
        raise unsupported(
            "'repository_name' specification is not supported: leave it empty, all repositories are one"
        )
