"""The backends that this server knows: its own, and those of installed packages, found by their entry points.

Looking for installed ones costs 35 ms, so it waits until a model or an option names something that no backend of the server's own answers to.
"""

import collections.abc
import functools
import importlib
import logging
import typing

from naiad.backends.not_supported import OPENVINO, PYTORCH, TENSORFLOW, TENSORRT
from naiad.backends.plugin import GROUP, BackendContext, BackendPlugin
from naiad.config.backend_type import BackendType
from naiad.errors import unavailable

if typing.TYPE_CHECKING:
    import importlib.metadata

    from naiad.backends.backend import Backend

log = logging.getLogger("naiad.backends")

OWN = {
    "onnxruntime": "naiad.backends.onnxruntime.plugin:PLUGIN",
    "python": "naiad.backends.python.plugin:PLUGIN",
}
"""The server's own backends, as `pyproject.toml` declares them as entry points."""


@functools.cache
def _own() -> tuple[BackendType, ...]:
    """The server's own backends and those not supported yet, in the order in which Triton looks for model files (row 11.4)."""
    return (
        TENSORFLOW,
        TENSORRT,
        _load(OWN["onnxruntime"]),
        OPENVINO,
        PYTORCH,
        _load(OWN["python"]),
    )


@functools.cache
def _installed() -> tuple[BackendPlugin, ...]:
    """The backends of installed packages, by name. One that is broken is among them, and says why when it is needed."""
    import importlib.metadata  # noqa: PLC0415 - see the module's docstring

    plugins: dict[str, BackendPlugin] = {}
    for entry in sorted(importlib.metadata.entry_points(group=GROUP)):
        if OWN.get(entry.name) == entry.value:
            continue
        source = f"{entry.value}, package {entry.dist.name if entry.dist else 'unknown'}"
        if entry.name in plugins or any(entry.name == own.name for own in _own() if own.supported):
            log.warning("backend %s (%s) is not used: the name is taken", entry.name, source)
            continue
        plugins[entry.name] = _plugin_of(entry, source)
        log.info("found backend %s (%s)", entry.name, source)
    return tuple(plugins.values())


class Catalog:
    """Implements `BackendTypes`. Any thread may ask."""

    def find(self, name: str) -> BackendType | None:
        """The backend of that name, supported or not; None for an unknown one."""
        own = next((entry for entry in _own() if entry.name == name), None)
        if own is not None and own.supported:
            return own
        return next((entry for entry in _installed() if entry.name == name), own)

    def __iter__(self) -> collections.abc.Iterator[BackendType]:
        """The server's own first; going on looks for installed ones."""
        yield from _own()
        yield from _installed()


def own_names() -> list[str]:
    """The names of the server's own backends, sorted."""
    return sorted(OWN)


def _load(reference: str) -> BackendPlugin:
    module, _, name = reference.partition(":")
    return typing.cast("BackendPlugin", getattr(importlib.import_module(module), name))


def _plugin_of(entry: "importlib.metadata.EntryPoint", source: str) -> BackendPlugin:
    """The entry point's plugin, or one that refuses every model with the reason why there is none."""
    try:
        plugin = entry.load()
    except Exception as error:  # noqa: BLE001 - a package's fault must not harm other backends
        return _broken(entry.name, f"{source} cannot be imported: {type(error).__name__}: {error}")
    if not isinstance(plugin, BackendPlugin):
        return _broken(
            entry.name, f"{source} is of type {type(plugin).__name__}, not BackendPlugin"
        )
    if plugin.name != entry.name:
        return _broken(entry.name, f"{source} has the name '{plugin.name}': both must be the same")
    return plugin


def _broken(name: str, reason: str) -> BackendPlugin:
    def refuse(_context: BackendContext) -> "Backend":
        raise unavailable(f"unable to load backend '{name}': {reason}")

    return BackendPlugin(name=name, make=refuse)
