"""The methods about the server and its models: health, metadata, config, statistics, repository (rows 5.7, 7.1-7.18, 8.2-8.7, 10.2-10.8).

Each parses the message, calls the engine once, and writes the response. Bytes in, bytes out; failures are raised as InferenceError.
"""

import collections.abc
import functools
import typing

from naiad.core.messages import service_pb2
from naiad.engine.api import Engine, ModelVersionStatistics, TensorMetadata
from naiad.errors import ErrorCode, InferenceError, invalid, unsupported
from naiad.protocol import durations
from naiad.protocol.codec.frames import large, large_values, on_bytes
from naiad.protocol.codec.pool import CODEC_BYTES, Codec
from naiad.protocol.durations import Durations
from naiad.protocol.grpc.codec import settings_proto
from naiad.protocol.grpc.codec.request_proto import parse, version_number
from naiad.protocol.grpc.codec.response_proto import serialized

_NOT_SERVED = frozenset((ErrorCode.NOT_FOUND, ErrorCode.UNAVAILABLE, ErrorCode.INVALID_ARG))
"""The errors of a model that is unknown, not loaded, between states (row 2.8), or in several namespaces (row 7.37)."""

_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"
"""A grpc.health.v1.HealthCheckResponse with its one field, status.

Written by hand: registering the message with protobuf would collide with the package grpcio-health-checking when a model or an
embedding program imports it.
"""


