"""A client that stays connected and sends nothing is idle after a while: it does not keep the server awake, and its next request is served as ever."""

import asyncio

import pytest
import uvloop

from naiad.protocol.http.transport import connection as http_connection
from naiad.protocol.http.transport.service import HttpSettings
from naiad.protocol.transport.idle_reader import IDLE_S
from tests.server.protocol.http.scripted import Client, ScriptedRoutes, post, read_replies
from tests.server.protocol.http.transport.test_listener import listener
from tests.support.waiting import until

LATER_S = IDLE_S + HttpSettings().tick + 0.1
LENGTH = "Inference-Header-Content-Length: 0"


def wait(client: Client, seconds: float = LATER_S) -> None:
    """So much time passes for a connection, without anything else."""
    client.registry.now += seconds
    client.connection.check(client.registry.now)


async def test_a_client_without_requests_is_idle_and_its_next_request_is_served() -> None:
    client = Client()
    client.send(post("/echo", b"1"))
    assert client.reply().body == b"1"
    wait(client, 1)
    assert client.registry.awake == 1
    wait(client)
    assert client.registry.awake == 0
    client.send(post("/echo", b"2") + post("/echo", b"3"))
    assert [each.body for each in client.replies()] == [b"2", b"3"]
    assert client.registry.awake == 1
    assert client.registry.arrivals == 2
    assert client.transport.protocol is client.connection


async def test_the_parts_of_a_request_behind_a_pause_belong_together() -> None:
    client = Client()
    wait(client)
    data = post("/echo", b"all of it")
    for at in range(0, len(data), 7):
        client.send(data[at : at + 7])
    assert client.reply().body == b"all of it"


async def test_a_request_in_progress_or_one_that_comes_keeps_its_connection_awake() -> None:
    client = Client()
    client.send(post("/hold"))
    wait(client)
    assert client.registry.awake == 1
    client.routes.held[0].answer(b"at last")
    assert client.reply().body == b"at last"
    client.send(post("/echo", b"a longer body")[:-5])
    wait(client)
    assert client.registry.awake == 1


async def test_an_idle_connection_still_ends_in_time_and_with_the_server() -> None:
    client = Client(settings=HttpSettings(keep_alive_timeout=10))
    wait(client)
    wait(client, 11)
    assert client.is_closed()
    client = Client()
    wait(client)
    client.connection.drain(close_idle=True)
    assert client.has_ended()


async def test_a_client_of_large_bodies_sends_the_next_one_behind_a_pause() -> None:
    routes = ScriptedRoutes()
    routes.limit = 1 << 24
    client = Client(routes=routes, settings=HttpSettings(direct_bytes=1 << 16))
    body = bytes(range(256)) * 1024
    for _ in range(3):
        client.send(post("/echo", body, LENGTH))
        assert client.reply().body == body
        client.routes.requests.clear()
        wait(client)
        assert client.registry.awake == 0


async def asked(writer: asyncio.StreamWriter, reader: asyncio.StreamReader, body: bytes) -> None:
    writer.write(post("/echo", body))
    head = await reader.readuntil(b"\r\n\r\n")
    (reply,) = read_replies(head + await reader.readexactly(len(body)))
    assert reply.body == body


@pytest.mark.parametrize("runs", [uvloop.run, asyncio.run], ids=["uvloop", "asyncio"])
def test_a_listener_with_idle_clients_is_not_in_use_until_one_sends_something(
    monkeypatch: pytest.MonkeyPatch, runs: object
) -> None:
    monkeypatch.setattr(http_connection, "IDLE_S", 0.01)

    async def scenario() -> None:
        server = listener(ScriptedRoutes())
        came: list[int] = []
        server.announce(lambda: came.append(1))
        await server.start()
        reader, writer = await asyncio.open_connection(*server.address)
        for number in range(3):
            await asked(writer, reader, b"x" * 500 * number)
            assert len(came) == number + 1
            assert server.was_in_use()
            await until(lambda: not server.was_in_use())
            assert server.connections == 1
        writer.close()
        await writer.wait_closed()
        await until(lambda: server.connections == 0)
        await server.close(0)

    assert callable(runs)
    runs(asyncio.wait_for(scenario(), 30))
