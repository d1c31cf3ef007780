"""The front ends made from the options: HTTP, gRPC, metrics. Only what is allowed is made, and gRPC is only then imported."""

import asyncio
import collections.abc
import functools
import logging

from naiad.config.model_config import InstanceKind
from naiad.core.clock import Clock
from naiad.engine.engine import ServingEngine
from naiad.engine.model import Model
from naiad.errors import ErrorCode
from naiad.metrics.collect import Counted, model_series
from naiad.metrics.exposition import Rendered, Sample, Series
from naiad.metrics.families import NOT_SERVED, PINNED_TOTAL, PINNED_USED, TRACES_LOST
from naiad.options.options import Options
from naiad.protocol.access_log import AccessLog, AccessObserver, LoggedAccess
from naiad.protocol.codec.pool import Codec
from naiad.protocol.exemplars import Exemplars
from naiad.protocol.grpc.settings import GrpcSettings, TlsSettings
from naiad.protocol.http.admin.control_plane import ControlPlane
from naiad.protocol.http.message import Receive, Scope, Send
from naiad.protocol.http.metrics_port import MetricsRoutes
from naiad.protocol.http.routes import HttpOptions, Routes
from naiad.protocol.http.transport.listener import http_listener
from naiad.protocol.http.transport.service import HttpSettings
from naiad.protocol.observer import Observer
from naiad.protocol.restricted import restrictions
from naiad.protocol.tokens import TokenFile
from naiad.protocol.trace_observer import TraceObserver
from naiad.protocol.transport.frontend import Frontend, unheard
from naiad.protocol.transport.sockets import ListenAddress, ListenError, written
from naiad.repository.lifecycle import State
from naiad.repository.manager import VersionState
from naiad.serve.console import ANY_ADDRESS, Address, exposure
from naiad.tracing.tracer import Tracer

_METRICS_CLOSE_SECONDS = 1.0


class FrontEndError(Exception):
    """A front end cannot start; the message says which option to change."""


def http_options(options: Options, tokens: TokenFile | None, codec: Codec | None) -> HttpOptions:
    """What HTTP's routes need of the options, whichever engine serves them."""
    return HttpOptions(
        max_input_size=options.http_max_input_size,
        header_forward_pattern=options.http_header_forward_pattern,
        restrictions=restrictions(options.http_restricted_api),
        tokens=tokens,
        codec=codec,
        base_path=options.http_base_path,
        kserve_v1=options.allow_kserve_v1,
    )


def observer_of(
    options: Options, tracer: Tracer, clock: Clock, *, protocol: str
) -> Observer | None:
    """The access log and the tracer; None if no option enables either. `protocol`: HTTP or GRPC."""
    log = _access_observer(options, clock)
    if not tracer.possible:
        return log
    return TraceObserver(tracer, protocol=protocol, log=log, clock=clock)


def _access_observer(options: Options, clock: Clock) -> AccessObserver | None:
    logs: list[AccessLog] = []
    if options.access_log or options.slow_request_ms:
        logger = logging.getLogger("naiad.access")
        slow_ms = options.slow_request_ms
        logs.append(LoggedAccess(logger, every=options.access_log, slow_ms=slow_ms))
    if options.metrics.exemplars:
        logs.append(Exemplars(clock))
    return AccessObserver(*logs, clock=clock) if logs else None


