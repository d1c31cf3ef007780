"""Applications of `naiad.asgi`: mounted, by themselves, several in a process; their lifespan, errors and options."""

import asyncio
import collections.abc
import contextlib
import logging
import pathlib
import typing

import fastapi
import fastapi_service
import httpx
import pytest
from fastapi.testclient import TestClient

from naiad.asgi import StartError, create_app, mount
from naiad.core.clock import SystemClock
from naiad.options.parsing import parse
from naiad.repository.stores.process import StoreProcess
from naiad.serve.assembly import assembled
from naiad.serve.console import LoadingLines
from tests.reference.process import Ports
from tests.wire import repository


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return repository.make(tmp_path_factory.mktemp("models"))


INFER = "/v2/models/add/infer"
BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}


def some(models: pathlib.Path, *names: str, **options: typing.Any) -> fastapi.FastAPI:
    return create_app(
        model_repository=models,
        model_control_mode="explicit",
        load_model=[*names],
        **options,
    )


def data_of(reply: typing.Any) -> object:
    assert reply.status_code == 200, reply.text
    return reply.json()["outputs"][0]["data"]


def test_the_lifespan_of_the_application_around_it_loads_and_unloads_the_models(
    models: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    order: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan(app: fastapi.FastAPI) -> collections.abc.AsyncIterator[dict[str, int]]:
        order.append("its own starts")
        yield {"state": 1}
        order.append("its own ends")

    mine = fastapi.FastAPI(lifespan=lifespan)

    @mine.get("/mine")
    def own(request: fastapi.Request) -> int:
        state: int = request.state.state
        return state

    mount(mine, "/triton", some(models, "add"))
    for _ in range(2):  # it may be started again
        caplog.clear()
        with caplog.at_level(logging.INFO, "naiad"), TestClient(mine) as client:
            assert "successfully loaded 'add'" in caplog.text
            assert data_of(client.post("/triton" + INFER, json=BODY)) == [2, 4, 6, 8]
            assert client.get("/mine").json() == 1
        assert "successfully unloaded 'add'" in caplog.text
    assert order == ["its own starts", "its own ends"] * 2


def test_without_a_lifespan_the_first_request_starts_it_and_the_end_of_the_loop_unloads(
    models: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine = fastapi.FastAPI()
    mine.mount("/triton", some(models, "add"))
    with caplog.at_level(logging.INFO, "naiad"), TestClient(mine) as client:
        assert "loaded" not in caplog.text
        assert client.get("/triton/v2/health/ready").status_code == 200
        assert "successfully loaded 'add'" in caplog.text
    assert "successfully unloaded 'add'" in caplog.text


def test_several_in_one_process_have_models_and_prefixes_of_their_own(models: pathlib.Path) -> None:
    mine = fastapi.FastAPI()
    mount(mine, "/one", some(models, "add"))
    mount(mine, "/two", some(models, "text", http_base_path="/base"))
    with TestClient(mine) as client:
        assert data_of(client.post("/one" + INFER, json=BODY)) == [2, 4, 6, 8]
        assert client.post("/two" + INFER, json=BODY).status_code == 404
        for prefix in ("/two", "/two/base"):
            assert client.get(prefix + "/v2/models/text").json()["name"] == "text"
        wrong = client.get("/two/base/v2/model/text").json()["error"]
        assert "no path /two/base/v2/model/text" in wrong
        assert "GET /two/base/docs" in wrong


def test_kserves_v1_is_there_unless_it_is_turned_off(models: pathlib.Path) -> None:
    mine = fastapi.FastAPI()
    mount(mine, "/with", some(models, "add", http_base_path="/base"))
    mount(mine, "/without", some(models, "add", allow_kserve_v1=False))
    rows = {"instances": [[1, 2, 3, 4]]}
    with TestClient(mine) as client:
        for prefix in ("/with", "/with/base"):
            assert client.get(prefix + "/v1/models").json() == {"models": ["add"]}
            assert client.get(prefix + "/v1/models/add").json() == {"name": "add", "ready": True}
            reply = client.post(prefix + "/v1/models/add:predict", json=rows)
            assert (reply.status_code, reply.json()) == (200, {"predictions": [[2, 4, 6, 8]]})
            described = client.get(prefix + "/openapi.json").json()["paths"]
            assert described["/v1/models/{model}:predict"]["post"]["summary"]
        for path in ("/v1/models", "/v1/models/add"):
            assert client.get("/without" + path).status_code == 404
        reply = client.post("/without/v1/models/add:predict", json=rows)
        assert (
            "no path /without/v1/models/add:predict; KServe's v1 is turned off here" in reply.text
        )
        assert "/v1/models" not in client.get("/without/openapi.json").json()["paths"]


def test_the_description_has_infer_and_the_prefix_and_routes_that_were_added(
    models: pathlib.Path,
) -> None:
    triton = some(models, "add")

    @triton.get("/added/{number}")
    def added(number: int) -> int:
        return number

    mine = fastapi.FastAPI()
    mount(mine, "/triton", triton)
    with TestClient(mine) as client:
        description = client.get("/triton/openapi.json").json()
        assert client.get("/triton/added/3").json() == 3
        assert client.get("/triton/docs").status_code == 200
    assert description["servers"] == [{"url": "/triton"}]
    infer = description["paths"]["/v2/models/{model}/infer"]["post"]
    assert infer["summary"] == "Run a model"
    assert "422" not in infer["responses"]
    assert "422" in description["paths"]["/added/{number}"]["get"]["responses"]


def test_a_token_is_needed_also_for_routes_that_were_added(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("secret\n")
    triton = some(models, "add", auth_token_file=str(tokens))
    triton.add_api_route("/added", lambda: 1)
    with TestClient(triton) as client:
        for path in ("/v2", "/added", "/nowhere"):
            assert client.get(path).status_code == 401
        assert client.get("/v2/health/ready").status_code == 200
        assert client.post(INFER, json=BODY).status_code == 401
        allowed = {"Authorization": "Bearer secret"}
        assert client.get("/added", headers=allowed).json() == 1
        assert data_of(client.post(INFER, json=BODY, headers=allowed)) == [2, 4, 6, 8]


def test_a_start_that_fails_says_why_and_so_does_each_request(models: pathlib.Path) -> None:
    triton = some(models, "add", "nowhere")
    with (
        pytest.raises(StartError, match=r"failed to load all models: .*exit_on_error"),
        TestClient(triton),
    ):
        pass
    mine = fastapi.FastAPI()
    mine.mount("/triton", triton)
    with TestClient(mine) as client:
        reply = client.get("/triton/v2/health/live")
    assert reply.status_code == 503
    assert "failed to load all models" in reply.json()["error"]
    with TestClient(some(models, "add", "nowhere", exit_on_error=False)) as client:
        assert data_of(client.post(INFER, json=BODY)) == [2, 4, 6, 8]


async def test_a_port_that_is_taken_fails_the_start_and_the_next_one_may_succeed(
    models: pathlib.Path,
) -> None:
    ports = Ports.free()
    metrics = {"allow_metrics": True, "metrics_port": ports.metrics, "metrics_address": "127.0.0.1"}
    app = some(models, "add", **metrics)
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", ports.metrics)
    with pytest.raises(StartError, match=r"in use by another process.*--metrics-port"):
        async with app.router.lifespan_context(app):
            pass
    taken.close()
    await taken.wait_closed()
    async with app.router.lifespan_context(app), httpx.AsyncClient() as client:
        page = await client.get(f"http://127.0.0.1:{ports.metrics}/status")
        assert page.json()["models"][0]["state"] == "READY"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"http_port": 8000}, "http_port: the ASGI server"),
        ({"log_verbose": 1}, "log_verbose: the program"),
        ({"exit_timeout": "soon"}, "exit-timeout-secs=soon"),
        ({"no_such_thing": 1}, "unrecognized option '--no-such-thing'"),
        ({"http_max_input_size": 0}, "http-max-input-size=0"),
        ({"auth_token_file": "/nowhere/tokens"}, "/nowhere/tokens"),
        ({"http_header_forward_pattern": "("}, "--http-header-forward-pattern"),
    ],
)
def test_an_option_that_cannot_be_used_is_a_value_error(
    options: dict[str, typing.Any], message: str
) -> None:
    with pytest.raises(ValueError, match=r".*") as raised:
        create_app(model_repository=".", **options)
    assert message in str(raised.value)


