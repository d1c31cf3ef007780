"""Long messages, which are read into one buffer for all connections, arrive as they were sent: also over TLS, on asyncio's loop and on uvloop's."""

import asyncio
import typing

import grpc
import grpc.aio
import numpy as np
import pytest
import uvloop

from naiad.core.messages import service_pb2
from naiad.protocol.grpc.methods import INFER, Methods
from naiad.protocol.grpc.settings import GrpcSettings, TlsSettings
from naiad.protocol.grpc.transport.native.listener import NativeGrpcServer
from tests.server.protocol.grpc import certificates
from tests.server.protocol.grpc.certificates import Certificates
from tests.server.protocol.grpc.scripted_engine import ScriptedEngine

COUNT = 1 << 20


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def message(number: int) -> bytes:
    """A request of four MiB and some, of numbers that no other has."""
    count = COUNT + 64 * number
    request = service_pb2.ModelInferRequest(model_name="m", id=str(number))
    request.inputs.add(name="IN", datatype="UINT32", shape=[count])
    values = np.arange(number << 24, (number << 24) + count, dtype=np.uint32)
    request.raw_input_contents.append(values.tobytes())
    return bytes(request.SerializeToString())


async def exchanged(files: Certificates, *, secured: bool) -> list[tuple[bytes, bytes]]:
    """What each of several clients at once sent and got as values."""
    tls = TlsSettings(server_cert=str(files.server_cert), server_key=str(files.server_key))
    settings = GrpcSettings(address="127.0.0.1", port=0, tls=tls if secured else None)
    server = NativeGrpcServer(settings, Methods(ScriptedEngine(), settings))
    await server.start()
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]

    async def one(number: int) -> tuple[bytes, bytes]:
        where = f"localhost:{server.address[1]}"
        channel: typing.Any = grpc.aio.insecure_channel(where, options)
        if secured:
            trusted = grpc.ssl_channel_credentials(files.authority.read_bytes())
            channel = grpc.aio.secure_channel(where, trusted, options)
        sent = message(number)
        async with channel:
            answer = service_pb2.ModelInferResponse.FromString(
                await channel.unary_unary(INFER)(sent)
            )
        assert answer.id == str(number)
        request = service_pb2.ModelInferRequest.FromString(sent)
        return request.raw_input_contents[0], answer.raw_output_contents[0]

    try:
        return list(await asyncio.gather(*map(one, range(4))))
    finally:
        await server.close(0)


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    "loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_each_client_gets_its_own_numbers_back(
    files: Certificates, loop: typing.Any, *, secured: bool
) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        found = runner.run(exchanged(files, secured=secured))
    for sent, got in found:
        assert sent == got