class Frontends:
    """The ports of the server: HTTP, gRPC and metrics.

    Args:
        states: every model version's state, for `/status`.
        gpu_uuids: by device id, for metric labels.
        on_client: see `Frontend.announce`; for HTTP and gRPC.
    """

    def __init__(
        self,
        *,
        options: Options,
        engine: ServingEngine,
        states: collections.abc.Callable[[], collections.abc.Sequence[VersionState]],
        system_metrics: collections.abc.Callable[[], collections.abc.Sequence[Series]],
        gpu_uuids: collections.abc.Mapping[int, str],
        clock: Clock,
        on_client: collections.abc.Callable[[], None] = unheard,
    ) -> None:
        self._options = options
        self._on_client = on_client
        self._engine = engine
        self._states = states
        self._system_metrics = system_metrics
        self._gpu_uuids = gpu_uuids
        self._clock = clock
        self._codec = Codec()
        self._tokens: TokenFile | None = None
        self._http: Frontend | None = None
        self._grpc: Frontend | None = None
        self._metrics: Frontend | None = None

    async def open(self) -> None:
        """Take every port that is allowed, and serve the metrics; HTTP and gRPC follow with `accept`.

        Raises:
            FrontEndError: a port or another setting cannot be used.
        """
        options = self._options
        try:
            if options.auth_token_file:
                self._tokens = TokenFile(options.auth_token_file, clock=self._clock)
            if options.allow_metrics:
                self._metrics = self._make_metrics()
                await self._metrics.start()
            if options.allow_http:
                self._http = self._make_http()
            if options.allow_grpc:
                self._grpc = self._make_grpc()
            for frontend in self._inference():
                frontend.announce(self._on_client)
                await frontend.reserve()
        except (ListenError, ValueError) as error:
            raise FrontEndError(str(error)) from None

    async def accept(self) -> None:
        """Serve HTTP and gRPC: as with Triton, a client that gets in finds every model loaded or failed."""
        for frontend in self._inference():
            await frontend.start()

    def addresses(self) -> list[Address]:
        """The address of each protocol: a URL that works on this machine, and the address that the socket is bound to."""
        tokens = bool(self._options.auth_token_file)
        addresses = []
        if self._http is not None:
            where = self._http.address
            base = f"http://{_reachable(where)}{self._options.http_base_path}"
            addresses.append(_address("HTTP", base, "HTTPService", where, authenticated=tokens))
            addresses.append(Address(title="API docs", url=f"{base}/docs"))
        if self._grpc is not None:
            where = self._grpc.address
            certificates = self._options.grpc_use_ssl and self._options.grpc_use_ssl_mutual
            addresses.append(
                _address(
                    "gRPC",
                    _reachable(where),
                    "GRPCInferenceService",
                    where,
                    authenticated=tokens or certificates,
                )
            )
        if self._metrics is not None:
            where = self._metrics.address
            url = f"http://{_reachable(where)}/metrics"
            addresses.append(
                _address("metrics", url, "Metrics Service", where, authenticated=False)
            )
        return addresses

    def example(self, states: collections.abc.Sequence[VersionState]) -> str:
        """One command that works now; "" when there is none."""
        if self._http is None:
            return ""
        ready = [state.name for state in states if state.state is State.READY]
        path = f"v2/models/{ready[0]}" if ready else "v2/health/live"
        return f"curl http://{_reachable(self._http.address)}{self._options.http_base_path}/{path}"

    def was_in_use(self) -> bool:
        """See `Frontend`; a scrape of the metrics does not count."""
        used = [frontend.was_in_use() for frontend in self._inference()]  # each has to note it
        return any(used)

    def begin_drain(self) -> None:
        """Let clients go to other servers, and go on accepting."""
        for frontend in self._inference():
            frontend.begin_drain()

    async def close(self, seconds: float) -> None:
        """Accept nothing more over HTTP and gRPC, and finish requests in flight within this time."""
        await asyncio.gather(*(frontend.close(seconds) for frontend in self._inference()))

    async def close_all(self) -> None:
        """Close what is still open: all of it after a start that failed, the metrics after a drain, so that it can be watched. Idempotent."""
        await self.close(0)
        self._codec.close()
        if self._metrics is not None:
            await self._metrics.close(_METRICS_CLOSE_SECONDS)

    def _inference(self) -> list[Frontend]:
        """The ports that take requests for models; HTTP last, since clients wait for its readiness and then use gRPC."""
        return [frontend for frontend in (self._grpc, self._http) if frontend is not None]

    def _make_http(self) -> Frontend:
        options = self._options
        http = http_options(options, self._tokens, self._codec)
        routes = Routes(self._engine, http)
        address = ListenAddress(
            options.http_address,
            options.http_port,
            port_option="--http-port",
            reuse_port=options.reuse_http_port,
            reuse_option="--reuse-http-port",
        )
        app = ControlPlane(
            self._engine,
            routes,
            http.restrictions,
            http.tokens,
            http.codec,
            base_path=http.base_path,
            kserve_v1=http.kserve_v1,
        )
        tracer = self._engine.tracer
        settings, observer = (
            self._settings(),
            observer_of(options, tracer, self._clock, protocol="HTTP"),
        )
        if options.http_engine == "uvicorn":
            from naiad.protocol.http.asgi.middleware import RequestMiddleware, RequestSettings  # noqa: PLC0415 - with it
            from naiad.protocol.http.asgi.uvicorn_server import UvicornServer  # noqa: PLC0415 - the other engine does not need it

            limits = RequestSettings(body_idle_timeout=settings.body_idle_timeout)
            middleware = RequestMiddleware(app, lambda: routes, limits, observer)
            return UvicornServer(address, middleware, settings=settings, prepare=app.load)
        return http_listener(
            address,
            routes=routes,
            app=app,
            settings=settings,
            clock=self._clock,
            observer=observer,
        )

    def _make_grpc(self) -> Frontend:
        from naiad.protocol.grpc.methods import Methods  # noqa: PLC0415 - with it

        options = self._options
        settings = GrpcSettings(
            address=options.grpc_address,
            port=options.grpc_port,
            reuse_port=options.reuse_grpc_port,
            header_forward_pattern=options.grpc_header_forward_pattern,
            restrictions=restrictions(options.grpc_restricted_protocol),
            tokens=self._tokens,
            tls=TlsSettings(
                server_cert=options.grpc_server_cert,
                server_key=options.grpc_server_key,
                root_cert=options.grpc_root_cert,
                mutual=options.grpc_use_ssl_mutual,
            )
            if options.grpc_use_ssl
            else None,
            reflection=options.grpc_reflection,
            max_decompressed_bytes=options.grpc_max_decompressed_size,
            infer_response_compression_level=options.grpc_infer_response_compression_level,
            keepalive_time_ms=options.grpc_keepalive_time,
            keepalive_timeout_ms=options.grpc_keepalive_timeout,
            keepalive_permit_without_calls=options.grpc_keepalive_permit_without_calls,
            max_pings_without_data=options.grpc_http2_max_pings_without_data,
            min_recv_ping_interval_ms=options.grpc_http2_min_recv_ping_interval_without_data,
            max_ping_strikes=options.grpc_http2_max_ping_strikes,
            max_connection_age_ms=options.grpc_max_connection_age,
            max_connection_age_grace_ms=options.grpc_max_connection_age_grace,
        )
        methods = Methods(self._engine, settings, self._codec)
        observer = observer_of(options, self._engine.tracer, self._clock, protocol="GRPC")
        if observer is not None:
            methods.observe(observer)
        if options.grpc_engine == "grpcio":
            from naiad.protocol.grpc.transport.aio import GrpcServer  # noqa: PLC0415 - 25 MB that the other engine does not pay

            return GrpcServer(settings, methods)
        from naiad.protocol.grpc.transport.native.listener import NativeGrpcServer  # noqa: PLC0415 - with it

        return NativeGrpcServer(settings, methods)

    def _make_metrics(self) -> Frontend:
        options = self._options
        address = ListenAddress(
            options.metrics_address or options.http_address,
            options.metrics_port,
            port_option="--metrics-port",
        )
        return http_listener(
            address,
            routes=MetricsRoutes(
                collect=self.series,
                states=self._states,
                loads=self._engine.load_progress,
                open_metrics=functools.partial(self.series, exemplars=True)
                if self._options.metrics.exemplars
                else None,
            ),
            app=_no_app,
            settings=self._settings(),
            clock=self._clock,
        )

    def _settings(self) -> HttpSettings:
        return HttpSettings(
            keep_alive_timeout=self._options.http_idle_timeout_secs,
            body_idle_timeout=self._options.http_body_timeout_secs,
        )

    def series(self, *, exemplars: bool = False) -> collections.abc.Iterator[Series | Rendered]:
        """The families of the metrics page, with exemplars if asked; each is computed when it is the next."""
        counted = [
            Counted(
                name=name,
                version=version,
                statistics=model.statistics,
                tags=model.config.metric_tags,
                namespace=model.namespace,
                gpu_uuids=self._gpus_of(model),
            )
            for name, version, model in self._engine.models()
        ]
        latencies = self._options.metrics.counter_latencies
        yield from model_series(counted, counter_latencies=latencies, exemplars=exemplars)
        refused = self._engine.not_served
        yield Series(
            NOT_SERVED,
            (
                Sample((("reason", "not_found"),), refused[ErrorCode.NOT_FOUND]),
                Sample((("reason", "not_ready"),), refused[ErrorCode.UNAVAILABLE]),
            ),
        )
        if self._engine.tracer.possible:
            yield Series(TRACES_LOST, (Sample((), self._engine.tracer.lost()),))
        # There is no pinned memory pool: tensors live in ordinary memory (row 8.20 asks for the families).
        yield Series(PINNED_TOTAL, (Sample((), 0),))
        yield Series(PINNED_USED, (Sample((), 0),))
        yield from self._system_metrics()

    def _gpus_of(self, model: Model) -> tuple[str, ...]:
        devices = sorted(
            {
                gpu
                for group in model.config.instance_groups
                if group.kind is InstanceKind.GPU
                for gpu in group.gpus
            }
        )
        return tuple(self._gpu_uuids[gpu] for gpu in devices if gpu in self._gpu_uuids)


def _address(
    title: str, url: str, service: str, where: tuple[str, int], *, authenticated: bool
) -> Address:
    return Address(
        title=title,
        url=url,
        service=service,
        bound=written(*where),
        exposure=exposure(where[0], authenticated=authenticated),
    )


def _reachable(address: tuple[str, int]) -> str:
    """The address as a client on this machine writes it."""
    host, port = address
    return written("localhost" if host in ANY_ADDRESS else host, port)


async def _no_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Never reached: the metrics routes answer every path."""
    raise AssertionError(scope["path"])
