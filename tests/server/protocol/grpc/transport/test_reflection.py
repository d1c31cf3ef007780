"""Server reflection over both engines: what tools ask to find the services (`--grpc-reflection`)."""

import pathlib
import types
import typing

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pb2

from naiad.core.clock import ManualClock
from naiad.core.messages import service_pb2
from naiad.protocol.codec.pool import CODEC_BYTES
from naiad.protocol.grpc.reflection import PATHS
from naiad.protocol.grpc.reflection_files import ProtoFiles
from naiad.protocol.restricted import Category, Restriction
from naiad.protocol.tokens import TokenFile
from tests.server.protocol.grpc.scripted_engine import ScriptedEngine
from tests.server.protocol.grpc.serving import channel_to, serving

FILES = ProtoFiles()
PATH = next(iter(PATHS))


class Client:
    """A stream of requests."""

    def __init__(self, channel: typing.Any, path: str, *metadata: tuple[str, str]) -> None:
        package = PATHS[path]
        self._request = FILES.message_class(f"{package}.ServerReflectionRequest")
        response = FILES.message_class(f"{package}.ServerReflectionResponse")
        method = channel.stream_stream(path, response_deserializer=response.FromString)
        self.call = method(metadata=metadata)

    async def ask(self, **fields: typing.Any) -> typing.Any:
        request = self._request(host="h", **fields)
        await self.call.write(request.SerializeToString())
        response = await self.call.read()
        assert response.valid_host == "h"
        assert response.original_request == request
        return response

    async def error(self, **fields: typing.Any) -> tuple[int, str]:
        error = (await self.ask(**fields)).error_response
        return error.error_code, error.error_message

    async def files(self, **fields: typing.Any) -> list[str]:
        """The names of the files in a response."""
        found = (await self.ask(**fields)).file_descriptor_response.file_descriptor_proto
        return [descriptor_pb2.FileDescriptorProto.FromString(each).name for each in found]


@pytest.mark.parametrize("path", PATHS)
async def test_a_client_finds_the_services_and_their_messages(path: str) -> None:
    async with serving(ScriptedEngine(), reflection=True) as port, channel_to(port) as channel:
        client = Client(channel, path)
        listed = (await client.ask(list_services="*")).list_services_response.service
        assert [each.name for each in listed] == [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "inference.GRPCInferenceService",
        ]
        both = ["grpc_service.proto", "model_config.proto"]
        for symbol in (
            "inference.GRPCInferenceService",
            "inference.GRPCInferenceService.ModelInfer",
            "inference.ModelInferRequest.InferInputTensor",
            "inference.ModelInferRequest.id",
        ):
            assert await client.files(file_containing_symbol=symbol) == both
        assert await client.files(file_containing_symbol="inference.TYPE_FP32") == both[1:]
        assert await client.files(file_containing_symbol="inference.ModelConfig") == both[1:]
        assert await client.files(file_by_filename=both[0]) == both
        health = "grpc/health/v1/health.proto"
        assert await client.files(file_containing_symbol="grpc.health.v1.Health") == [health]
        numbers = await client.ask(all_extension_numbers_of_type="inference.ModelConfig")
        assert numbers.all_extension_numbers_response.base_type_name == "inference.ModelConfig"
        assert not numbers.all_extension_numbers_response.extension_number
        await client.call.done_writing()
        assert await client.call.read() is grpc.aio.EOF
        assert await client.call.code() is grpc.StatusCode.OK


async def test_the_files_are_those_of_the_server() -> None:
    async with serving(ScriptedEngine(), reflection=True) as port, channel_to(port) as channel:
        response = await Client(channel, PATH).ask(file_by_filename="grpc_service.proto")
        first = response.file_descriptor_response.file_descriptor_proto[0]
        expected = descriptor_pb2.FileDescriptorProto.FromString(
            service_pb2.DESCRIPTOR.serialized_pb
        )
        assert descriptor_pb2.FileDescriptorProto.FromString(first) == expected


async def test_what_is_not_there_is_an_error_response_and_the_stream_goes_on() -> None:
    async with serving(ScriptedEngine(), reflection=True) as port, channel_to(port) as channel:
        client = Client(channel, PATH)
        assert await client.error(file_by_filename="x") == (5, "File not found: 'x'")
        assert await client.error(file_containing_symbol="a.B") == (5, "Symbol not found: 'a.B'")
        assert await client.error(file_containing_symbol="") == (5, "Symbol not found: ''")
        extension = {"containing_type": "inference.ModelConfig", "extension_number": 7}
        assert (await client.error(file_containing_extension=extension))[0] == 5
        assert (await client.error(all_extension_numbers_of_type="a.B"))[0] == 5
        assert (await client.error())[0] == 3
        assert (await client.ask(list_services="")).list_services_response.service


async def refusal(channel: typing.Any, sent: bytes = b"") -> grpc.StatusCode:
    """The status of a stream that the server ends, at once or after a message."""
    call = channel.stream_stream(PATH)()
    if sent:
        await call.write(sent)
    with pytest.raises(grpc.aio.AioRpcError):
        await call.read()
    return typing.cast("grpc.StatusCode", await call.code())


async def test_it_is_off_by_default() -> None:
    async with serving(ScriptedEngine()) as port, channel_to(port) as channel:
        assert await refusal(channel) is grpc.StatusCode.UNIMPLEMENTED


async def test_bytes_that_are_not_a_request_end_the_stream() -> None:
    async with serving(ScriptedEngine(), reflection=True) as port, channel_to(port) as channel:
        assert await refusal(channel, b"\x1a\xff") is grpc.StatusCode.INTERNAL
        long = bytes(CODEC_BYTES + 1)
        assert await refusal(channel, long) is grpc.StatusCode.INVALID_ARGUMENT


async def test_it_is_restricted_as_metadata_is() -> None:
    restrictions = types.MappingProxyType(
        {Category.METADATA: Restriction(header="Key", value="open")}
    )
    engine = ScriptedEngine()
    async with (
        serving(engine, reflection=True, restrictions=restrictions) as port,
        channel_to(port) as channel,
    ):
        assert await refusal(channel) is grpc.StatusCode.UNAVAILABLE
        client = Client(channel, PATH, ("triton-grpc-protocol-key", "open"))
        assert (await client.ask(list_services="")).HasField("list_services_response")


async def test_with_a_token_file_it_needs_a_token(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tokens").write_text("secret\n")
    tokens = TokenFile(str(tmp_path / "tokens"), clock=ManualClock())
    engine = ScriptedEngine()
    async with serving(engine, reflection=True, tokens=tokens) as port, channel_to(port) as channel:
        assert await refusal(channel) is grpc.StatusCode.UNAUTHENTICATED
        client = Client(channel, PATH, ("authorization", "Bearer secret"))
        assert (await client.ask(list_services="")).HasField("list_services_response")


async def test_a_stream_that_asks_nothing_ends_when_the_server_stops() -> None:
    async with serving(ScriptedEngine(), reflection=True) as port, channel_to(port) as channel:
        client = Client(channel, PATH)
        await client.ask(list_services="")
        assert await port.close(30) == 0
        with pytest.raises(grpc.aio.AioRpcError, match="shutting down"):
            await client.call.read()
