"""Loads model.py files into this process so that models do not meet (rows 15.1, 15.4).

In Triton each instance has a process of its own. In a thread host they share one, and this is what is guaranteed:

* Each model version is a package of its own, `naiad_models.<something>`; model.py and every module beside it, in the version folder
  or the model folder, live in it. Two models, or two versions of one, may both have a `helper.py`: each import statement finds its
  own, at any time and in any thread, and relative imports work. The version folder comes before the model folder.
* A module beside the model wins over an installed package of that name, but not over the standard library; a folder without
  `__init__.py` (data, weights) is taken for a module only when nothing else has its name.
* Instances of one model version share module globals; what `initialize` puts on `self` is each one's own.
* Imports by name at run time (`importlib.import_module`, unpickling) see both folders at the end of `sys.path`, where the first
  model that was loaded wins. `sys.modules`, the working directory, environment variables, signal handlers and the state of
  third-party libraries are shared.

How: the modules of a package are executed with a `__builtins__` whose `__import__` looks beside the model first.
"""

import builtins
import collections.abc
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import os
import pathlib
import re
import sys
import threading
import types
from typing import Any

import msgspec
from typing_extensions import override

from naiad.backends.python import prints
from naiad.backends.python.api import context
from naiad.backends.python.api.context import Running
from naiad.backends.python.api.server import NO_SERVER, Server
from naiad.backends.python.api.triton_python_backend_utils import UTILS
from naiad.backends.python.failures import describe, raised
from naiad.backends.python.worker_model import check_file, class_of, load_error
from naiad.errors import InferenceError

_ROOT = "naiad_models"

_serial = itertools.count()
_lock = threading.Lock()
_turn = threading.RLock()
"""Held while a model's module is executed. The interpreter executes one at a time anyway, and two that import at the same time can
deadlock: a finder that imports inside `find_spec`, as setuptools' does for `import distutils`, holds the lock that the
other one needs to finish its module."""


class CodeFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a model version's code: in the version's folder, or those of a Python-based backend (rows 11.52, 15.1, 15.4).

    Attributes:
        model_file: defines TritonPythonModel; modules beside it can be imported.
        root: modules in it can be imported, too; tracebacks show the lines of files below it.
        version_dir: the version's folder, where the model finds its data (`get_model_dir`).
    """

    model_file: pathlib.Path
    root: pathlib.Path
    version_dir: pathlib.Path

    def settings(self) -> dict[str, str]:
        """The same for a worker process."""
        return {
            "path": str(self.model_file),
            "root": str(self.root),
            "version_dir": str(self.version_dir),
        }


class ModelCode:
    """The code of one model version, in memory from `open` to `close`: its modules and the class among them.

    Attributes:
        entry_class: TritonPythonModel, while it is open.
    """

    def __init__(self, model: str, files: CodeFiles, *, server: Server = NO_SERVER) -> None:
        self._model = model
        self.files = files
        self._server = server
        label = re.sub(r"[^0-9A-Za-z_]", "_", f"{model}_{files.version_dir.name}")
        self._package = f"{_ROOT}.{label}_{next(_serial)}"
        folders = dict.fromkeys((files.model_file.parent, files.root))
        self._folders = [str(folder) for folder in folders]
        self._finder = _Finder(self._package, self._folders)
        self.entry_class: Any = None

    def open(self) -> None:
        """Make the modules importable, and `triton_python_backend_utils` with them; import the model file and find TritonPythonModel (row 15.1).

        Raises:
            InferenceError: INVALID_ARG: no such file, or it cannot be imported, or it does not hold what it must.
        """
        path = self.files.model_file
        check_file(path, self._model)
        with _lock:
            sys.modules.update(UTILS)
            if _ROOT not in sys.modules:
                sys.modules[_ROOT] = _package(_ROOT, [])
            sys.modules[self._package] = _package(self._package, self._folders)
            sys.meta_path.insert(0, self._finder)
            sys.path.extend(self._folders)
            _forget_listings(self._folders)
        try:
            self.enter(instance="")
            with _turn:
                module = importlib.import_module(f"{self._package}.{path.stem}")
            self.entry_class = class_of(module, path, self._model)
        except InferenceError:
            self.close()
            raise
        except raised() as error:
            self.close()
            raise load_error(self._model, describe(error, self.files.root)) from error

    def enter(self, *, instance: str) -> Running:
        """Say that this thread runs the model's code from now on; the result says the same to `context.current` later."""
        running = Running(
            model=self._model,
            instance=instance,
            directory=str(self.files.version_dir),
            server=self._server,
        )
        prints.listen()
        context.current.set(running)
        context.of_module.setdefault(self._package, []).append(running)
        return running

    def close(self) -> None:
        """Forget the modules; objects made from them live on while they are referenced. Safe at any time."""
        self.entry_class = None
        context.of_module.pop(self._package, None)
        with _lock:
            if self._finder in sys.meta_path:
                sys.meta_path.remove(self._finder)
            for folder in self._folders:
                if folder in sys.path:
                    last = len(sys.path) - 1 - sys.path[::-1].index(folder)  # the last is ours
                    del sys.path[last]
            prefix = self._package + "."
            for name in list(sys.modules):  # another model, in another thread, may import meanwhile
                if name == self._package or name.startswith(prefix):
                    del sys.modules[name]


