"""The running backends: each is made when the first model needs it, so that a framework costs neither start-up time nor memory until then."""

import collections.abc
import importlib.util
import logging
import pathlib
import sys
import threading

from naiad import extras
from naiad.backends.backend import Backend, Closes
from naiad.backends.catalog import Catalog
from naiad.backends.plugin import BackendContext, BackendPlugin
from naiad.backends.python.api.server import NO_SERVER, Server
from naiad.config.backend_type import supported_names
from naiad.core.clock import Clock
from naiad.errors import InferenceError, invalid, unavailable

log = logging.getLogger("naiad.backends")


class Registry:
    """The backends of this server, each made once; by default without those of `--backend-directory`.

    Args:
        imported: called, under the lock, when a framework has been imported while the process holds no model yet; the server exempts what
            exists by then from garbage collection.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        server: Server = NO_SERVER,
        catalog: Catalog | None = None,
        imported: collections.abc.Callable[[], None] = lambda: None,
    ) -> None:
        self._context = BackendContext(clock=clock, server=server)
        self._backends: dict[tuple[str, str], Backend] = {}
        self._lock = threading.Lock()  # several loader threads ask at once
        self._imported = imported
        self._holds_models = False
        self.catalog = catalog or Catalog()

    def plugin(self, name: str, model_dir: pathlib.Path | None = None) -> BackendPlugin:
        """The declaration of a backend, which may be in the folder of a model. Blocking, from any thread.

        Raises:
            InferenceError: INVALID_ARG: there is no such backend (row 11.53).
        """
        catalog = self.catalog if model_dir is None else self.catalog.for_model(model_dir)
        plugin = catalog.find(name)
        if isinstance(plugin, BackendPlugin):
            return plugin
        raise invalid(
            f"unable to find backend library for backend '{name}': "
            f"this server has {', '.join(supported_names(self.catalog))}"
        )

    def get(
        self, name: str, *, for_model: bool = False, model_dir: pathlib.Path | None = None
    ) -> Backend:
        """The backend of that name; its framework is imported now. Blocking, from any thread.

        Raises:
            InferenceError: there is no such backend (row 11.53), or its framework cannot be imported.
        """
        with self._lock:
            plugin = self.plugin(name, model_dir)
            key = (
                name,
                plugin.runtime,
            )  # one model's folder may hold a library of a name that is a model.py for others
            backend = self._backends.get(key)
            if backend is None:
                backend = self._backends[key] = self._make(plugin)
                if not self._holds_models:
                    self._imported()
            self._holds_models |= for_model
            return backend

    def close(self) -> None:
        """End what backends have running besides instances."""
        # Without the lock, which may be held for as long as a framework takes to import.
        for backend in tuple(self._backends.values()):
            if isinstance(backend, Closes):
                backend.close()

    def _make(self, plugin: BackendPlugin) -> Backend:
        try:
            backend = plugin.make(self._context)
        except ImportError as error:
            if not _is_of(error, plugin.package):
                raise
            raise no_package(plugin, error) from error
        if plugin.package in sys.modules:
            version = getattr(sys.modules[plugin.package], "__version__", "")
            log.info(
                "backend %s is loaded: %s %s",
                plugin.name,
                plugin.package,
                version,
                extra={
                    "backend": plugin.name,
                    "package": plugin.package,
                    "package_version": version,
                },
            )
        return backend


def check_installed(plugin: BackendPlugin) -> None:
    """Check that the package that a backend stands on is installed, without importing it.

    Raises:
        InferenceError: UNAVAILABLE: it is not, in the words of a load.
    """
    if plugin.package and not _is_there(plugin.package):
        raise no_package(plugin, ModuleNotFoundError(f"No module named {plugin.package!r}"))


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def no_package(plugin: BackendPlugin, error: ImportError) -> InferenceError:
    """The error of a package that cannot be imported."""
    how = "; ".join(filter(None, (plugin.extra and extras.install(plugin.extra), plugin.install)))
    fault = "is not installed" if isinstance(error, ModuleNotFoundError) else "is broken"
    return unavailable(
        f"unable to load backend '{plugin.name}': its package {plugin.package} {fault} ({error}): {how}"
    )


def _is_of(error: ImportError, package: str) -> bool:
    """Whether the framework failed to import, rather than a module of the backend's own."""
    missing = f"{error.name or ''}."
    return bool(package and error.name) and (
        missing.startswith(f"{package}.") or f"{package}.".startswith(missing)
    )
