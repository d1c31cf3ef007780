"""Real sockets on loopback under uvloop: what only the kernel can show."""

import asyncio
import collections.abc
import contextlib
import socket
import struct

import pytest
import uvloop

from naiad.core.clock import SystemClock
from naiad.protocol.http.message import AsgiApp, Receive, Scope, Send
from naiad.protocol.http.transport.listener import http_listener
from naiad.protocol.http.transport.service import HttpSettings
from naiad.protocol.transport.listener import Listener
from naiad.protocol.transport.sockets import ListenAddress, ListenError
from tests.server.protocol.http.scripted import (
    Reply,
    ScriptedRoutes,
    echo_app,
    post,
    read_replies,
    request,
)
from tests.support.waiting import until

Scenario = collections.abc.Callable[
    [Listener, ScriptedRoutes], collections.abc.Coroutine[None, None, None]
]


def listener(
    routes: ScriptedRoutes,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    app: AsgiApp = echo_app,
    reuse_port: bool = False,
) -> Listener:
    address = ListenAddress(
        host,
        port,
        port_option="--http-port",
        reuse_port=reuse_port,
        reuse_option="--reuse-http-port",
    )
    return http_listener(
        address,
        routes=routes,
        app=app,
        settings=HttpSettings(tick=0.05, linger_timeout=1),
        clock=SystemClock(),
    )


def served(scenario: Scenario, *, app: AsgiApp = echo_app) -> None:
    """Run a scenario against a started listener."""

    async def run() -> None:
        routes = ScriptedRoutes()
        routes.limit = 1 << 26
        server = listener(routes, app=app)
        await server.start()
        try:
            await scenario(server, routes)
        finally:
            await server.close(0)

    uvloop.run(asyncio.wait_for(run(), 30))


async def ask(server: Listener, data: bytes) -> list[Reply]:
    """Send, half-close, and read to the end."""
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(data)
    writer.write_eof()
    replies = read_replies(await reader.read())
    writer.close()
    await writer.wait_closed()
    return [reply for reply in replies if reply.status != 100]


async def settled(value: collections.abc.Callable[[], int]) -> None:
    """Wait until a value stays as it is: ten looks one after the other see the same."""
    same, last = 0, value()
    while same < 10:
        await asyncio.sleep(0.02)
        same, last = (same + 1 if value() == last else 0), value()


async def refused(server: Listener) -> None:
    """Wait until the server takes no connection any more."""
    while True:
        try:
            _, writer = await asyncio.open_connection(*server.address)
        except ConnectionRefusedError:
            return
        writer.close()
        await asyncio.sleep(0.005)


def test_both_lanes_are_served_on_one_connection() -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        replies = await ask(
            server, post("/echo", b"1") + request("GET", "/app") + post("/echo", b"3")
        )
        assert [reply.body for reply in replies] == [b"1", b"GET /app ", b"3"]
        await until(lambda: server.connections == 0)

    served(scenario)


def test_clients_that_connect_at_a_time_are_taken_over_several_per_wake_up() -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        with contextlib.ExitStack() as stack:
            for _ in range(16):
                stack.enter_context(socket.create_connection(server.address))
            iterations = 0
            while server.connections < 16:
                await asyncio.sleep(0)
                iterations += 1
            assert iterations < 12

    served(scenario)


def test_large_bodies_go_both_ways_whole() -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        body = bytes(range(256)) * 40000
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(post("/echo", body, "Connection: close"))
        (reply,) = read_replies(await reader.read())
        assert reply.body == body
        writer.close()

    served(scenario)


def test_a_client_that_reads_slowly_holds_back_its_further_requests() -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        body = bytes(1 << 20)
        sock = socket.create_connection(server.address)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        sender = asyncio.ensure_future(loop.sock_sendall(sock, post("/echo", body) * 30))
        await settled(lambda: len(routes.requests))
        assert not sender.done()
        assert len(routes.requests) < 25
        got = 0
        while got < 30 << 20:
            got += len(await loop.sock_recv(sock, 1 << 20))
        await sender
        assert len(routes.requests) == 30
        sock.close()

    served(scenario)


