"""The gRPC port on our own HTTP/2; a `Frontend`.

How it ends: `begin_drain` changes nothing that clients see. A proxy that is asked to go while the server is still among those that it knows connects again, to
the same server. `close` accepts the clients that wait in the kernel and no others, tells every client to go, goes on serving until each knows, and only
then takes no more calls: so none is lost.
"""

import asyncio
import collections.abc
import functools

from typing_extensions import override

from naiad.protocol.grpc.call import MethodTable
from naiad.protocol.grpc.settings import GrpcSettings, cannot_listen
from naiad.protocol.grpc.transport.native.connection import GrpcConnection
from naiad.protocol.grpc.transport.native.departure import FINISH_S
from naiad.protocol.grpc.transport.native.service import GrpcService
from naiad.protocol.grpc.transport.native.tls import Certificates
from naiad.protocol.transport.connection_registry import ConnectionRegistry
from naiad.protocol.transport.listener import Listener, ProtocolFactory
from naiad.protocol.transport.sockets import ListenAddress, ListenError, TransportSettings

_TOLD_S = FINISH_S
"""How long the clients have to take note that the server takes no more calls; a call that comes later is not served and not lost: its
client knows that, and may send it to another server."""

_FIRST_MESSAGE_S = 1.0
"""How long a stream that was opened before its client knew may take for its first message; then it is as one that is open without a request."""

_POLL_S = 0.01


class NativeGrpcServer(Listener):
    """The port, for any service.

    Raises:
        CannotServeError: a TLS file cannot be used; the message names the option.
    """

    def __init__(self, settings: GrpcSettings, methods: MethodTable) -> None:
        self._methods = methods
        self._grpc = settings
        self._service: GrpcService | None = None
        self._transport_settings = TransportSettings(tick=tick(settings))
        address = ListenAddress(
            settings.address,
            settings.port,
            port_option="--grpc-port",
            reuse_port=settings.reuse_port,
            reuse_option="--reuse-grpc-port",
            as_grpc=True,
        )
        certificates = None if settings.tls is None else Certificates(settings.tls)
        super().__init__(
            address,
            settings=self._transport_settings,
            protocol=self._connections,
            tls=None if certificates is None else certificates.context,
        )

    @property
    @override
    def address(self) -> tuple[str, int]:
        """The address of the settings, with the real port in place of 0 once that is taken."""
        if self._address is None:
            return self._grpc.address, self._grpc.port
        return self._grpc.address, self._address[1]

    @override
    async def reserve(self) -> None:
        """See `Frontend`; clients that connect wait for `start`.

        Raises:
            CannotServeError: the port cannot be taken.
        """
        try:
            await super().reserve()
            self.listen()
        except ListenError:
            raise cannot_listen(self._grpc) from None

    def _connections(self, registry: ConnectionRegistry) -> ProtocolFactory:
        self._service = GrpcService(self._methods, self._grpc, registry, self._transport_settings)
        return functools.partial(GrpcConnection, self._service)

    @override
    def begin_drain(self, *, close_idle: bool = False) -> None:
        """See `Frontend`; with `close_idle`, tell every client to go, those that come later included."""
        if close_idle:
            super().begin_drain(close_idle=True)

    @override
    async def close(self, timeout: float) -> int:
        """See `Frontend`. Calls that come before their client knows that it has to go are served."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + max(timeout, 0.0)
        service = self._service
        if service is not None:
            await self.take_waiting(max(timeout, 0.0) / 4)
            self.begin_drain(close_idle=True)
            registry = service.registry
            # Half of the time is for clients that do not answer, so that these do not make the server exceed it.
            seconds = min(_TOLD_S, max(timeout, 0.0) / 2)
            await _until(lambda: _all(_is_settled, registry), loop.time() + seconds)
            for connection in _connections(registry):
                connection.finish()
            seconds = min(_FIRST_MESSAGE_S, max(timeout, 0.0) / 8)
            await _until(lambda: _all(_has_begun, registry), loop.time() + seconds)
        self._methods.shut()
        try:
            return await super().close(max(0.0, give_up_at - loop.time()))
        finally:
            if service is not None:
                service.close()


def tick(settings: GrpcSettings) -> float:
    """Seconds between two checks of the timeouts: one, or less where an option is about less than some seconds."""
    times = (
        settings.keepalive_time_ms, settings.keepalive_timeout_ms, settings.max_connection_age_ms,
        settings.max_connection_age_grace_ms,
    )  # fmt: skip
    shortest = min((time for time in times if time > 0), default=10_000)
    return min(1.0, max(0.05, shortest / 1e3 / 10))


async def _until(condition: collections.abc.Callable[[], bool], at: float) -> None:
    """Wait for a condition, until that time of the loop at most."""
    loop = asyncio.get_running_loop()
    while loop.time() < at and not condition():  # noqa: ASYNC110 - an event would have to be set by every connection
        await asyncio.sleep(_POLL_S)


def _all(
    holds: collections.abc.Callable[[GrpcConnection], bool], registry: ConnectionRegistry
) -> bool:
    return all(holds(connection) for connection in _connections(registry))


def _connections(registry: ConnectionRegistry) -> list[GrpcConnection]:
    return [each for each in registry.connections() if isinstance(each, GrpcConnection)]


def _is_settled(connection: GrpcConnection) -> bool:
    return connection.is_settled


def _has_begun(connection: GrpcConnection) -> bool:
    return not connection.awaits_message
