"""The control plane: metadata, config, statistics, repository, shared memory, and the API's description, as a FastAPI application.

Imported when its first request comes (`control_plane.py`): the framework costs memory and start-up time that inference does not
need. Infer and health stand in the description too, but the fast lane takes them before they get here; through this
application, in another server or a test, they are answered by the same handlers.
"""

import asyncio
import collections.abc
import functools
import importlib.resources
import typing

import fastapi
import orjson
from fastapi.responses import HTMLResponse, Response
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from typing_extensions import override

from naiad.config.config_json import to_json
from naiad.core.request import LATEST
from naiad.engine.api import Engine
from naiad.errors import unsupported
from naiad.protocol.codec.frames import large, on_bytes
from naiad.protocol.codec.pool import LARGE, Codec
from naiad.protocol.http.admin import model_control, models, openapi, shared_memory
from naiad.protocol.http.admin.app_errors import add_error_replies, response_of
from naiad.protocol.http.message import FastRoutes, HttpReply, HttpRequest
from naiad.protocol.http.routes import model_version

Decoded = typing.TypeVar("Decoded")
Endpoint = collections.abc.Callable[..., collections.abc.Awaitable[Response]]

_MODEL = "/v2/models/{model}"
_VERSION = "/v2/models/{model}/versions/{version:digits}"

_CONTENT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"
)


class _Digits(Convertor[str]):
    """A version in a path: digits only, anything else is no such path (row 1.8)."""

    regex = "[0-9]+"

    @override
    def convert(self, value: str) -> str:
        return value

    @override
    def to_string(self, value: str) -> str:
        return value


_PIECE_BYTES = 1 << 20
"""Of a large body; each piece costs the codec two system calls."""


def build(engine: Engine, routes: FastRoutes, codec: Codec | None = None) -> fastapi.FastAPI:
    """The application. Its description is made here as well, so that nobody waits for it later.

    Args:
        engine: who knows the answers.
        routes: the fast lane, for paths that both have.
        codec: decodes large bodies; without it the loop does.
    """
    register_url_convertor("digits", _Digits())
    app = fastapi.FastAPI(
        title="Naiad",
        description="Inference over HTTP: the KServe v2 protocol with Triton's extensions.",
        version=engine.server_metadata().version,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
        default_response_class=Response,
    )
    add_error_replies(app, engine)
    _Answers(engine, routes, codec).add_to(app)
    _describe(app)
    return app


