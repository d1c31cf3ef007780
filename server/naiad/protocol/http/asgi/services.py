"""What the routes of the application work with. They are made before the server has started, so it comes later; until then requests get 503."""

import msgspec

from naiad.engine.api import Engine
from naiad.errors import unavailable
from naiad.protocol.codec.pool import Codec
from naiad.protocol.http.message import FastRoutes

_NOT_STARTED = "the server has not started, or has stopped: send the request again later"


class Services(msgspec.Struct, frozen=True):
    """A running server, as its routes use it; the codec decodes large bodies, without it the loop does."""

    engine: Engine
    routes: FastRoutes
    codec: Codec | None = None


class LateServices:
    """The services of an application, once there are some."""

    def __init__(self, services: Services | None = None) -> None:
        self._services = services

    def open(self, services: Services) -> None:
        """The server has started."""
        self._services = services

    def close(self) -> None:
        """The server stops: requests get 503 from now on."""
        self._services = None

    @property
    def now(self) -> Services:
        """The services.

        Raises:
            InferenceError: UNAVAILABLE: the server does not run.
        """
        if self._services is None:
            raise unavailable(_NOT_STARTED)
        return self._services
