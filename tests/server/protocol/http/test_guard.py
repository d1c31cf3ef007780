import pytest

from naiad.protocol.http.guard import Guard, category_of
from naiad.protocol.http.message import Message, Receive, Scope, Send
from naiad.protocol.restricted import Category, Restriction


@pytest.mark.parametrize(
    ("path", "category"),
    [
        ("/v2", Category.METADATA),
        ("/v2/health/live", Category.HEALTH),
        ("/v2/health/ready", Category.HEALTH),
        ("/v2/models/m", Category.METADATA),
        ("/v2/models/m/versions/1", Category.METADATA),
        ("/v2/models/m/ready", Category.HEALTH),
        ("/v2/models/m/versions/1/ready", Category.HEALTH),
        ("/v2/models/m/config", Category.MODEL_CONFIG),
        ("/v2/models/m/versions/1/config", Category.MODEL_CONFIG),
        ("/v2/models/stats", Category.STATISTICS),
        ("/v2/models/m/stats", Category.STATISTICS),
        ("/v2/models/m/infer", Category.INFERENCE),
        ("/v2/models/m/versions/1/infer", Category.INFERENCE),
        ("/v2/models/m/generate", Category.INFERENCE),
        ("/v2/models/m/generate_stream", Category.INFERENCE),
        ("/v2/models/m/trace/setting", Category.TRACE),
        ("/v2/trace/setting", Category.TRACE),
        ("/v2/logging", Category.LOGGING),
        ("/v2/repository/index", Category.MODEL_REPOSITORY),
        ("/v2/repository/r/models/m/load", Category.MODEL_REPOSITORY),
        ("/v2/systemsharedmemory/status", Category.SHARED_MEMORY),
        ("/v2/cudasharedmemory/region/r/register", Category.SHARED_MEMORY),
        ("/docs", None),
        ("/openapi.json", None),
        ("/", None),
        ("/v2/", None),
        ("/v2/models/m/", None),
        ("/v2/models/m/config/", None),
        ("/v2/models/m/configs", None),
        ("/v2//models/m", None),
        ("/v2/models/a/b/config", None),
        ("/V2", None),
    ],
)
def test_every_path_is_of_tritons_category(path: str, category: Category | None) -> None:
    assert category_of(path) is category


@pytest.mark.parametrize(
    "character", ["\n", "\r", "\x00", "\v", "\f", "\x1f", "\x7f", "\x85", "\u2028", "\u2029"]
)
@pytest.mark.parametrize(
    "path", ["/v2", "/v2/models/m/config", "/v2/models/m/ready", "/v2/repository/index"]
)
def test_a_path_with_a_control_character_has_no_category(path: str, character: str) -> None:
    for spelled in (path + character, path.replace("/v2", "/v2" + character), character + path):
        assert category_of(spelled) is None


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