def test_a_large_upload_to_the_application_is_held_back_until_it_is_read() -> None:
    go = asyncio.Event()
    total = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal total
        await go.wait()
        more = True
        while more:
            message = await receive()
            total += len(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(post("/app", bytes(20 << 20), "Connection: close"))
        await settled(writer.transport.get_write_buffer_size)
        assert writer.transport.get_write_buffer_size() > 1 << 20
        go.set()
        (reply,) = read_replies(await reader.read())
        assert (reply.body, total) == (b"ok", 20 << 20)
        writer.close()

    served(scenario, app=app)


def test_a_refused_upload_still_gets_its_error_to_the_client() -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        routes.limit = 1000
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(post("/echo", bytes(5 << 20)))
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        (reply,) = read_replies(await reader.read())
        assert reply.status == 400
        writer.close()

    served(scenario)


def test_closing_the_client_s_socket_cancels_its_request() -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        for reset in (False, True):
            sock = socket.create_connection(server.address)
            if reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.sendall(post("/hold"))
            await until(lambda: bool(routes.held))
            handle = routes.held.pop().handle
            sock.close()
            await until(lambda handle=handle: handle.cancelled == 1)  # type: ignore[misc]  # a lambda's default has no type

    served(scenario)


def test_a_half_closed_client_is_not_taken_for_a_closed_one() -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        asking = asyncio.ensure_future(ask(server, post("/hold")))
        await until(lambda: bool(routes.held))
        for _ in range(
            3
        ):  # the half-close came before these requests, so the server knows of it when it answers them
            await ask(server, post("/echo", b"later"))
        assert not routes.held[0].handle.cancelled
        routes.held[0].answer(b"late")
        assert [reply.body for reply in await asking] == [b"late"]

    served(scenario)


def test_vanished_peers_are_probed_for() -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        sock = socket.create_connection(server.address)
        sock.sendall(post("/hold"))
        await until(lambda: bool(routes.held))
        connection = routes.held[0].on_reply.__self__.sender  # type: ignore[attr-defined]  # reach the socket
        accepted = connection._transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
        sock.close()

    served(scenario)


def test_draining_keeps_accepting_and_closes_each_connection_after_its_reply() -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        idle_reader, idle_writer = await asyncio.open_connection(*server.address)
        busy_reader, busy_writer = await asyncio.open_connection(*server.address)
        busy_writer.write(post("/hold"))
        await until(lambda: bool(routes.held) and server.connections == 2)
        server.begin_drain(close_idle=True)
        assert await idle_reader.read() == b""
        new_reader, new_writer = await asyncio.open_connection(*server.address)
        new_writer.write(post("/echo", b"new"))
        (reply,) = read_replies(await new_reader.read())
        assert (reply.body, reply.headers["connection"]) == (b"new", "close")
        closing = asyncio.ensure_future(server.close(5))
        await refused(server)
        assert not closing.done()
        routes.held[0].answer(b"finished")
        assert await closing == 0
        assert read_replies(await busy_reader.read())[0].body == b"finished"
        for writer in (idle_writer, busy_writer, new_writer):
            writer.close()

    served(scenario)


def test_what_is_not_finished_within_the_timeout_is_refused_cancelled_and_counted() -> None:
    cancelled: list[bool] = []
    begun = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        clients = []
        half = post("/echo", b"half of it")[:-5]
        for data in (post("/hold") + post("/echo", b"behind"), request("GET", "/app"), half):
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(data)
            clients.append((reader, writer))
        await until(lambda: bool(routes.held) and begun.is_set() and server.connections == 3)
        closing = asyncio.ensure_future(server.close(0.05))
        held, app_s, half_s = [read_replies(await reader.read()) for reader, _ in clients]
        for reply in (held[0], *app_s, *half_s):
            assert reply.status == 503
            assert reply.body.startswith(b'{"error":"Server exiting: ')
        assert held[1].body == b"behind"
        assert [each.headers["connection"] for each in (held[1], *app_s, *half_s)] == ["close"] * 3
        for _, writer in clients:
            writer.close()
        assert await closing == 3
        assert server.connections == 0
        assert routes.held[0].handle.cancelled == 1
        await until(lambda: cancelled == [True])

    served(scenario, app=app)


def test_a_client_that_does_not_take_the_refusal_is_cut() -> None:
    async def scenario(server: Listener, routes: ScriptedRoutes) -> None:
        with socket.create_connection(server.address) as sock:
            sock.sendall(post("/hold") + post("/echo", b"half of it")[:-5])
            await until(lambda: bool(routes.held))
            assert await server.close(0) == 1
            assert server.connections == 0

    served(scenario)


def test_a_port_in_use_is_reported_with_the_option_that_changes_it() -> None:
    async def run() -> None:
        first = listener(ScriptedRoutes())
        await first.start()
        second = listener(ScriptedRoutes(), port=first.address[1])
        with pytest.raises(ListenError, match=r"in use.*--http-port"):
            await second.start()
        await second.close(0)
        await first.close(0)

    uvloop.run(run())


def test_of_two_that_reserved_the_same_port_the_second_to_start_fails() -> None:
    async def run() -> None:
        first = listener(ScriptedRoutes())
        await first.reserve()
        second = listener(ScriptedRoutes(), port=first.address[1])
        await second.reserve()
        await first.start()
        with pytest.raises(ListenError, match=r"in use.*--http-port"):
            await second.start()
        await second.close(0)
        await first.close(0)

    uvloop.run(run())


def test_a_reserved_port_refuses_clients_until_it_is_started() -> None:
    async def run() -> None:
        server = listener(ScriptedRoutes())
        await server.reserve()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*server.address)
        await server.start()
        assert [reply.body for reply in await ask(server, post("/echo", b"x"))] == [b"x"]
        await server.close(1)

    uvloop.run(run())


def test_two_listeners_share_a_port_when_both_ask() -> None:
    async def run() -> None:
        first = listener(ScriptedRoutes(), reuse_port=True)
        await first.start()
        second = listener(ScriptedRoutes(), port=first.address[1], reuse_port=True)
        await second.start()
        assert first.address == second.address
        await second.close(0)
        await first.close(0)

    uvloop.run(run())


def test_an_unknown_host_is_reported_as_such() -> None:
    async def run() -> None:
        with pytest.raises(ListenError, match="not an address"):
            await listener(ScriptedRoutes(), host="no such host").start()
        with pytest.raises(ListenError, match="address of this machine"):
            await listener(ScriptedRoutes(), host="192.0.2.1").start()

    uvloop.run(run())


@pytest.mark.skipif(not socket.has_ipv6, reason="the kernel has no IPv6")
def test_all_addresses_means_both_families_on_one_port() -> None:
    async def run() -> None:
        server = listener(ScriptedRoutes(), host="")
        await server.start()
        port = server.address[1]
        for host in ("127.0.0.1", "::1"):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(post("/echo", b"x", "Connection: close"))
            assert read_replies(await reader.read())[0].body == b"x"
            writer.close()
        await server.close(1)

    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 address")
    uvloop.run(run())


def test_an_address_is_known_only_once_it_is_listened_on() -> None:
    with pytest.raises(RuntimeError, match="not started"):
        _ = listener(ScriptedRoutes()).address