class Control:
    """The methods. The codec decodes large messages; without it the loop does."""

    def __init__(self, engine: Engine, codec: Codec | None = None) -> None:
        self._engine = engine
        self._codec = codec

    def server_live(self, body: bytes) -> bytes:
        """ServerLive (row 10.4)."""
        return serialized(service_pb2.ServerLiveResponse(live=self._engine.server_live()))

    async def server_ready(self, body: bytes) -> bytes:
        """ServerReady (row 10.4)."""
        return serialized(service_pb2.ServerReadyResponse(ready=await self._engine.server_ready()))

    async def health_check(self, body: bytes) -> bytes:
        """Check of grpc.health.v1.Health, which follows ServerReady (row 10.3); its field `service` has no effect."""
        return _SERVING if await self._engine.server_ready() else _NOT_SERVING

    async def model_ready(self, body: bytes) -> bytes:
        """ModelReady: any model that does not serve is OK with ready=false; only an exiting server is an error (row 10.4).

        For a model that is unknown or not loaded, row 10.4 says NOT_FOUND. Releases before June 2026 respond with ready=false, which clients poll
        before a load, and so does this server.
        """
        request = parse(service_pb2.ModelReadyRequest, body)
        version = version_number(request.version)
        self._engine.server_live()
        try:
            ready = await self._engine.model_ready(request.name, version)
        except InferenceError as error:
            if error.code not in _NOT_SERVED:
                raise
            ready = False
        return serialized(service_pb2.ModelReadyResponse(ready=ready))

    def server_metadata(self, body: bytes) -> bytes:
        """ServerMetadata (row 2.13)."""
        metadata = self._engine.server_metadata()
        return serialized(
            service_pb2.ServerMetadataResponse(
                name=metadata.name, version=metadata.version, extensions=metadata.extensions
            )
        )

    def model_metadata(self, body: bytes) -> bytes:
        """ModelMetadata (rows 2.15, 2.16)."""
        request = parse(service_pb2.ModelMetadataRequest, body)
        metadata = self._engine.model_metadata(request.name, version_number(request.version))
        return serialized(
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
        request = parse(service_pb2.ModelConfigRequest, body)
        config = self._engine.model_config(request.name, version_number(request.version))
        return serialized(service_pb2.ModelConfigResponse(config=config))

    def model_statistics(self, body: bytes) -> bytes:
        """ModelStatistics (rows 8.2-8.8)."""
        request = parse(service_pb2.ModelStatisticsRequest, body)
        version = version_number(request.version)
        return statistics(self._engine.statistics(request.name, version))

    async def repository_index(self, body: bytes) -> bytes:
        """RepositoryIndex (rows 7.1-7.7)."""
        request = parse(service_pb2.RepositoryIndexRequest, body)
        _refuse_repository_name(request)
        response = service_pb2.RepositoryIndexResponse()
        for entry in await self._engine.index(ready_only=request.ready):
            response.models.add(
                name=entry.name,
                version="" if entry.version is None else str(entry.version),
                state=entry.state,
                reason=entry.reason,
            )
        return serialized(response)

    async def repository_model_load(self, body: bytes) -> bytes:
        """RepositoryModelLoad (rows 7.8, 7.11-7.14, 7.18)."""
        codec = self._codec
        if codec is None or len(body) <= CODEC_BYTES:
            name, overrides = load_request(body)
        else:
            name, overrides = await codec.submit(
                functools.partial(codec.call, on_bytes, large_load_request, large(body))
            )
        await self._engine.load_model(name, overrides)
        return b""

    async def repository_model_unload(self, body: bytes) -> bytes:
        """RepositoryModelUnload (rows 7.9, 7.10, 7.13, 7.26)."""
        request = parse(service_pb2.RepositoryModelUnloadRequest, body)
        _refuse_repository_name(request)
        parameter = request.parameters.get("unload_dependents")  # others have no effect (row 7.26)
        dependents = parameter is not None and _value_of(
            "unload", "unload_dependents", parameter, "bool_param"
        )
        await self._engine.unload_model(request.model_name, unload_dependents=dependents)
        return b""

    def system_shared_memory_status(self, body: bytes) -> bytes:
        """SystemSharedMemoryStatus (row 5.13)."""
        request = parse(service_pb2.SystemSharedMemoryStatusRequest, body)
        response = service_pb2.SystemSharedMemoryStatusResponse()
        for each in self._engine.regions.system(request.name):
            entry = response.regions[each.name]
            entry.name, entry.key = each.name, each.key
            entry.offset, entry.byte_size = each.offset, each.size
        return serialized(response)

    def system_shared_memory_register(self, body: bytes) -> bytes:
        """SystemSharedMemoryRegister (rows 5.7 to 5.10)."""
        request = parse(service_pb2.SystemSharedMemoryRegisterRequest, body)
        regions = self._engine.regions
        regions.require_allowed()
        if not request.name:
            raise invalid("a region needs a name: send 'name'")
        regions.register(request.name, request.key, request.offset, request.byte_size)
        return b""

    def system_shared_memory_unregister(self, body: bytes) -> bytes:
        """SystemSharedMemoryUnregister (rows 5.7, 5.16)."""
        request = parse(service_pb2.SystemSharedMemoryUnregisterRequest, body)
        self._engine.regions.unregister(request.name)
        return b""

    def cuda_shared_memory_status(self, body: bytes) -> bytes:
        """CudaSharedMemoryStatus (row 5.14)."""
        request = parse(service_pb2.CudaSharedMemoryStatusRequest, body)
        response = service_pb2.CudaSharedMemoryStatusResponse()
        for each in self._engine.regions.cuda(request.name):
            entry = response.regions[each.name]
            entry.name, entry.device_id, entry.byte_size = each.name, each.device, each.size
        return serialized(response)

    async def cuda_shared_memory_register(self, body: bytes) -> bytes:
        """CudaSharedMemoryRegister (row 5.14)."""
        request = parse(service_pb2.CudaSharedMemoryRegisterRequest, body)
        regions = self._engine.regions
        regions.require_allowed()
        if not request.name:
            raise invalid("a region needs a name: send 'name'")
        await regions.register_cuda(
            request.name, request.raw_handle, request.device_id, request.byte_size
        )
        return b""

    def cuda_shared_memory_unregister(self, body: bytes) -> bytes:
        """CudaSharedMemoryUnregister (row 5.16)."""
        request = parse(service_pb2.CudaSharedMemoryUnregisterRequest, body)
        self._engine.regions.unregister(request.name, on_gpu=True)
        return b""

    async def trace_setting(self, body: bytes) -> bytes:
        """TraceSetting (rows 9.1 to 9.10)."""
        request = parse(service_pb2.TraceSettingRequest, body)
        model, tracer = request.model_name, self._engine.tracer
        if model and not await self._engine.model_ready(model):
            raise invalid(f"Request for unknown model : {model}")
        if request.settings:
            tracer.change(model, settings_proto.trace_change(request))
        return serialized(settings_proto.trace_response(tracer.shown(model)))

    def log_settings(self, body: bytes) -> bytes:
        """LogSettings (rows 9.20 to 9.24)."""
        request = parse(service_pb2.LogSettingsRequest, body)
        logs = self._engine.logs
        logs.change(settings_proto.log_change(request))
        return serialized(settings_proto.log_response(logs.shown()))


def load_request(body: bytes) -> tuple[str, dict[str, str | bytes]]:
    """The model's name and the parameters of a RepositoryModelLoad: "config" as text, "file:<path>" as bytes (rows 7.15, 7.16, 10.41).

    Raises:
        InferenceError: INVALID_ARG for other parameters and types (row 7.18), UNSUPPORTED for a repository name.
    """
    request = parse(service_pb2.RepositoryModelLoadRequest, body)
    _refuse_repository_name(request)
    overrides: dict[str, str | bytes] = {}
    for name, value in request.parameters.items():
        if name == "config":
            overrides[name] = _value_of("load", name, value, "string_param")
        elif name.startswith("file:"):
            overrides[name] = _value_of("load", name, value, "bytes_param")
        else:
            raise invalid(f"unrecognized load parameter '{name}': those are config and file:<path>")
    return request.model_name, overrides


def large_load_request(body: bytes) -> tuple[str, dict[str, typing.Any]]:
    """`load_request` in a codec process: large values arrive as views, text as its UTF-8."""
    name, overrides = load_request(body)
    return name, large_values(overrides)


def statistics(entries: collections.abc.Iterable[ModelVersionStatistics]) -> bytes:
    """A ModelStatisticsResponse with entries in the order they are given (rows 8.2-8.7, 10.41).

    Durations without a count are present with zeros. Cache counters stay zero (no response cache yet).
    """
    response = service_pb2.ModelStatisticsResponse()
    for entry in entries:
        counted = entry.statistics
        message = response.model_stats.add(name=entry.name, version=str(entry.version))
        message.last_inference = counted.last_inference_ms
        message.inference_count = counted.inference_count
        message.execution_count = counted.execution_count
        _write(message.inference_stats, durations.of_model(counted))
        for batch_size, batch in sorted(counted.batches.items()):
            _write(message.batch_stats.add(batch_size=batch_size), durations.of_batch(batch))
        for index, responses in sorted(counted.responses.items()):
            _write(message.response_stats[str(index)], durations.of_response(responses))
        for usage in counted.memory:
            message.memory_usage.add(type=usage.type, id=usage.id, byte_size=usage.byte_size)
    return serialized(response)


def _write(message: typing.Any, counters: Durations) -> None:
    for name, (count, ns) in counters.items():
        duration = getattr(message, name)
        duration.count = count
        duration.ns = ns


def _value_of(action: str, name: str, value: typing.Any, expected: str) -> typing.Any:
    """The value of a ModelRepositoryParameter."""
    choice = value.WhichOneof("parameter_choice")
    if choice != expected:
        raise invalid(
            f"invalid value type for {action} parameter '{name}', expected {expected}. Got {choice or 'no value'}"
        )
    return getattr(value, choice)


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
