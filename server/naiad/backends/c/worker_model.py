"""A model version of a library in C, in a worker process: loads the library, makes instances.

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
            `batched`, `outputs` (name, wire name of the datatype, dims).

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
        path = settings["library"]
        adapter = settings["adapter"]
        try:
            # What a library for Triton calls is found among the symbols of all libraries.
            self._library = ctypes.CDLL(adapter or path, ctypes.RTLD_GLOBAL if adapter else ctypes.RTLD_LOCAL)  # fmt: skip
            abi.declare(self._library)
            if adapter:
                self._library.naiad_adapter_use(path.encode(), backend.encode())
        except (OSError, AttributeError) as error:
            raise invalid(
                f"unable to load model '{name}': the library of its backend cannot be loaded: {error}; ldd {path} shows what it needs"
            ) from error
        self._host = LibraryHost(logging.getLogger(f"naiad.model.{name}"))
        self._model = ctypes.c_void_p()
        self._load(settings, path)

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
        )

    def close(self) -> None:  # type: ignore[explicit-override]  # as above
        """Call `naiad_model_unload`."""
        self._library.naiad_model_unload(self._model)

    def _load(self, settings: "dict[str, Any]", path: str) -> None:
        info = abi.ModelInfo(
            settings["name"].encode(),
            settings["config"].encode(),
            settings["model_dir"].encode(),
            settings["version_dir"].encode(),
            str(pathlib.Path(path).parent).encode(),
            json.dumps(settings["options"]).encode(),
            settings["version"],
        )
        error = ErrorText()
        status = self._library.naiad_model_load(
            ctypes.byref(self._host.table),
            ctypes.byref(info),
            ctypes.byref(self._model),
            error.pointer,
        )
        if status:
            refused = failure(f"{self._who} refuses it", status, error.text)
            raise InferenceError(
                refused.code, f"unable to load model '{settings['name']}': {refused.message}"
            )
