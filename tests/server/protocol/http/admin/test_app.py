import asyncio
import collections.abc
import typing

import httpx
import orjson
import pytest

from naiad.core.datatypes import FP32
from naiad.errors import unavailable
from naiad.protocol.http.admin.app import build
from naiad.protocol.http.admin.control_plane import ControlPlane
from naiad.protocol.http.asgi.services import LateServices, Services
from naiad.protocol.http.routes import HttpOptions, Routes
from naiad.protocol.restricted import Category, Restriction, Restrictions
from tests.server.protocol.http.scripted_engine import ScriptedEngine, response, tensor
from tests.support.codec import InlineCodec


class Browser:
    """Calls the control plane of a scripted engine, without a server."""

    def __init__(self, engine: ScriptedEngine, restrictions: Restrictions) -> None:
        self.engine = engine
        options = HttpOptions(restrictions=restrictions)
        self.plane = ControlPlane(engine, Routes(engine, options), restrictions)
        transport = httpx.ASGITransport(self.plane)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://server")

    async def __call__(self, verb: str, path: str, **more: typing.Any) -> httpx.Response:
        return await self._client.request(verb, path, **more)


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine(model="m.1-x")


@pytest.fixture(scope="module")
def unrestricted() -> Browser:
    """Most tests ask this one: its application takes longer to build than a request."""
    return Browser(ScriptedEngine(model="m.1-x"), {})


@pytest.fixture
def browse(unrestricted: Browser) -> Browser:
    """With an engine that is as new."""
    state = vars(unrestricted.engine)
    state.clear()
    state.update(vars(ScriptedEngine(model="m.1-x")))
    return unrestricted


async def test_server_metadata(browse: Browser) -> None:
    reply = await browse("GET", "/v2")
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.json() == {"name": "triton", "version": "0.1.0", "extensions": ["statistics"]}


@pytest.mark.parametrize("path", ["/v2/models/m.1-x", "/v2/models/m%2E1-x", "/v2/models/m.1-x?a=b"])
async def test_model_metadata_finds_a_model_by_its_decoded_name(browse: Browser, path: str) -> None:
    reply = await browse("GET", path)
    assert reply.json()["versions"] == ["1", "3"]
    assert reply.json()["inputs"] == [{"name": "INPUT0", "datatype": "FP32", "shape": [-1, 4]}]


@pytest.mark.parametrize("suffix", ["", "/config", "/stats"])
async def test_a_version_in_the_path_is_asked_for(browse: Browser, suffix: str) -> None:
    assert (await browse("GET", f"/v2/models/m.1-x/versions/007{suffix}")).status_code == 200
    assert browse.engine.asked == [("m.1-x", 7)]


@pytest.mark.parametrize("suffix", ["", "/config", "/ready"])
async def test_an_unknown_model_is_404(browse: Browser, suffix: str) -> None:
    reply = await browse("GET", f"/v2/models/nope{suffix}")
    assert reply.status_code == 404
    assert reply.json() == {"error": "Request for unknown model: 'nope' is not found"}


@pytest.mark.parametrize("suffix", ["", "/config", "/stats", "/ready"])
async def test_a_version_that_is_too_large_is_400(browse: Browser, suffix: str) -> None:
    reply = await browse("GET", f"/v2/models/m.1-x/versions/{'9' * 30}{suffix}")
    assert reply.status_code == 400
    assert "failed to get model version" in reply.json()["error"]


async def test_the_config_is_printed_with_its_defaults(browse: Browser) -> None:
    config = (await browse("GET", "/v2/models/m.1-x/config")).json()
    assert (config["name"], config["max_batch_size"], config["platform"]) == ("m.1-x", 8, "")


@pytest.mark.parametrize("path", ["/v2/models/stats", "/v2/models/m.1-x/stats"])
async def test_statistics_of_all_models_and_of_one(browse: Browser, path: str) -> None:
    (entry,) = (await browse("GET", path)).json()["model_stats"]
    assert (entry["name"], entry["inference_count"], entry["response_stats"]) == ("m.1-x", 0, {})


