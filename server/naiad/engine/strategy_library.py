"""A batching strategy that is a library in C, in the server's process: the object that `scheduling.strategy` calls, as one of Python.

A crash of it ends the server, so an option has to allow it (`config.checks.batch_strategy`). Each load has a copy of the file in memory of its own: the loader of
the system would give the library of the load before for the same file.
"""

import ctypes
import json
import os
import pathlib
import typing
from typing import Any

from naiad.backends.c.arena import Arena
from naiad.backends.c.host import ErrorText
from naiad.backends.c.outputs import failure
from naiad.core.tensor import Tensor
from naiad.errors import invalid
from naiad.scheduling.strategy import StrategyModel, StrategyRequest

_REQUEST_AT = 24
"""Where in a `naiad_batch` the first request is."""


class _Info(ctypes.Structure):
    """`naiad_strategy_info`."""

    _fields_: typing.ClassVar[list[tuple[str, Any]]] = [
        ("name", ctypes.c_char_p),
        ("config", ctypes.c_char_p),
        ("parameters", ctypes.c_char_p),
        ("version", ctypes.c_uint64),
        ("max_batch_size", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class _Input:
    """A tensor as the arena takes it."""

    __slots__ = ("array", "datatype", "name")

    def __init__(self, tensor: Tensor) -> None:
        self.name, self.datatype, self.array = tensor.name, tensor.datatype.name, tensor.array


class _Asked:
    """A request as the arena takes it, and its call."""

    timeout_us = flags = 0
    output_names = requested_outputs = ()

    def __init__(self, request: StrategyRequest) -> None:
        self.request = self
        self.id, self.parameters = request.id, request.parameters
        self.correlation_id, self.batch_size = request.correlation_id, request.batch_size
        self.inputs = [_Input(tensor) for tensor in request.inputs.values()]


class StrategyLibrary:
    """A library that is loaded for one model version.

    Args:
        path: its file, of which `config.checks.batch_strategy` has seen that it is one.
        model: the model.

    Raises:
        InferenceError: it cannot be loaded, or refuses the model.
    """

    def __init__(self, path: pathlib.Path, model: StrategyModel) -> None:
        self._who = f"the batching strategy of model '{model.name}' ({path})"
        self._library: Any = _loaded(path, self._who)
        self._arena = Arena((), text=False)
        self._error = ErrorText()
        self._strategy = ctypes.c_void_p()
        pointer, error = ctypes.c_void_p, self._error.pointer
        library = self._library
        into = ctypes.POINTER(pointer)
        library.naiad_strategy_create.argtypes = (ctypes.POINTER(_Info), into, pointer)
        library.naiad_strategy_destroy.argtypes = (pointer,)
        library.naiad_strategy_destroy.restype = None
        library.naiad_batch_include.argtypes = (pointer, pointer, pointer, ctypes.POINTER(ctypes.c_int), pointer)  # fmt: skip
        self._begin = getattr(library, "naiad_batch_begin", None)
        if self._begin is not None:
            self._begin.argtypes = (pointer, into, pointer)
        self._end = getattr(library, "naiad_batch_end", None)
        if self._end is not None:
            self._end.argtypes, self._end.restype = (pointer, pointer), None
        info = _Info(
            model.name.encode(),
            json.dumps(model.config).encode(),
            json.dumps(dict(model.parameters)).encode(),
            model.version,
            model.max_batch_size,
        )
        self._error.clear()
        status = library.naiad_strategy_create(
            ctypes.byref(info), ctypes.byref(self._strategy), error
        )
        self._check(status)

    def begin_batch(self) -> ctypes.c_void_p:
        """A batch begins.

        Raises:
            InferenceError: the library says so.
        """
        batch = ctypes.c_void_p()
        if self._begin is not None:
            self._error.clear()
            self._check(self._begin(self._strategy, ctypes.byref(batch), self._error.pointer))
        return batch

    def include(self, batch: ctypes.c_void_p, request: StrategyRequest) -> bool:
        """Whether a request joins the batch.

        Raises:
            InferenceError: the library says so.
        """
        joins = ctypes.c_int(1)
        self._error.clear()
        asked: Any = _Asked(request)
        address, keep = self._arena.write([asked], 0)
        status = self._library.naiad_batch_include(
            self._strategy, batch, address + _REQUEST_AT, ctypes.byref(joins), self._error.pointer
        )
        del keep
        self._check(status)
        return bool(joins.value)

    def end_batch(self, batch: ctypes.c_void_p) -> None:
        """The batch is over."""
        if self._end is not None:
            self._end(self._strategy, batch)

    def finalize(self) -> None:
        """The model is unloaded."""
        self._library.naiad_strategy_destroy(self._strategy)

    def _check(self, status: int) -> None:
        if status:
            raise failure(self._who, status, self._error.text)


def _loaded(path: pathlib.Path, who: str) -> ctypes.CDLL:
    """The library, which keeps the interpreter lock while it runs: a call is shorter than to release it."""
    descriptor = os.memfd_create(path.name)
    try:
        with open(descriptor, "wb", closefd=False) as copy:
            copy.write(path.read_bytes())
        return ctypes.PyDLL(f"/proc/self/fd/{descriptor}")
    except OSError as error:
        raise invalid(f"{who} cannot be loaded: {error}; ldd {path} shows what it needs") from error
    finally:
        os.close(descriptor)
