"""A real server keeps no message of a gRPC call that it has refused, from any client."""

import collections.abc
import pathlib

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.reference.forking import switched_off
from tests.reference.process import ServerProcess
from tests.support.waiting import wait_until
from tests.wire.process.test_process import ADD, launched

pytestmark = pytest.mark.slow

MIB = 1 << 20
MESSAGE = 32 * MIB
CALLS = 20
ALLOWED = 80 * MIB
"""What grpc and the allocator may hold on to: on a busy machine the last message or two, of so many."""

TOKEN = (("authorization", "Bearer first"),)


@pytest.fixture(scope="module")
def server(
    models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "token").write_text("first\n")
    # A fork maps libraries only as it uses them, which would look like memory that is kept.
    with (
        switched_off(),
        launched(models, folder, *ADD, f"--auth-token-file={folder / 'token'}") as running,
    ):
        yield running


def resident(server: ServerProcess) -> int:
    """Bytes of memory that the server's own process occupies."""
    assert server.process is not None
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def big_request(model: str) -> bytes:
    request = pb.ModelInferRequest(model_name=model)
    request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    request.raw_input_contents.append(bytes(MESSAGE))
    return bytes(request.SerializeToString())


@pytest.mark.parametrize(
    ("model", "metadata", "status"),
    [
        ("add", (), grpc.StatusCode.UNAUTHENTICATED),
        ("nothing", TOKEN, grpc.StatusCode.NOT_FOUND),
        ("add", TOKEN, grpc.StatusCode.INVALID_ARGUMENT),
    ],
    ids=["no token", "unknown model", "wrong size"],
)
def test_refused_calls_leave_no_message_in_memory(
    server: ServerProcess,
    model: str,
    metadata: tuple[tuple[str, str], ...],
    status: grpc.StatusCode,
) -> None:
    body = big_request(model)
    with grpc.insecure_channel(
        server.grpc, options=[("grpc.max_send_message_length", -1)]
    ) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")

        def refused() -> None:
            with pytest.raises(grpc.RpcError) as caught:
                infer(body, metadata=metadata, timeout=60)
            assert caught.value.code() is status

        before = resident(server)
        for _ in range(CALLS):
            refused()
        # The server keeps the memory of large messages until none came for 5 s.
        wait_until(lambda: resident(server) - before < ALLOWED, seconds=60)