@pytest.mark.parametrize("path", ["/v2/repository/index", "/v2/repository/any/index"])
async def test_the_index_lists_all_models_or_the_ready_ones(browse: Browser, path: str) -> None:
    ready = {"name": "m.1-x", "version": "1", "state": "READY"}
    assert (await browse("POST", path)).json() == [ready, {"name": "never_loaded"}]
    assert (await browse("POST", path, content=b'{"ready":true}')).json() == [ready]
    assert (await browse("POST", path, content=b'{"ready":1}')).status_code == 400
    assert (await browse("POST", path, content=b"{")).status_code == 500


async def test_load_and_unload_are_handed_on_with_their_parameters(browse: Browser) -> None:
    base = "/v2/repository/models/m"
    config = b'{"parameters":{"config":"{}","file:1/model.onnx":"AAE="}}'
    for path, body in (
        ("load", b""), ("load", config), ("unload", b"{}"), ("unload", b'{"parameters":{"unload_dependents":true}}'),
    ):  # fmt: skip
        reply = await browse("POST", f"{base}/{path}", content=body)
        assert (reply.status_code, reply.content) == (200, b"")
    assert browse.engine.changes == [
        ("load", "m", {}),
        ("load", "m", {"config": "{}", "file:1/model.onnx": b"\0\1"}),
        ("unload", "m", False),
        ("unload", "m", True),
    ]


@pytest.mark.parametrize("text", ["YWJjZA==", "YWJjZA", "YWJj\\nZA==\\n", " YWJjZA=="])
async def test_base64_may_have_line_ends_and_lack_its_padding(browse: Browser, text: str) -> None:
    body = f'{{"parameters":{{"file:a":"{text}"}}}}'.encode()
    reply = await browse("POST", "/v2/repository/models/m/load", content=body)
    assert reply.status_code == 200
    assert browse.engine.changes == [("load", "m", {"file:a": b"abcd"})]


@pytest.mark.parametrize(
    ("action", "body", "status", "message"),
    [
        ("load", b'{"parameters":{"colour":"red"}}', 500, "unexpected error on creating Triton parameter"),
        ("load", b'{"parameters":{"config":1}}', 500, "'config' must be a string"),
        ("load", b'{"parameters":[]}', 500, "must be an object"),
        ("load", b'{"parameters":{"file:a":"?"}}', 400, "'file:a' is not base64"),
        ("load", b"{", 500, "failed to parse the request JSON buffer"),
        ("unload", b'{"parameters":{"unload_dependents":1}}', 500, "Unable to parse 'unload_dependents'"),
        ("unload", b"{", 500, "failed to parse the request JSON buffer"),
    ],
)  # fmt: skip
async def test_parameters_that_cannot_be_used_change_nothing(
    browse: Browser, action: str, body: bytes, status: int, message: str
) -> None:
    reply = await browse("POST", f"/v2/repository/models/m/{action}", content=body)
    assert reply.status_code == status
    assert message in reply.json()["error"]
    assert not browse.engine.changes


@pytest.mark.parametrize("action", ["load", "unload"])
async def test_a_refused_change_is_an_error_with_its_status(browse: Browser, action: str) -> None:
    browse.engine.change_error = unavailable("not now")
    reply = await browse("POST", f"/v2/repository/models/m/{action}", content=b"{}")
    assert (reply.status_code, reply.json()) == (503, {"error": "not now"})
    reply = await browse("POST", f"/v2/repository/r/models/m/{action}")
    assert reply.status_code == 501
    assert "'repository_name' specification is not supported" in reply.json()["error"]


@pytest.mark.parametrize("kind", ["system", "cuda"])
async def test_shared_memory_is_switched_off(browse: Browser, kind: str) -> None:
    base = f"/v2/{kind}sharedmemory"
    assert (await browse("GET", f"{base}/status")).json() == []
    assert (await browse("GET", f"{base}/region/r/status")).status_code == 404
    for path in ("region/r/register", "region/r/unregister", "register", "unregister"):
        reply = await browse("POST", f"{base}/{path}", content=b"")
        assert reply.status_code == 501
        assert "Client shared memory is disabled" in reply.json()["error"]


