from naiad.protocol.http.admin.control_plane import Guard
from naiad.protocol.http.message import Message, Receive, Scope, Send
from naiad.protocol.restricted import Category, Restriction


async def status_of(guard: Guard, path: str, **headers: str) -> int:
    """The status that a guarded call gets; the application behind the guard answers 200."""
    sent: list[Message] = []

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    named = [(name.encode(), value.encode()) for name, value in headers.items()]
    await guard({"path": path, "headers": named}, receive, send)
    return int(sent[0]["status"])


async def answers(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def test_a_path_under_v2_without_a_category_needs_the_header_of_every_restriction() -> None:
    guard = Guard(
        answers,
        {
            Category.STATISTICS: Restriction(header="one", value="1"),
            Category.LOGGING: Restriction(header="two", value="2"),
        },
    )
    for path in ("/v2/unknown", "/v2/models/m/config\n", "/v2/", "/v2x", "/v2/models/m/config/"):
        assert await status_of(guard, path) == 403
        assert await status_of(guard, path, one="1") == 403
        assert await status_of(guard, path, one="1", two="2") == 200
    assert await status_of(guard, "/v2/models/m/config") == 200
    assert await status_of(guard, "/docs") == 200
    assert await status_of(guard, "/v2/logging", two="2") == 200
