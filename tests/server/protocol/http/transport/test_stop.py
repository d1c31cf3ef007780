"""How the HTTP port ends: each order of events in which a request could stay without its response, over real sockets."""

import asyncio
import collections.abc
import contextlib
import gc
import socket

import pytest
import uvloop

from naiad.protocol.transport.listener import Listener
from tests.server.protocol.http.scripted import Reply, ScriptedRoutes, post, read_replies
from tests.server.protocol.http.transport.test_listener import listener
from tests.support.waiting import until

Scenario = collections.abc.Callable[
    [Listener, ScriptedRoutes], collections.abc.Coroutine[None, None, None]
]
Served = collections.abc.Callable[[Scenario], None]


async def _run(scenario: Scenario) -> None:
    routes = ScriptedRoutes()
    server = listener(routes)
    await server.start()
    try:
        await scenario(server, routes)
    finally:
        await server.close(0)


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def served(request: pytest.FixtureRequest) -> Served:
    """Runs a scenario against a started listener, on each of the event loops."""

    def run(scenario: Scenario) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(_run(scenario), 60))

    return run


async def read(client: socket.socket) -> bytes:
    """All that comes until the server has finished sending."""
    loop, got = asyncio.get_running_loop(), bytearray()
    client.setblocking(False)
    while part := await loop.sock_recv(client, 1 << 20):
        got += part
    return bytes(got)


async def last_reply(client: socket.socket) -> Reply:
    """The only response, behind which the server closes."""
    (reply,) = read_replies(await read(client))
    assert reply.headers["connection"] == "close"
    return reply


async def idle(server: Listener) -> socket.socket:
    """A client whose request has its response, and that stays connected."""
    before = server.connections
    client = socket.create_connection(server.address)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, post("/echo", b"first"))
    assert read_replies(await loop.sock_recv(client, 1 << 16))[0].body == b"first"
    assert server.connections == before + 1
    return client


def test_a_client_that_has_connected_and_waits_to_be_accepted_is_served(served: Served) -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        with socket.create_connection(server.address) as client:  # nothing else runs meanwhile
            client.sendall(post("/echo", b"waits"))
            closing = asyncio.ensure_future(server.close(30))
            assert (await last_reply(client)).body == b"waits"
            client.close()
            assert await closing == 0

    served(scenario)


def test_of_many_clients_that_wait_to_be_accepted_each_is_served(served: Served) -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        with contextlib.ExitStack() as stack:
            clients = [
                stack.enter_context(socket.create_connection(server.address)) for _ in range(100)
            ]
            for client in clients:
                client.sendall(post("/echo", b"waits"))
            closing = asyncio.ensure_future(server.close(30))
            replies = [read_replies(await read(client)) for client in clients]
            assert [[reply.body for reply in each] for each in replies] == [[b"waits"]] * 100
            for client in clients:
                client.close()
            assert await closing == 0

    served(scenario)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_clients_that_connect_in_every_iteration_of_the_loop_do_not_hold_up_a_stop(
    served: Served,
) -> None:
    """Transports that asyncio makes as its server closes stay half made (CPython 109564): they end here."""

    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        closing = asyncio.ensure_future(server.close(3600))
        with contextlib.suppress(ConnectionError):  # refused once the port is closed
            while not closing.done():
                with socket.create_connection(server.address):
                    await asyncio.sleep(0)
        assert await closing == 0

    served(scenario)
    gc.collect()


@pytest.mark.parametrize("accepted", [False, True])
def test_the_first_request_of_a_client_that_has_just_connected_is_served(
    served: Served, *, accepted: bool
) -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        with socket.create_connection(server.address) as client:
            if accepted:
                await until(lambda: server.connections == 1)
            closing = asyncio.ensure_future(server.close(30))
            await until(lambda: not server._servers)
            assert not closing.done()
            client.sendall(post("/echo", b"on its way"))
            assert (await last_reply(client)).body == b"on its way"
            client.close()
            assert await closing == 0

    served(scenario)


def test_a_request_that_crosses_the_stop_on_a_kept_connection_is_served(served: Served) -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        with await idle(server) as client:
            closing = asyncio.ensure_future(server.close(30))
            await until(lambda: not server._servers)
            client.sendall(post("/echo", b"second"))
            assert (await last_reply(client)).body == b"second"
            client.close()
            assert await closing == 0

    served(scenario)


def test_a_request_that_comes_as_its_connection_ends_finds_an_end_and_no_reset(
    served: Served,
) -> None:
    """So the client sees that its request was not begun (RFC 9112, section 9.3.1), and reads what it had not read yet."""

    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        with await idle(server) as client:
            client.sendall(post("/echo", b"too late"))  # the server has not read it
            server.begin_drain(close_idle=True)
            assert await read(client) == b""
            assert len(routes.requests) == 1
            assert await server.close(30) == 0

    served(scenario)


def test_a_response_is_not_lost_with_what_the_client_sends_as_the_connection_closes(
    served: Served,
) -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect(server.address)
            client.sendall(post("/hold"))
            await until(lambda: bool(routes.held))
            closing = asyncio.ensure_future(server.close(60))
            await until(lambda: not server._servers)
            routes.held[0].answer(bytes(8_000_000))
            for _ in range(20):
                client.sendall(post("/echo", b"behind"))
                await asyncio.sleep(0)
            assert not closing.done()
            assert len((await last_reply(client)).body) == 8_000_000
            client.close()
            assert await closing == 0
            assert len(routes.requests) == 1

    served(scenario)


def test_clients_that_never_close_do_not_delay_the_end(served: Served) -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        with await idle(server), socket.create_connection(server.address):
            assert await asyncio.wait_for(server.close(3_600), 50) == 0
            assert server.connections == 0

    served(scenario)


def test_without_a_client_nothing_is_waited_for(served: Served) -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        server._idle_s = 3_600
        assert await asyncio.wait_for(server.close(3_600), 50) == 0

    served(scenario)


def test_idle_clients_take_at_most_half_of_the_time_that_there_is(served: Served) -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        server._idle_s = 3_600
        with await idle(server):
            assert await server.close(3) == 0

    served(scenario)


def test_a_client_that_does_not_read_its_response_is_counted_and_cut(served: Served) -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect(server.address)
            client.sendall(post("/hold"))
            await until(lambda: bool(routes.held))
            closing = asyncio.ensure_future(server.close(0.2))
            routes.held[0].answer(bytes(16_000_000))
            assert await closing == 1
            assert server.connections == 0

    served(scenario)