@pytest.mark.parametrize(
    "path",
    [
        "/", "/v2/", "/v2/models", "/v2/models/m/versions/x", "/v2/models/m/versions/1/trace/setting", "/v2/health",
        "/v2/models/a%2Fb", "/v2/models/m/versions/x/infer", "/redoc", "/v1/models/m/infer", "/v1/models/m:classify",
    ],
)  # fmt: skip
async def test_an_unknown_path_is_404_in_json(browse: Browser, path: str) -> None:
    reply = await browse("GET", path)
    assert reply.status_code == 404
    assert reply.headers["content-type"] == "application/json"
    assert reply.json()["error"].startswith(
        f"Not Found: this server has no path {path.replace('%2F', '/')}; "
    )


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("POST", "/v2", "GET, HEAD, OPTIONS"), ("DELETE", "/v2/models/m", "GET, HEAD, OPTIONS"),
        ("GET", "/v2/repository/index", "OPTIONS, POST"), ("HEAD", "/v2/repository/index", "OPTIONS, POST"),
        ("GET", "/v2/repository/models/m/load", "OPTIONS, POST"), ("PUT", "/v2/models/m/infer", "OPTIONS, POST"),
        ("POST", "/v2/systemsharedmemory/status", "GET, HEAD, OPTIONS"),
    ],
)  # fmt: skip
async def test_a_wrong_verb_is_405_in_json(
    browse: Browser, verb: str, path: str, allowed: str
) -> None:
    reply = await browse(verb, path)
    assert reply.status_code == 405
    assert reply.headers["allow"] == allowed
    send = "POST" if "POST" in allowed else "GET"
    assert verb == "HEAD" or reply.json() == {"error": f"Method Not Allowed: send a {send}"}


async def test_head_answers_as_get_and_options_says_what_there_is(browse: Browser) -> None:
    reply = await browse("HEAD", "/v2")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    reply = await browse("OPTIONS", "/v2/models/m")
    assert (reply.status_code, reply.headers["allow"]) == (204, "GET, HEAD, OPTIONS")