def test_without_a_repository_the_error_names_it() -> None:
    with pytest.raises(ValueError, match="--model-repository is missing"):
        create_app()


async def test_parts_that_run_already_are_served_and_stay_the_callers(models: pathlib.Path) -> None:
    options = parse(
        [f"--model-repository={models}", "--model-control-mode=explicit", "--load-model=add"]
    )
    async with assembled(
        options,
        stores=StoreProcess(directory="", limit=0, environ={}),
        progress=LoadingLines(None),
        environ={},
        clock=SystemClock(),
    ) as assembly:
        assert await assembly.repository.load_all(["add"])
        with pytest.raises(ValueError, match="allow_grpc: the server runs already"):
            create_app(assembly, allow_grpc=True)
        app = create_app(assembly, http_max_input_size=200)
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://server") as client,
        ):
            assert data_of(await client.post(INFER, json=BODY)) == [2, 4, 6, 8]
            long = await client.post(INFER, json={**BODY, "id": "long" * 100})
            assert long.status_code == 400
            assert "maximum allowed input size of 200 bytes" in long.json()["error"]
        assert [state.name for state in assembly.states() if state.state.value == "READY"] == [
            "add"
        ]


async def test_metrics_and_grpc_have_ports_beside_it(models: pathlib.Path) -> None:
    ports = Ports.free()
    app = some(
        models,
        "add",
        allow_metrics=True,
        metrics_port=ports.metrics,
        metrics_address="127.0.0.1",
        allow_grpc=True,
        grpc_port=ports.grpc,
        grpc_address="127.0.0.1",
    )
    async with app.router.lifespan_context(app), httpx.AsyncClient() as client:
        page = await client.get(f"http://127.0.0.1:{ports.metrics}/metrics")
        assert 'nv_inference_count{model="add"' in page.text
        _, writer = await asyncio.open_connection("127.0.0.1", ports.grpc)
        writer.close()
    with pytest.raises(OSError, match=r".*"):
        await asyncio.open_connection("127.0.0.1", ports.grpc)


def test_the_example_is_a_whole_application() -> None:
    with TestClient(fastapi_service.app) as client:
        assert client.get("/hello").status_code == 200
        text = {"name": "TEXT", "datatype": "BYTES", "shape": [1, 1], "data": ["to be or not"]}
        reply = client.post("/triton/v2/models/word_count/infer", json={"inputs": [text]})
        assert data_of(reply) == [4]
