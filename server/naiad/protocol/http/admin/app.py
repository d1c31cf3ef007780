"""Every path of the HTTP API as a FastAPI application: the control plane, the API's description, and the fast lane's paths.

Under the native engine it is imported when its first request comes (`control_plane.py`): the framework costs memory and start-up time that
inference does not need, and the fast lane takes infer and health before they get here. In another ASGI server the same handlers answer them here.
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
from starlette.types import Lifespan
from typing_extensions import override

from naiad import __version__
from naiad.config.config_json import to_json
from naiad.engine.api import Engine
from naiad.errors import invalid, unsupported
from naiad.protocol.codec.frames import large, on_bytes
from naiad.protocol.codec.pool import CODEC_BYTES
from naiad.protocol.http.admin import models, openapi, regions, settings
from naiad.protocol.http.admin.errors import add_error_replies
from naiad.protocol.http.admin.graph import graph
from naiad.protocol.http.admin.queue import queue
from naiad.protocol.http.asgi.fast_call import fast_call
from naiad.protocol.http.asgi.services import LateServices
from naiad.protocol.http.load_progress import load_progress
from naiad.protocol.http.message import FastRoutes, Receive, Scope, Send
from naiad.protocol.http.paths import API, BASE_PATH, V1_MODEL_READY, ApiPath, is_v1
from naiad.protocol.http.routes import model_version

Decoded = typing.TypeVar("Decoded")
Endpoint = collections.abc.Callable[..., collections.abc.Awaitable[Response]]

_CONTENT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"
)


class _Digits(Convertor[str]):
    """A version in a path: digits only; a path with anything else does not exist (row 1.8)."""

    regex = "[0-9]+"

    @override
    def convert(self, value: str) -> str:
        return value

    @override
    def to_string(self, value: str) -> str:
        return value


class _WithoutVerb(Convertor[str]):
    """A model in a path of KServe's v1 that has no verb (`V1_MODEL_READY`)."""

    regex = "[^/:]+"

    @override
    def convert(self, value: str) -> str:
        return value

    @override
    def to_string(self, value: str) -> str:
        return value


_TEMPLATES = frozenset(path.template for path in API)

_SMALL_CONFIG = 1 << 16
"""Bytes of a config that is written on the loop, in 20 ms at most; one that came with a load may have a megabyte."""

_PIECE_BYTES = 1 << 20
"""The size of a piece of a large body; each piece costs the codec two system calls."""


def build(
    services: LateServices,
    *,
    base_path: str = "",
    kserve_v1: bool = True,
    lifespan: Lifespan[typing.Any] | None = None,
) -> fastapi.FastAPI:
    """The application, without what `control_plane.Gate` checks. `kserve_v1`: whether it has the paths of KServe's v1. `lifespan` is FastAPI's."""
    register_url_convertor("digits", _Digits())
    register_url_convertor("without_verb", _WithoutVerb())
    app = _Described(
        title="Naiad",
        description="Inference over HTTP: the KServe v2 protocol with Triton's extensions.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        servers=[{"url": base_path}, {"url": "/"}] if base_path else None,
        lifespan=lifespan,
    )
    add_error_replies(app, services)
    _Endpoints(services).add_to(app, [path for path in API if kserve_v1 or not is_v1(path)])
    return app


class _Described(fastapi.FastAPI):
    """An application whose description leaves out the framework's own validation errors, which Naiad's paths never send."""

    @override
    def openapi(self) -> dict[str, typing.Any]:
        if self.openapi_schema is None:
            description = super().openapi()
            for path in _TEMPLATES & description["paths"].keys():
                for operation in description["paths"][path].values():
                    operation["responses"].pop("422", None)
        return super().openapi()


class _Fast(Response):
    """The response of a path of the fast lane: its handler answers, without the framework's own request and response."""

    def __init__(self, routes: FastRoutes) -> None:
        super().__init__()
        self._routes = routes

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await fast_call(self._routes, scope, receive, send)