def _describe(app: fastapi.FastAPI) -> None:
    """Make the description, without the framework's own validation errors, which this application never answers."""
    description = app.openapi()
    for operations in description["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    description.pop("components", None)


class _Answers:
    """The endpoints. Each asks the engine once and writes what it says."""

    def __init__(self, engine: Engine, routes: FastRoutes, codec: Codec | None) -> None:
        self._engine = engine
        self._routes = routes
        self._codec = codec

    def add_to(self, app: fastapi.FastAPI) -> None:
        """Add every path; a path without a version has the same endpoint as that with one."""
        self._add_inference(app)
        self._add_health(app)
        self._add_models(app)
        self._add_repository(app)
        self._add_shared_memory(app)
        for path in (
            "/v2/trace/setting", f"{_MODEL}/trace/setting", "/v2/logging",
        ):  # fmt: skip
            app.add_api_route(path, self.absent, methods=["GET", "POST"], include_in_schema=False)
        app.add_api_route("/docs", self.docs, include_in_schema=False)

    def _add_inference(self, app: fastapi.FastAPI) -> None:
        body = openapi.content(openapi.INFER_REQUEST, openapi.INFER_REQUEST_EXAMPLE)
        answers = openapi.answers(
            400,
            404,
            500,
            501,
            503,
            ok=openapi.INFER_RESPONSE,
            example=openapi.INFER_RESPONSE_EXAMPLE,
        )
        endpoints: dict[str, Endpoint] = {
            _MODEL: self.fast_of_model,
            _VERSION: self.fast_of_version,
        }
        for path, endpoint in endpoints.items():
            app.add_api_route(
                f"{path}/infer",
                endpoint,
                methods=["POST"],
                tags=["inference"],
                summary="Run a model",
                description=openapi.BINARY_NOTE,
                responses=answers,
                openapi_extra={"requestBody": {"required": True, "content": body}},
            )

        for path, endpoint in endpoints.items():
            for action, summary, reply in (
                ("generate", "Run a model with flat JSON", openapi.GENERATE_ANSWERS),
                (
                    "generate_stream",
                    "Run a model and stream what it answers",
                    openapi.EVENTS_ANSWERS,
                ),
            ):
                app.add_api_route(
                    f"{path}/{action}",
                    endpoint,
                    methods=["POST"],
                    tags=["inference"],
                    summary=summary,
                    description=openapi.GENERATE_NOTE,
                    responses=reply,
                    openapi_extra={
                        "requestBody": {
                            "required": True,
                            "content": openapi.content(openapi.OBJECT, openapi.GENERATE_EXAMPLE),
                        }
                    },
                )

    def _add_health(self, app: fastapi.FastAPI) -> None:
        endpoints: list[tuple[str, Endpoint, str]] = [
            ("/v2/health/live", self.fast, "Does the process serve?"),
            ("/v2/health/ready", self.fast, "Are all models ready?"),
            (f"{_MODEL}/ready", self.fast_of_model, "Is the model ready?"),
            (f"{_VERSION}/ready", self.fast_of_version, "Is the version ready?"),
        ]
        for path, endpoint, summary in endpoints:
            answers = openapi.answers(400, 404, 503) if "{" in path else openapi.answers(400, 503)
            app.add_api_route(path, endpoint, tags=["health"], summary=summary, responses=answers)

    def _add_models(self, app: fastapi.FastAPI) -> None:
        # A model called "stats" has its metadata only under its version (row 8.1): the first path that matches answers.
        endpoints: list[tuple[str, Endpoint, str, str]] = [
            ("/v2", self.server_metadata, "metadata", "The server's name, version, extensions"),
            ("/v2/models/stats", self.all_statistics, "statistics", "Counters of all models"),
            (_MODEL, self.model_metadata, "metadata", "The model's inputs and outputs"),
            (_VERSION, self.version_metadata, "metadata", "The version's inputs and outputs"),
            (f"{_MODEL}/config", self.model_config, "metadata", "The model's whole config"),
            (f"{_VERSION}/config", self.version_config, "metadata", "The version's whole config"),
            (f"{_MODEL}/stats", self.model_statistics, "statistics", "The model's counters"),
            (f"{_VERSION}/stats", self.version_statistics, "statistics", "The version's counters"),
        ]
        for path, endpoint, tag, summary in endpoints:
            statuses = (400, 404, 503) if "{" in path else ()
            answers = openapi.answers(*statuses, ok=openapi.OBJECT)
            app.add_api_route(path, endpoint, tags=[tag], summary=summary, responses=answers)

    def _add_repository(self, app: fastapi.FastAPI) -> None:
        body = openapi.content(openapi.INDEX_REQUEST, {"ready": True})
        app.add_api_route(
            "/v2/repository/index",
            self.index,
            methods=["POST"],
            tags=["repository"],
            summary="Models, versions and their states",
            responses=openapi.answers(400, 500, ok=openapi.INDEX_RESPONSE),
            openapi_extra={"requestBody": {"required": False, "content": body}},
        )
        changes: list[tuple[str, Endpoint, str, openapi.Schema]] = [
            ("load", self.load_model, "Load a model, or load it again", openapi.LOAD_REQUEST),
            ("unload", self.unload_model, "Serve a model no more", openapi.UNLOAD_REQUEST),
        ]
        for action, endpoint, summary, schema in changes:
            app.add_api_route(
                f"/v2/repository/models/{{model}}/{action}",
                endpoint,
                methods=["POST"],
                tags=["repository"],
                summary=summary,
                description=openapi.CONTROL_NOTE,
                responses=openapi.answers(400, 500, 501, 503),
                openapi_extra={
                    "requestBody": {"required": False, "content": openapi.content(schema)}
                },
            )
        hidden: dict[str, Endpoint] = {
            "/v2/repository/{repository}/index": self.index,
            "/v2/repository/{repository}/models/{model}/load": self.change_model_of_repository,
            "/v2/repository/{repository}/models/{model}/unload": self.change_model_of_repository,
        }
        for path, endpoint in hidden.items():
            app.add_api_route(path, endpoint, methods=["POST"], include_in_schema=False)

    def _add_shared_memory(self, app: fastapi.FastAPI) -> None:
        for kind, status in (("system", self.system_regions), ("cuda", self.cuda_regions)):
            for base in (f"/v2/{kind}sharedmemory", f"/v2/{kind}sharedmemory/region/{{region}}"):
                app.add_api_route(f"{base}/status", status, include_in_schema=False)
                for action in ("register", "unregister"):
                    app.add_api_route(
                        f"{base}/{action}",
                        self.change_region,
                        methods=["POST"],
                        include_in_schema=False,
                    )

    async def server_metadata(self) -> Response:
        return _json(models.server_metadata(self._engine.server_metadata()))

    async def model_metadata(self, model: str) -> Response:
        return _json(models.model_metadata(self._engine.model_metadata(model, LATEST)))

    async def version_metadata(self, model: str, version: str) -> Response:
        number = model_version(version)
        return _json(models.model_metadata(self._engine.model_metadata(model, number)))

    async def model_config(self, model: str) -> Response:
        return _json(to_json(self._engine.model_config(model, LATEST)))

    async def version_config(self, model: str, version: str) -> Response:
        return _json(to_json(self._engine.model_config(model, model_version(version))))

    async def all_statistics(self) -> Response:
        return _json(models.statistics(self._engine.statistics()))

    async def model_statistics(self, model: str) -> Response:
        return _json(models.statistics(self._engine.statistics(model)))

    async def version_statistics(self, model: str, version: str) -> Response:
        return _json(models.statistics(self._engine.statistics(model, model_version(version))))

    async def index(self, request: fastapi.Request) -> Response:
        """Row 7.1; the repository in the path is not looked at (row 7.7)."""
        ready_only = await self._decoded(models.wants_ready_only, request)
        return _json(models.index(await self._engine.index(ready_only=ready_only)))

    async def load_model(self, request: fastapi.Request, model: str) -> Response:
        """Rows 7.8, 7.11-7.14, 7.18."""
        overrides = await self._decoded(
            model_control.load_overrides, request, model_control.large_load_overrides
        )
        await self._engine.load_model(model, overrides)
        return Response()

    async def unload_model(self, request: fastapi.Request, model: str) -> Response:
        """Rows 7.9, 7.10, 7.13, 7.26."""
        dependents = await self._decoded(model_control.unload_dependents, request)
        await self._engine.unload_model(model, unload_dependents=dependents)
        return Response()

    async def _decoded(
        self,
        decode: collections.abc.Callable[[bytes], Decoded],
        request: fastapi.Request,
        far: collections.abc.Callable[[bytes], Decoded] | None = None,
    ) -> Decoded:
        """A body's content; a large body is decoded in a codec process, there by `far` where it is given."""
        pieces = await _body(request)
        codec = self._codec
        if codec is None or sum(map(len, pieces)) <= LARGE:
            return decode(b"".join(pieces))
        call = functools.partial(codec.call, on_bytes, far or decode, *map(large, pieces))
        decoded: Decoded = await codec.submit(call)
        return decoded

    async def change_model_of_repository(self, repository: str, model: str) -> Response:
        """Row 7.7."""
        raise unsupported(
            "'repository_name' specification is not supported: leave the repository out of the path"
        )

    async def system_regions(self, region: str = "") -> Response:
        return _json(shared_memory.status("system", region))

    async def cuda_regions(self, region: str = "") -> Response:
        return _json(shared_memory.status("cuda", region))

    async def change_region(self) -> Response:
        shared_memory.change()

    async def absent(self, request: fastapi.Request) -> Response:
        """501, not 404: the path is right and the model may be there, only this server cannot do it (yet)."""
        extension = next(name for name in ("trace", "logging") if f"/{name}" in request.url.path)
        raise unsupported(
            f"the {extension} extension is not in this server yet; GET /v2 lists the extensions that are"
        )

    async def docs(self) -> Response:
        page = importlib.resources.files("naiad.protocol.http").joinpath("docs.html").read_text()
        return HTMLResponse(page, headers={"Content-Security-Policy": _CONTENT_POLICY})

    async def fast_of_model(self, request: fastapi.Request, model: str) -> Response:
        return await self.fast(request)

    async def fast_of_version(self, request: fastapi.Request, model: str, version: str) -> Response:
        return await self.fast(request)

    async def fast(self, request: fastapi.Request) -> Response:
        """Ask the fast lane's handler of this path."""
        headers = dict(request.headers.raw)
        method, path = request.method.encode(), request.scope["path"]
        handler = self._routes.find(method, path, headers)
        if handler is None:
            raise HTTPException(404)
        answered = asyncio.get_running_loop().create_future()
        work = handler(
            HttpRequest(method, path, headers, await request.body()), answered.set_result
        )
        try:
            reply: HttpReply = await answered
            if reply.stream is not None:
                collected = _Collected()
                reply.stream.begin(collected)
                return response_of(reply, await collected.whole)
            return response_of(reply)
        except asyncio.CancelledError:
            if work is not None:
                work.cancel()
            raise


async def _body(request: fastapi.Request) -> list[bytes]:
    """A request's body in pieces: joining 64 MB would take 40 ms of the loop, and the codec process does it as well."""
    pieces: list[bytes] = []
    small: list[bytes] = []
    size = 0
    async for piece in request.stream():
        small.append(piece)
        size += len(piece)
        if size >= _PIECE_BYTES:
            pieces.append(b"".join(small))
            small, size = [], 0
    pieces.append(b"".join(small))
    return pieces


def _json(value: typing.Any) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")


class _Collected:
    """Where a stream goes that has to be answered as a whole."""

    def __init__(self) -> None:
        self.whole: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pieces: list[bytes | memoryview] = []

    def write(self, data: bytes | memoryview) -> None:
        self._pieces.append(data)

    def cut(self) -> None:
        self.whole.cancel()

    def end(self) -> None:
        if not self.whole.done():
            self.whole.set_result(b"".join(self._pieces))
