"""The gRPC port on our own HTTP/2; a `Frontend`. How it ends: `close` tells every client to go before it takes no more calls, so that none is lost."""

import asyncio
import functools

from typing_extensions import override

from naiad.protocol.grpc.call import MethodTable
from naiad.protocol.grpc.settings import GrpcSettings, cannot_listen
from naiad.protocol.grpc.transport.native.connection import GrpcConnection
from naiad.protocol.grpc.transport.native.service import GrpcService
from naiad.protocol.grpc.transport.native.tls import Certificates
from naiad.protocol.transport.connection_registry import ConnectionRegistry
from naiad.protocol.transport.listener import Listener, ProtocolFactory
from naiad.protocol.transport.sockets import ListenAddress, ListenError, TransportSettings

_TOLD_S = 1.0
"""How long the clients have to take note that the server takes no more calls; a call that comes later is not served and not lost: its
client knows that, and may send it to another server."""

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
    async def close(self, timeout: float) -> int:
        """See `Frontend`. Calls that come before their client knows that it has to go are served."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + max(timeout, 0.0)
        service = self._service
        if service is not None:
            self.stop_accepting()
            self.begin_drain(close_idle=True)
            told_at = min(give_up_at, loop.time() + _TOLD_S)
            while loop.time() < told_at and not _all_settled(service.registry):  # noqa: ASYNC110 - an event would have to be set by every connection
                await asyncio.sleep(_POLL_S)
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


def _all_settled(registry: ConnectionRegistry) -> bool:
    return all(
        connection.is_settled
        for connection in registry.connections()
        if isinstance(connection, GrpcConnection)
    )
