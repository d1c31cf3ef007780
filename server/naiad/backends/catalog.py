"""The backends that this server knows: its own, libraries in C and Python-based ones in `--backend-directory`, those of installed packages.

Looking for installed ones costs 35 ms, so it waits until a model or an option names a backend, platform or model file that no other backend has.
"""

import collections.abc
import functools
import logging
import pathlib
import re
import typing

from naiad.backends.c.plugin import c_library, library_name, triton_library_name
from naiad.backends.caffe2.plugin import PLUGIN as CAFFE2
from naiad.backends.dali.plugin import PLUGIN as DALI
from naiad.backends.fil.plugin import PLUGIN as FIL
from naiad.backends.onnxruntime.plugin import PLUGIN as ONNXRUNTIME
from naiad.backends.openvino.plugin import PLUGIN as OPENVINO
from naiad.backends.plugin import GROUP, BackendContext, BackendPlugin
from naiad.backends.python.plugin import PLUGIN as PYTHON, PYTHON_BASED_FILE, python_based
from naiad.backends.pytorch.plugin import PLUGIN as PYTORCH
from naiad.backends.tensorflow.plugin import PLUGIN as TENSORFLOW
from naiad.backends.tensorrt.plugin import PLUGIN as TENSORRT
from naiad.backends.vllm.plugin import PLUGIN as VLLM
from naiad.config.backend_type import BackendType
from naiad.core.file_kind import is_file
from naiad.errors import unavailable

if typing.TYPE_CHECKING:
    import importlib.metadata

    from naiad.backends.backend import Backend

_FOLDER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

log = logging.getLogger("naiad.backends")

OWN = {
    "caffe2": "naiad.backends.caffe2.plugin:PLUGIN",
    "dali": "naiad.backends.dali.plugin:PLUGIN",
    "fil": "naiad.backends.fil.plugin:PLUGIN",
    "onnxruntime": "naiad.backends.onnxruntime.plugin:PLUGIN",
    "openvino": "naiad.backends.openvino.plugin:PLUGIN",
    "python": "naiad.backends.python.plugin:PLUGIN",
    "pytorch": "naiad.backends.pytorch.plugin:PLUGIN",
    "tensorflow": "naiad.backends.tensorflow.plugin:PLUGIN",
    "tensorrt": "naiad.backends.tensorrt.plugin:PLUGIN",
    "vllm": "naiad.backends.vllm.plugin:PLUGIN",
}
"""The server's own backends, as `pyproject.toml` declares them as entry points."""

_OWN: tuple[BackendPlugin, ...] = (
    TENSORFLOW,
    TENSORRT,
    ONNXRUNTIME,
    OPENVINO,
    PYTORCH,
    CAFFE2,
    PYTHON,
    DALI,
    FIL,
)
"""The server's own backends, in the order in which Triton looks for model files (row 11.4), and then those for whose files it does not look."""

_YIELDING: tuple[BackendPlugin, ...] = (VLLM,)
"""Backends of the server's own that are Python-based, as Triton's of the same names: a folder of that name in `--backend-directory` goes first."""


@functools.cache
def _installed() -> dict[str, BackendPlugin]:
    """The backends of installed packages, by name. One that is broken is among them, and says why when it is needed."""
    import importlib.metadata  # noqa: PLC0415 - see the module's docstring

    plugins: dict[str, BackendPlugin] = {}
    for entry in sorted(importlib.metadata.entry_points(group=GROUP)):
        if OWN.get(entry.name) == entry.value:
            continue
        source = f"{entry.value}, package {entry.dist.name if entry.dist else 'unknown'}"
        if entry.name in plugins or any(entry.name == own.name for own in (*_OWN, *_YIELDING)):
            log.warning("backend %s (%s) is not used: the name is taken", entry.name, source)
            continue
        plugins[entry.name] = _plugin_of(entry, source)
        log.info("found backend %s (%s)", entry.name, source)
    return plugins


class Catalog:
    """Implements `BackendTypes`. Any thread may ask.

    Args:
        directory: holds backends, each a folder with a library or a model.py (row 11.52).
        model_dir: the folder of the model that asks, which may hold its backend's library; None for none.
    """

    def __init__(
        self, directory: pathlib.Path | None = None, *, model_dir: pathlib.Path | None = None
    ) -> None:
        self._directory = directory
        self._model_dir = model_dir

    def for_model(self, model_dir: pathlib.Path) -> "Catalog":
        """The same, as a model sees it whose folder this is."""
        return Catalog(self._directory, model_dir=model_dir)

    def find(self, name: str) -> BackendType | None:
        """The backend of that name, supported or not; None for an unknown one."""
        for own in _OWN:
            if own.name == name:
                return own
        return (
            self._in_model(name)
            or self._in_directory(name)
            or self._yielding(name)
            or _installed().get(name)
            or self._for_triton(name)
        )

    def folder(self, name: str) -> pathlib.Path | None:
        """See `BackendTypes`."""
        if self._directory is None or not _FOLDER_NAME.fullmatch(name):
            return None
        return self._directory / name

    def __iter__(self) -> collections.abc.Iterator[BackendType]:
        """The server's own first; going on looks for those in the directory and installed ones."""
        yield from _OWN
        for name in self.names_in_directory():
            if (backend := self._in_directory(name)) is not None:
                yield backend
        yield from (each for each in _YIELDING if self._in_directory(each.name) is None)
        yield from _installed().values()

    def names_in_directory(self) -> list[str]:
        """The names of the backends in the directory, sorted."""
        if self._directory is None:
            return []
        own = {entry.name for entry in _OWN}
        try:
            names = sorted(entry.name for entry in self._directory.iterdir())
        except OSError:
            return []
        return [name for name in names if name not in own and self._in_directory(name) is not None]

    def _yielding(self, name: str) -> BackendPlugin | None:
        return next((each for each in _YIELDING if each.name == name), None)

    def _in_model(self, name: str) -> BackendPlugin | None:
        """A library in the folder of the model, or of a version of it."""
        if self._model_dir is None or not _FOLDER_NAME.fullmatch(name):
            return None
        try:
            versions = [each for each in self._model_dir.iterdir() if each.name.isdecimal()]
        except OSError:
            return None
        folders = (self._model_dir, *versions)
        if any(is_file(folder / library_name(name)) for folder in folders):
            return c_library(name, self.folder(name))
        if any(is_file(folder / triton_library_name(name)) for folder in folders):
            return c_library(name, self.folder(name), for_triton=True)
        return None

    def _for_triton(self, name: str) -> BackendPlugin | None:
        """A library that was built for Triton; whatever else has the name takes precedence."""
        folder = self.folder(name)
        if folder is None or not is_file(folder / triton_library_name(name)):
            return None
        return c_library(name, folder, for_triton=True)

    def _in_directory(self, name: str) -> BackendPlugin | None:
        # A name is a config's: it never leads out of the directory.
        folder = self.folder(name)
        if folder is None:
            return None
        if is_file(folder / library_name(name)):
            return c_library(name, folder)
        return python_based(name, folder) if is_file(folder / PYTHON_BASED_FILE) else None


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
