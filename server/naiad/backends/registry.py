"""Which backends there are: a name, the module that serves it, and what to install for it.

A backend's module is imported when the first model needs it, so that a framework costs neither start-up time nor memory
until then (roadmap 8/8 adds a line here for each framework).
"""

import importlib
import logging
import sys
import threading
import typing

import msgspec

from naiad.backends.backend import Backend, Closes
from naiad.backends.python.api.server import NO_SERVER, Server
from naiad.core.clock import Clock
from naiad.errors import ErrorCode, InferenceError, invalid

log = logging.getLogger("naiad.backends")


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Where a backend is.

    Attributes:
        module: holds the factory.
        factory: called with `clock=`; gives the Backend.
        package: the package that it stands on, as imported; "" for none.
        install: what brings that package.
        asks_server: its models may ask the server, and its factory takes `server=` as well.
    """

    module: str
    factory: str
    package: str = ""
    install: str = ""
    asks_server: bool = False


_ENTRIES = {
    "onnxruntime": _Entry(
        module="naiad.backends.onnxruntime.backend",
        factory="OnnxRuntimeBackend",
        package="onnxruntime",
        install="pip install 'naiad[server]' (or 'naiad[server-gpu]' in its place where there is an NVIDIA GPU)",
    ),
    "python": _Entry(
        module="naiad.backends.python.backend", factory="PythonBackend", asks_server=True
    ),
}


NAMES = tuple(_ENTRIES)
"""The backends that can be asked for."""


class Registry:
    """The backends of this server, each made once.

    Args:
        clock: for the moments that an `Execution` carries.
        server: what models that ask the server ask.
    """

    def __init__(self, *, clock: Clock, server: Server = NO_SERVER) -> None:
        self._clock = clock
        self._server = server
        self._made: dict[str, Backend] = {}
        self._lock = threading.Lock()  # several loader threads ask at once

    @property
    def names(self) -> tuple[str, ...]:
        """The backends that can be asked for."""
        return NAMES

    def get(self, name: str) -> Backend:
        """The backend of that name; its framework is imported now. Blocking, from any thread.

        Raises:
            InferenceError: there is no such backend (row 11.53), or its framework cannot be imported.
        """
        with self._lock:
            backend = self._made.get(name)
            if backend is None:
                backend = self._made[name] = self._make(name)
            return backend

    def close(self) -> None:
        """End what backends have running besides instances."""
        # Without the lock, which may be held for as long as a framework takes to import.
        for backend in tuple(self._made.values()):
            if isinstance(backend, Closes):
                backend.close()

    def _make(self, name: str) -> Backend:
        entry = _ENTRIES.get(name)
        if entry is None:
            raise invalid(
                f"unable to find backend library for backend '{name}': "
                f"this server has {', '.join(sorted(_ENTRIES))}"
            )
        try:
            module = importlib.import_module(entry.module)
        except ImportError as error:
            if not _is_of(error, entry.package):
                raise
            found = "is not installed" if isinstance(error, ModuleNotFoundError) else "is broken"
            raise InferenceError(
                ErrorCode.UNAVAILABLE,
                f"unable to load backend '{name}': its package {entry.package} {found} ({error}): {entry.install}",
            ) from error
        if entry.package:
            version = getattr(sys.modules.get(entry.package), "__version__", "")
            log.info(
                "backend %s is loaded: %s %s",
                name,
                entry.package,
                version,
                extra={"backend": name, "package": entry.package, "package_version": version},
            )
        factory = getattr(module, entry.factory)
        if entry.asks_server:
            return typing.cast("Backend", factory(clock=self._clock, server=self._server))
        return typing.cast("Backend", factory(clock=self._clock))


def _is_of(error: ImportError, package: str) -> bool:
    """Whether it is the framework that failed to import, and not a module of ours."""
    return bool(package) and (error.name or "").partition(".")[0] == package