class _Endpoints:
    """The endpoints. Each calls the engine once and writes the result."""

    def __init__(self, services: LateServices) -> None:
        self._services = services

    @property
    def _engine(self) -> Engine:
        return self._services.now.engine

    def add_to(self, app: fastapi.FastAPI, paths: collections.abc.Sequence[ApiPath]) -> None:
        """Add these paths of the API."""
        endpoints: dict[str, Endpoint] = {
            "server_metadata": self.server_metadata,
            "all_statistics": self.all_statistics,
            "model_metadata": self.model_metadata,
            "model_config": self.model_config,
            "model_statistics": self.model_statistics,
            "model_graph": self.model_graph,
            "model_queue": self.model_queue,
            "index": self.index,
            "load_progress": self.load_progress,
            "load": self.load,
            "unload": self.unload,
            "change_model_of_repository": self.change_model_of_repository,
            "system_regions": self.system_regions,
            "register_region": self.register_region,
            "unregister_region": self.unregister_region,
            "cuda_regions": self.cuda_regions,
            "register_cuda_region": self.register_cuda_region,
            "unregister_cuda_region": self.unregister_cuda_region,
            "trace_setting": self.trace_setting,
            "logging": self.logging,
            "docs": self.docs,
            "description": self.description,
        }
        for path in paths:
            endpoint = self.fast if path.fast else endpoints[path.operation]
            template = path.template.replace("{version}", "{version:digits}")
            if path.operation == V1_MODEL_READY:
                template = template.replace("{model}", "{model:without_verb}")
            methods = list(path.methods)
            operation = openapi.operation_of(path)
            if operation is None:
                app.add_api_route(template, endpoint, methods=methods, include_in_schema=False)
                continue
            app.add_api_route(
                template,
                endpoint,
                methods=methods,
                name=path.operation,
                tags=[operation.tag],
                summary=operation.summary,
                description=operation.note,
                response_class=Response,
                responses=operation.responses,
                openapi_extra=openapi.extra_of(path, operation),
            )

    async def server_metadata(self, request: fastapi.Request) -> Response:
        return _json(models.server_metadata(self._engine.server_metadata()))

    async def model_metadata(self, request: fastapi.Request) -> Response:
        return _json(models.model_metadata(self._engine.model_metadata(*_version_of(request))))

    async def model_config(self, request: fastapi.Request) -> Response:
        config = self._engine.model_config(*_version_of(request))
        if config.ByteSize() <= _SMALL_CONFIG:
            return _json(to_json(config))
        return await asyncio.to_thread(lambda: _json(to_json(config)))

    async def all_statistics(self, request: fastapi.Request) -> Response:
        return _json(models.statistics(self._engine.statistics()))

    async def model_graph(self, request: fastapi.Request) -> Response:
        """GET …/graph: ours."""
        return _json(graph(self._engine.model_graph(*_version_of(request))))

    async def model_queue(self, request: fastapi.Request) -> Response:
        """GET …/queue: ours."""
        return _json(queue(self._engine.model_queue(*_version_of(request))))

    async def model_statistics(self, request: fastapi.Request) -> Response:
        return _json(models.statistics(self._engine.statistics(*_version_of(request))))

    async def index(self, request: fastapi.Request) -> Response:
        """The models, versions and states (row 7.1); a repository in the path has no effect (row 7.7)."""
        wanted = await self._decoded(models.index_request, request)
        entries = await self._engine.index(ready_only=wanted.ready)
        return _json(models.index(entries, memory=wanted.memory))

    async def load_progress(self, request: fastapi.Request) -> Response:
        """The loads in progress, and the last result of each version."""
        return _json(load_progress(self._engine.load_progress()))

    async def load(self, request: fastapi.Request) -> Response:
        """Load or reload a model (rows 7.8, 7.11-7.14, 7.18)."""
        overrides = await self._decoded(models.load_overrides, request, models.large_load_overrides)
        await self._engine.load_model(request.path_params["model"], overrides)
        return Response()

    async def unload(self, request: fastapi.Request) -> Response:
        """Unload a model (rows 7.9, 7.10, 7.13, 7.26)."""
        dependents = await self._decoded(models.unload_dependents, request)
        await self._engine.unload_model(request.path_params["model"], unload_dependents=dependents)
        return Response()

    async def _decoded(
        self,
        decode: collections.abc.Callable[[bytes], Decoded],
        request: fastapi.Request,
        far: collections.abc.Callable[[bytes], Decoded] | None = None,
    ) -> Decoded:
        """A body's content; a large body is decoded in a codec process, there by `far` where it is given."""
        pieces = await _body(request)
        codec = self._services.now.codec
        if codec is None or sum(map(len, pieces)) <= CODEC_BYTES:
            return decode(b"".join(pieces))
        call = functools.partial(codec.call, on_bytes, far or decode, *map(large, pieces))
        decoded: Decoded = await codec.submit(call)
        return decoded

    async def change_model_of_repository(self, request: fastapi.Request) -> Response:
        """A load or unload that names a repository is refused (row 7.7)."""
        raise unsupported(
            "'repository_name' specification is not supported: leave the repository out of the path"
        )

    async def system_regions(self, request: fastapi.Request) -> Response:
        """The regions of system shared memory, or one (row 5.13)."""
        return _json(regions.system_status(self._engine.regions.system(_region_of(request))))

    async def register_region(self, request: fastapi.Request) -> Response:
        """Register a region of system shared memory (rows 5.7 to 5.10)."""
        known = self._engine.regions
        known.require_allowed()
        name = _named_region_of(request, "system")
        wanted = await self._decoded(regions.registration, request)
        known.register(name, wanted.key, wanted.offset, wanted.size)
        return Response()

    async def unregister_region(self, request: fastapi.Request) -> Response:
        """Unregister a region, or all of them (rows 5.7, 5.16)."""
        self._engine.regions.unregister(_region_of(request))
        return Response()

    async def cuda_regions(self, request: fastapi.Request) -> Response:
        """The regions in GPUs' memory, or one (row 5.14)."""
        return _json(regions.cuda_status(self._engine.regions.cuda(_region_of(request))))

    async def register_cuda_region(self, request: fastapi.Request) -> Response:
        """Register a region in a GPU's memory (row 5.14)."""
        known = self._engine.regions
        known.require_allowed()
        name = _named_region_of(request, "cuda")
        known.require_gpus(name)
        wanted = await self._decoded(regions.cuda_registration, request)
        await known.register_cuda(name, wanted.handle, wanted.device, wanted.size)
        return Response()

    async def unregister_cuda_region(self, request: fastapi.Request) -> Response:
        """Unregister a region in a GPU's memory, or all of them (rows 5.7, 5.16)."""
        self._engine.regions.unregister(_region_of(request), on_gpu=True)
        return Response()

    async def trace_setting(self, request: fastapi.Request) -> Response:
        """The trace setting of a model, or of all of them, after a change (rows 9.1 to 9.10)."""
        engine, model = self._engine, request.path_params.get("model", "")
        if model and not await engine.model_ready(model):
            raise invalid(f"Request for unknown model : {model}")
        if request.method == "POST":
            engine.tracer.change(model, await self._decoded(settings.trace_change, request))
        return _json(engine.tracer.shown(model))

    async def logging(self, request: fastapi.Request) -> Response:
        """The log settings, after a change (rows 9.20 to 9.24)."""
        logs = self._engine.logs
        if request.method == "POST":
            logs.change(await self._decoded(settings.log_change, request))
        return _json(logs.shown())

    async def docs(self, request: fastapi.Request) -> Response:
        page = importlib.resources.files("naiad.protocol.http").joinpath("docs.html").read_text()
        return HTMLResponse(page, headers={"Content-Security-Policy": _CONTENT_POLICY})

    async def description(self, request: fastapi.Request) -> Response:
        described = request.app.openapi()
        prefix = request.scope.get(BASE_PATH, "")
        if prefix and all(prefix != server["url"] for server in described.get("servers", ())):
            described = {**described, "servers": [{"url": prefix}]}
        return _json(described)

    async def fast(self, request: fastapi.Request) -> Response:
        """Have the handler of the fast lane for this path answer."""
        return _Fast(self._services.now.routes)


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


def _version_of(request: fastapi.Request) -> tuple[str, int]:
    """The model and the version that a path names.

    Raises:
        InferenceError: INVALID_ARG for a version that is too large.
    """
    parameters = request.path_params
    return parameters["model"], model_version(parameters.get("version", ""))


def _region_of(request: fastapi.Request) -> str:
    """The region that a path names; "" for all of them."""
    name: str = request.path_params.get("region", "")
    return name


def _named_region_of(request: fastapi.Request, kind: str) -> str:
    """The region that a path names.

    Raises:
        InferenceError: INVALID_ARG if it names none.
    """
    if name := _region_of(request):
        return name
    raise invalid(
        f"'region name' is necessary to register {kind} shared memory region: POST /v2/{kind}sharedmemory/region/NAME/register"
    )


def _json(value: typing.Any) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")