async def test_infer_and_health_work_through_the_application_too(browse: Browser) -> None:
    browse.engine.answer = response(tensor("OUT", FP32, [1.0]))
    entry = {"name": "INPUT0", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
    body = orjson.dumps({"inputs": [entry]})
    reply = await browse("POST", "/v2/models/m.1-x/versions/1/infer", content=body)
    assert reply.json()["outputs"][0]["data"] == [1.0]
    assert (await browse("GET", "/v2/health/ready")).status_code == 200
    assert (await browse("GET", "/v2/models/m.1-x/ready")).status_code == 200


async def test_a_client_that_leaves_cancels_its_inference(browse: Browser) -> None:
    engine = browse.engine
    entry = {"name": "INPUT0", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
    body = orjson.dumps({"inputs": [entry]})
    call = asyncio.ensure_future(browse("POST", "/v2/models/m.1-x/infer", content=body))
    while not engine.inferences:  # noqa: ASYNC110 - the engine has no event to wait for
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert engine.inferences[0].cancelled


@pytest.mark.parametrize("piece", [1000, 1_500_000], ids=["small pieces", "large pieces"])
async def test_a_large_load_is_decoded_beside_the_loop_and_its_config_arrives_whole(
    engine: ScriptedEngine, piece: int
) -> None:
    loaded: list[tuple[str, dict[str, typing.Any]]] = []

    async def load_model(name: str, overrides: dict[str, typing.Any]) -> None:
        loaded.append((name, overrides))

    engine.load_model = load_model  # type: ignore[method-assign,assignment]  # it only records
    config = "".join(map(str, range(600_000)))
    body = orjson.dumps({"parameters": {"config": config}})

    async def pieces() -> collections.abc.AsyncIterator[bytes]:
        for start in range(0, len(body), piece):
            yield body[start : start + piece]

    codec = InlineCodec()
    transport = httpx.ASGITransport(
        build(LateServices(Services(engine, Routes(engine, HttpOptions()), codec)))
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        reply = await client.post("/v2/repository/models/m.1-x/load", content=pieces())
    codec.close()
    assert reply.status_code == 200
    assert codec.called == ["on_bytes"]
    ((name, overrides),) = loaded
    assert (name, set(overrides)) == ("m.1-x", {"config"})
    assert bytes(overrides["config"]).decode() == config


async def test_a_bug_is_500_in_json(browse: Browser) -> None:
    async def broken(*, ready_only: bool = False) -> typing.NoReturn:
        raise RuntimeError("a bug")

    browse.engine.index = broken  # type: ignore[method-assign]  # an engine that breaks
    transport = httpx.ASGITransport(browse.plane, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        reply = await client.post("/v2/repository/index")
    assert reply.status_code == 500
    assert "it is not the request's fault" in reply.json()["error"]


async def described(browse: Browser) -> dict[str, typing.Any]:
    paths = (await browse("GET", "/openapi.json")).json()["paths"]
    assert isinstance(paths, dict)
    return paths


async def test_the_description_shows_infer_with_schemas_and_an_example(browse: Browser) -> None:
    paths = await described(browse)
    for path in ("/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer"):
        operation = paths[path]["post"]
        body = operation["requestBody"]["content"]["application/json"]
        assert body["example"]["inputs"][0]["name"] == "INPUT0"
        assert body["schema"]["required"] == ["inputs"]
        assert "example" in operation["responses"]["200"]["content"]["application/json"]
        assert "422" not in operation["responses"]


async def test_the_example_of_the_description_is_a_request_that_works(browse: Browser) -> None:
    browse.engine.answer = response()
    operation = (await described(browse))["/v2/models/{model}/infer"]["post"]
    example = operation["requestBody"]["content"]["application/json"]["example"]
    body = orjson.dumps(example)
    assert (await browse("POST", "/v2/models/m.1-x/infer", content=body)).status_code == 200
    assert browse.engine.request.inputs[0].array.tolist() == [[1, 2, 3, 4]]


async def test_the_description_lists_what_works_and_nothing_else(browse: Browser) -> None:
    paths = await described(browse)
    assert "/v2/repository/index" in paths
    assert "/v2/health/live" in paths
    assert "/v2/models/{model}/generate_stream" in paths
    assert not [path for path in paths if "shared" in path or "trace" in path]


async def test_the_docs_page_needs_no_network(browse: Browser) -> None:
    page = await browse("GET", "/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert 'fetch("openapi.json")' in page.text
    assert "://" not in page.text.replace("${location.origin}", "")
    assert "connect-src 'self'" in page.headers["content-security-policy"]


SECRET = Restriction(header="admin-key", value="hush")


async def test_a_restricted_category_asks_for_its_header_before_the_verb(
    engine: ScriptedEngine,
) -> None:
    browse = Browser(engine, {Category.MODEL_REPOSITORY: SECRET, Category.METADATA: SECRET})
    for verb, path in (
        ("POST", "/v2/repository/index"),
        ("GET", "/v2/repository/index"),
        ("GET", "/v2"),
    ):
        for headers in ({}, {"Admin-Key": "wrong"}):
            reply = await browse(verb, path, headers=headers)
            assert reply.status_code == 403
            error = reply.json()["error"]
            assert "This API is restricted, expecting header 'admin-key'" in error
    right = {"Admin-Key": "hush"}
    assert (await browse("POST", "/v2/repository/index", headers=right)).status_code == 200
    assert (await browse("GET", "/v2/repository/index", headers=right)).status_code == 405
    assert (await browse("GET", "/v2/models/stats")).status_code == 200
    assert (await browse("GET", "/docs")).status_code == 200


async def test_the_application_is_made_once_however_many_ask_at_the_same_time(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []

    def counting(*arguments: typing.Any, **named: typing.Any) -> object:
        made.append(arguments)
        return build(*arguments, **named)

    monkeypatch.setattr("naiad.protocol.http.admin.app.build", counting)
    browse = Browser(engine, {})
    calls: list[collections.abc.Awaitable[httpx.Response]] = [
        browse("GET", "/v2") for _ in range(5)
    ]
    replies = await asyncio.gather(*calls)
    assert [reply.status_code for reply in replies] == [200] * 5
    assert len(made) == 1
