"""A model version of a library in C, in a worker process: loads the library, makes instances; and lets it complete a config.

Limits: those of `backends/instance.py`: standard library and numpy, Python 3.8.
"""

import ctypes
import json
import logging
import pathlib
from typing import Any

from naiad.backends.c import abi
from naiad.backends.c.host import ErrorText, LibraryHost
from naiad.backends.c.instance import CInstance
from naiad.backends.c.outputs import failure
from naiad.backends.c.rules import OutputRules, OutputSpec
from naiad.backends.instance import InstanceSpec, LoadedModel
from naiad.errors import InferenceError, invalid


class WorkerModel(LoadedModel):
    """Implements `LoadedModel`.

    Args:
        settings: `library` (the file), `adapter` (of a library that was built for Triton, else ""), `backend` (its name), `name`, `version`, `model_dir`, `version_dir` and `config` (JSON) of the model, `options`,
            `batched`, `decoupled`, `states` (their outputs' names), `outputs` (name, wire name of the datatype, dims).

    Raises:
        InferenceError: the library cannot be loaded, or refuses the model.
    """

    def __init__(self, settings: "dict[str, Any]") -> None:
        name, backend = settings["name"], settings["backend"]
        self._who = f"backend '{backend}' of model '{name}'"
        batched = bool(settings["batched"])
        self._rules = OutputRules(
            [
                OutputSpec(output, kind, abi.CODES[kind], (-1, *dims) if batched else tuple(dims))
                for output, kind, dims in settings["outputs"]
            ],
            batched=batched,
        )
        self._decoupled = bool(settings["decoupled"])
        self._library = _opened(settings)
        self._host = LibraryHost(logging.getLogger(f"naiad.model.{name}"))
        self._model = ctypes.c_void_p()
        info, error = _info(settings), ErrorText()
        status = self._library.naiad_model_load(
            ctypes.byref(self._host.table), ctypes.byref(info), ctypes.byref(self._model), error.pointer
        )  # fmt: skip
        if status:
            raise _refused(settings, status, error)

    def make_instance(  # type: ignore[explicit-override]  # `override` is in no standard library of 3.8
        self, spec: InstanceSpec
    ) -> CInstance:
        """Call `naiad_instance_create`."""
        handle, error = ctypes.c_void_p(), ErrorText()
        info = abi.InstanceInfo(
            spec.name.encode(), str(getattr(spec.kind, "value", spec.kind)).encode(), spec.device_id
        )
        status = self._library.naiad_instance_create(
            self._model, ctypes.byref(info), ctypes.byref(handle), error.pointer
        )
        if status:
            raise failure(f"{self._who} made no instance '{spec.name}'", status, error.text)
        return CInstance(
            self._library,
            handle,
            host=self._host,
            rules=self._rules,
            who=f"{self._who}, instance '{spec.name}'",
            decoupled=self._decoupled,
        )

    def close(self) -> None:  # type: ignore[explicit-override]  # as above
        """Call `naiad_model_unload`."""
        self._library.naiad_model_unload(self._model)


def complete(settings: "dict[str, Any]") -> "str | None":
    """What the library makes of the config; None if it leaves it alone. A process of its own runs it, and ends.

    Args:
        settings: those of `WorkerModel`; outputs are not used.

    Raises:
        InferenceError: the library cannot be loaded, or refuses the model.
    """
    library = _opened(settings)
    if not hasattr(library, "naiad_model_complete"):
        return None
    host = LibraryHost(logging.getLogger(f"naiad.model.{settings['name']}"))
    info, error = _info(settings), ErrorText()
    status = library.naiad_model_complete(
        ctypes.byref(host.table), ctypes.byref(info), error.pointer
    )
    if status:
        raise _refused(settings, status, error)
    return host.completed


def _opened(settings: "dict[str, Any]") -> Any:
    """The library, with the types of its functions; that of a library for Triton is the adapter."""
    path, adapter = settings["library"], settings["adapter"]
    try:
        # What a library for Triton calls is found among the symbols of all libraries.
        library = ctypes.CDLL(adapter or path, ctypes.RTLD_GLOBAL if adapter else ctypes.RTLD_LOCAL)
        abi.declare(library)
        if adapter:
            states = [name.encode() for name in settings["states"]]
            library.naiad_adapter_use(
                path.encode(),
                settings["backend"].encode(),
                int(settings["decoupled"]),
                (ctypes.c_char_p * (len(states) + 1))(*states),
                len(states),
            )
    except (OSError, AttributeError) as error:
        raise invalid(
            f"unable to load model '{settings['name']}': the library of its backend cannot be loaded: {error}; ldd {path} shows what it needs"
        ) from error
    return library


def _info(settings: "dict[str, Any]") -> abi.ModelInfo:
    return abi.ModelInfo(
        settings["name"].encode(),
        settings["config"].encode(),
        settings["model_dir"].encode(),
        settings["version_dir"].encode(),
        str(pathlib.Path(settings["library"]).parent).encode(),
        json.dumps(settings["options"]).encode(),
        settings["version"],
    )


def _refused(settings: "dict[str, Any]", status: int, error: ErrorText) -> InferenceError:
    who = f"backend '{settings['backend']}' of model '{settings['name']}'"
    refused = failure(f"{who} refuses it", status, error.text)
    return InferenceError(
        refused.code, f"unable to load model '{settings['name']}': {refused.message}"
    )
