"""Slow and hostile gRPC clients: their neighbour is answered, and connections, requests and memory are given back when they have gone."""

import collections.abc
import contextlib
import gzip
import pathlib
import random

import grpc
import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.grpc import service_pb2 as pb

from tests.reference.process import ServerProcess
from tests.support.http2 import grpc_message
from tests.support.waiting import wait_until
from tests.wire.process.test_process import ADD, launched
from tests.wire.protocol.raw_grpc import INFER, RawConnection
from tests.wire.protocol.test_clients import tensor
from tests.wire.protocol.test_grpc_memory import MIB, resident
from tests.wire.protocol.test_refused_counts import counted

pytestmark = pytest.mark.slow

TOKEN = ("authorization", "Bearer first")
ALLOWED = 128 * MIB
"""What allocators may keep of memory that was given back."""


@pytest.fixture(scope="module")
def server(
    models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "token").write_text("first\n")
    options = (*ADD, "--load-model=slow", f"--auth-token-file={folder / 'token'}")
    with launched(models, folder, *options) as running:
        neighbour(running)  # what the first call of all makes is not counted
        yield running
        log = running.output()
    assert "Traceback" not in log
    assert "ExecuteBatchError" not in log


def neighbour(server: ServerProcess) -> None:
    """A client that does nothing wrong."""
    x = np.ones((1, 4), np.float32)
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        given = tensor(tritonclient.grpc, "x", x, "FP32")
        result = client.infer("add", [given], headers=dict([TOKEN]), client_timeout=120)
    assert (result.as_numpy("y") == 2 * x).all()


def connections(server: ServerProcess) -> int:
    """How many sockets the server has open; other descriptors, as the memory that workers share, are kept for the next request."""
    assert server.process is not None
    found = 0
    for link in pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += link.readlink().name.startswith("socket:")
    return found


@contextlib.contextmanager
def given_back(server: ServerProcess) -> collections.abc.Iterator[None]:
    """What the body takes of the server comes back after it."""
    opened, memory = connections(server), resident(server)
    yield
    neighbour(server)
    wait_until(lambda: connections(server) <= opened, what="connections are left")
    wait_until(lambda: resident(server) - memory < ALLOWED, what="memory is left")
    pending = "nv_inference_pending_request_count"
    wait_until(lambda: counted(server, pending) == 0, what="requests are left")


def small_request(model: str = "add") -> bytes:
    request = pb.ModelInferRequest(model_name=model)
    request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    request.raw_input_contents.append(bytes(16))
    return bytes(request.SerializeToString())


@pytest.mark.parametrize("metadata", [(), (TOKEN,)], ids=["no token", "token"])
def test_calls_that_are_opened_and_never_sent(
    server: ServerProcess, metadata: tuple[tuple[str, str], ...]
) -> None:
    with given_back(server), contextlib.ExitStack() as stack:
        for _ in range(10):
            connection = stack.enter_context(RawConnection(server.grpc))
            for _ in range(50):
                connection.open(*metadata)
        neighbour(server)


@pytest.mark.parametrize("metadata", [(), (TOKEN,)], ids=["no token", "token"])
def test_messages_of_two_gibibytes_of_which_a_piece_comes(
    server: ServerProcess, metadata: tuple[tuple[str, str], ...]
) -> None:
    with given_back(server), contextlib.ExitStack() as stack:
        for _ in range(50):
            connection = stack.enter_context(RawConnection(server.grpc))
            stream = connection.open(*metadata)
            connection.send(stream, grpc_message(bytes(32_000), length=2**31 - 1))
        neighbour(server)


def test_a_flood_of_cancelled_calls(server: ServerProcess) -> None:
    message = grpc_message(small_request())
    with given_back(server):
        for _ in range(10):
            # The server may end a connection that does this.
            with (
                contextlib.suppress(BrokenPipeError, ConnectionResetError),
                RawConnection(server.grpc) as connection,
            ):
                for _ in range(200):
                    stream = connection.open(TOKEN)
                    connection.send(stream, message, end=True)
                    connection.cancel(stream)
        neighbour(server)


def test_a_neighbour_is_answered_while_thousands_of_calls_wait(server: ServerProcess) -> None:
    """By default grpc refuses other clients' calls when more than a thousand wait for the event loop."""
    message = grpc_message(small_request())
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(RawConnection(server.grpc)) for _ in range(10)]
        for connection in connections:
            connection.open_many(500, message, TOKEN)
        neighbour(server)


def test_metadata_up_to_the_limit_is_taken_and_more_is_refused(server: ServerProcess) -> None:
    with given_back(server), grpc.insecure_channel(server.grpc) as channel:
        infer = channel.unary_unary(INFER)
        assert infer(small_request(), metadata=(TOKEN, ("x-note", "n" * 6_000)), timeout=120)
        with pytest.raises(grpc.RpcError) as caught:
            infer(small_request(), metadata=(TOKEN, ("x-note", "n" * 100_000)), timeout=120)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_messages_that_lie_about_their_compression(server: ServerProcess) -> None:
    message = small_request()
    encoded = ("grpc-encoding", "gzip")
    with given_back(server):
        for headers, body in (
            ((TOKEN,), grpc_message(message, compressed=True)),
            ((TOKEN, encoded), grpc_message(message, compressed=True)),
            ((TOKEN, encoded), grpc_message(gzip.compress(message)[:-9], compressed=True)),
            ((TOKEN, encoded), grpc_message(gzip.compress(message), compressed=False)),
            ((TOKEN, ("grpc-encoding", "nothing")), grpc_message(message, compressed=True)),
        ):
            with RawConnection(server.grpc) as connection:
                connection.send(connection.open(*headers), body, end=True)
                neighbour(server)


def test_a_message_that_inflates_is_not_even_taken_without_a_token(server: ServerProcess) -> None:
    bomb = gzip.compress(bytes(48 * MIB))
    with given_back(server), contextlib.ExitStack() as stack:
        before = resident(server)
        for _ in range(20):
            connection = stack.enter_context(RawConnection(server.grpc))
            stream = connection.open(("grpc-encoding", "gzip"))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.send(stream, grpc_message(bomb, compressed=True), end=True)
        neighbour(server)
        wait_until(lambda: resident(server) - before < ALLOWED)


def test_a_storm_of_deadlines_and_cancels(server: ServerProcess) -> None:
    chance = random.Random(5)
    request = pb.ModelInferRequest(model_name="slow")
    request.inputs.add(name="SECONDS", datatype="FP32", shape=[1])
    request.raw_input_contents.append(np.full(1, 0.005, np.float32).tobytes())
    slow = request.SerializeToString()
    ended = {
        grpc.StatusCode.OK,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
    }
    with given_back(server), grpc.insecure_channel(server.grpc) as channel:
        infer = channel.unary_unary(INFER)
        for _ in range(10):
            calls = [
                infer.future(
                    chance.choice((slow, small_request())),
                    metadata=(TOKEN,),
                    timeout=chance.uniform(0.001, 0.3),
                )
                for _ in range(60)
            ]
            for call in chance.sample(calls, 15):
                call.cancel()
            assert {call.code() for call in calls} <= ended
        neighbour(server)
