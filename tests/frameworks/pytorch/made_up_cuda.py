"""A made-up GPU for PyTorch models: the host's memory is the device's, and a CUDA graph repeats the operators that were run while it was captured.

Every call is bound to the signature of the real `torch.cuda`. What a graph cannot have fails as there: a value that the host reads.
"""

import collections.abc
import contextlib
import inspect
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from naiad.backends.instance import InstanceSpec
from naiad.backends.pytorch import backend
from naiad.backends.pytorch.cuda_graphs import capture
from naiad.backends.pytorch.devices import CAPTURING, CudaDevice
from naiad.backends.pytorch.settings import device_settings_of
from naiad.config.model_config import InstanceKind, ModelConfig

SPEC = InstanceSpec(name="m_0_0", kind=InstanceKind.GPU, device_id=0)
NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing"

READ_BY_HOST = (
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.item.default,
    torch.ops.aten.is_nonzero.default,
)
"""Operators that wait for the stream."""

_empty = torch.empty
REAL_GRAPH, REAL_STREAM, REAL_EVENT = torch.cuda.CUDAGraph, torch.cuda.Stream, torch.cuda.Event


def bound(function: Any, *arguments: Any, **named: Any) -> dict[str, Any]:
    """The arguments of a call by the name that the real function has for them.

    Raises:
        TypeError: it does not take these.
    """
    found = inspect.signature(function).bind(*arguments, **named)
    found.apply_defaults()
    return found.arguments


class Gpu:
    """What was called of it.

    Attributes:
        log: what was done, in order.
        entered: how often a stream became the thread's.
        pinned: the shapes of the memory that was pinned.
        most_rows: a run of more rows finds no memory; 0 for no limit.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.entered = 0
        self.pinned: list[Any] = []
        self.most_rows = 0
        self.capturing: Graph | None = None


class Stream:
    gpu: Gpu

    def __init__(self, *arguments: Any, **named: Any) -> None:
        bound(REAL_STREAM.__new__, REAL_STREAM, *arguments, **named)

    def synchronize(self) -> None:
        assert self.gpu.capturing is None, NOT_PERMITTED
        self.gpu.log.append("synchronize")


class Event:
    gpu: Gpu

    def __init__(self, *arguments: Any, **named: Any) -> None:
        bound(REAL_EVENT.__new__, REAL_EVENT, *arguments, **named)

    def record(self, stream: Stream) -> None:
        bound(REAL_EVENT.record, self, stream)
        self.gpu.log.append("record")

    def synchronize(self) -> None:
        self.gpu.log.append("wait")


class Graph(TorchDispatchMode):
    gpu: Gpu

    def __init__(self) -> None:
        super().__init__()
        self._runs: list[tuple[Any, Any, Any, Any]] = []
        self._has_failed = False
        self.number = 0

    def capture_begin(self, *arguments: Any, **named: Any) -> None:
        given = bound(REAL_GRAPH.capture_begin, self, *arguments, **named)
        assert given["capture_error_mode"] == "thread_local"
        assert given["pool"] == "pool"
        assert CAPTURING.locked(), "one at a time"
        assert self.gpu.capturing is None
        self.gpu.capturing = self
        self.__enter__()

    def capture_end(self) -> None:
        bound(REAL_GRAPH.capture_end, self)
        assert self.gpu.capturing is self
        if self._has_failed and self.number >= 0:
            self.number = -1
            self.__exit__(None, None, None)
            self.gpu.capturing = None
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")  # fmt: skip
        self.__exit__(None, None, None)
        self.gpu.capturing = None
        self.number = sum(line.startswith("captured") for line in self.gpu.log) + 1
        self.gpu.log.append(f"captured {self.number}")

    def replay(self) -> None:
        bound(REAL_GRAPH.replay, self)
        self.gpu.log.append(f"replay {self.number}")
        for function, arguments, named, results in self._runs:
            new = function(*arguments, **named)
            for old, value in zip(
                pytree.tree_leaves(results), pytree.tree_leaves(new), strict=True
            ):
                if isinstance(old, torch.Tensor) and old.data_ptr() != value.data_ptr():
                    old.copy_(value)

    def reset(self) -> None:
        bound(REAL_GRAPH.reset, self)
        self.gpu.log.append("reset")
        self._runs.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in READ_BY_HOST:
            self._has_failed = True
            raise RuntimeError(NOT_PERMITTED)
        results = func(*args, **(kwargs or {}))
        self._runs.append((func, args, kwargs or {}, results))
        return results


class MadeUpDevice(CudaDevice):
    @override
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(0, device_settings_of(config.message))
        self.name = "cpu"

    @override
    def has(self, result: Any) -> bool:
        return isinstance(result, torch.Tensor)


def install(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """Put it in the place of the real one, for instances of `SPEC`."""
    gpu = Gpu()
    real_stream = torch.cuda.StreamContext

    @contextlib.contextmanager
    def within(stream: Stream) -> collections.abc.Iterator[None]:
        bound(real_stream.__init__, None, stream)
        gpu.entered += 1
        yield

    def empty(*shape: Any, pin_memory: bool = False, **named: Any) -> Any:
        if pin_memory:
            gpu.pinned.append(shape[0])
        return _empty(*shape, **named)

    monkeypatch.setattr(Stream, "gpu", gpu, raising=False)
    monkeypatch.setattr(Graph, "gpu", gpu, raising=False)
    monkeypatch.setattr(Event, "gpu", gpu, raising=False)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    monkeypatch.setattr(torch.cuda, "stream", within)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: gpu.log.append("cleaned"))
    monkeypatch.setattr(torch, "empty", empty)
    for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
        monkeypatch.setattr(
            torch._C, name, lambda index, pool, name=name: gpu.log.append(name), raising=True
        )
    monkeypatch.setattr(backend, "_device", lambda spec, config: MadeUpDevice(config))
    monkeypatch.setattr(capture, "_abandoned", [])
    return gpu
