"""The official protobuf messages, from tritonclient's generated modules, without tritonclient.

Importing `tritonclient.grpc` runs its `__init__`, which imports grpc, grpc.aio and a client: 170 ms and 47 MB.
The two generated modules alone take 29 ms. They are loaded under their own names through empty parent
packages, which are removed afterwards, so that a later `import tritonclient.grpc` finds the same message classes
(of two copies of the definitions, the second import would fail).
"""

import importlib
import importlib.util
import sys
import types
from typing import Any

from naiad import extras

_PARENTS = ("tritonclient", "tritonclient.grpc")
_MODULES = ("tritonclient.grpc.model_config_pb2", "tritonclient.grpc.service_pb2")


def _load() -> tuple[Any, Any]:
    if "tritonclient.grpc" in sys.modules:
        return importlib.import_module(_MODULES[0]), importlib.import_module(_MODULES[1])
    package = importlib.util.find_spec("tritonclient")
    if package is None or package.submodule_search_locations is None:
        raise ModuleNotFoundError(
            f"the package tritonclient is missing: {extras.install('server')} brings it"
        )
    folder = package.submodule_search_locations[0]
    before = {name: sys.modules.get(name) for name in _PARENTS}
    for name, path in zip(_PARENTS, (folder, f"{folder}/grpc"), strict=True):
        parent = types.ModuleType(name)
        parent.__path__ = [path]
        sys.modules[name] = parent
    try:
        return importlib.import_module(_MODULES[0]), importlib.import_module(_MODULES[1])
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _import_later(name: str) -> None:
    """Make the next import of a module load it only when one of its attributes is used."""
    later = types.ModuleType(name)

    def load(attribute: str) -> Any:
        # Names with two underscores are read by code that inspects every module, not by users of this one.
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        if sys.modules.get(name) is later:
            del sys.modules[name]
        return getattr(importlib.import_module(name), attribute)

    later.__getattr__ = load  # type: ignore[method-assign]  # PEP 562
    sys.modules.setdefault(name, later)


# protobuf imports its Python implementation, eleven modules, beside the C one that is used: 48 ms without bytecode, 9 ms with it.
_import_later("google.protobuf.internal.python_message")
model_config_pb2, service_pb2 = _load()
"""Untyped: tritonclient ships no stubs. `model_config_pb2.ModelConfig`, `service_pb2.ModelInferRequest`, …"""