def _package(name: str, path: list[str]) -> types.ModuleType:
    package = types.ModuleType(name)
    package.__path__ = path
    return package


def _forget_listings(folders: collections.abc.Sequence[str]) -> None:
    """Drop the cached listings of these folders: their files may be newer.

    Not `importlib.invalidate_caches()`: it walks through all there is, and fails when a model in another thread imports
    something meanwhile.
    """
    for path, finder in sys.path_importer_cache.copy().items():
        if isinstance(finder, importlib.machinery.FileFinder) and any(
            path == folder or path.startswith(folder + os.sep) for folder in folders
        ):
            finder.invalidate_caches()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of one package and has them executed with its own import function."""

    def __init__(self, package: str, folders: list[str]) -> None:
        self._package = package
        self._prefix = package + "."
        self._folders = folders
        self._beside: dict[str, bool] = {}
        self._builtins = {**vars(builtins), "__import__": self._import}

    @override
    def find_spec(
        self,
        fullname: str,
        path: collections.abc.Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(self._prefix):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path, self._builtins)
        return spec

    def _import(
        self,
        name: str,
        globals: collections.abc.Mapping[str, Any] | None = None,  # noqa: A002 - as above
        locals: collections.abc.Mapping[str, Any] | None = None,  # noqa: A002 - as above
        fromlist: collections.abc.Sequence[str] | None = (),
        level: int = 0,
    ) -> types.ModuleType:
        """What an import statement in the package calls."""
        top = name.partition(".")[0]
        if level or not self._is_beside(top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = builtins.__import__(self._prefix + name, globals, locals, fromlist or (), 0)
        return module if fromlist else sys.modules[self._prefix + top]

    def _is_beside(self, top: str) -> bool:
        known = self._beside.get(top)
        if known is None:
            known = self._beside[top] = self._look_for(top)
        return known

    def _look_for(self, top: str) -> bool:
        if top in sys.stdlib_module_names or top in UTILS:
            return False
        spec = importlib.machinery.PathFinder.find_spec(self._prefix + top, self._folders)
        if spec is None:
            return False
        if spec.loader is not None and spec.origin is not None:
            return True
        return top not in sys.modules and _find_elsewhere(top, set(self._folders)) is None


def _find_elsewhere(
    top: str, folders: collections.abc.Set[str]
) -> importlib.machinery.ModuleSpec | None:
    path = [entry for entry in sys.path if entry not in folders]
    return importlib.machinery.PathFinder.find_spec(top, path)


class _Loader(importlib.machinery.SourceFileLoader):
    """Executes a module with given builtins, and leaves no byte code behind: a repository is not ours to write to."""

    def __init__(self, fullname: str, path: str, own_builtins: dict[str, Any]) -> None:
        super().__init__(fullname, path)
        self._builtins = own_builtins

    @override
    def exec_module(self, module: types.ModuleType) -> None:
        vars(module)["__builtins__"] = self._builtins
        super().exec_module(module)

    @override
    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Write nothing."""
