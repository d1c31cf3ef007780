"""Where a model's tensors are while it runs: on the host, or on a GPU with a stream of the instance's own. Importing this imports torch.

On a GPU a batch is gathered in pinned memory (ordinary memory where the config says so), from which one copy on the stream brings it to the device; the
copies of its results are put into the stream right behind the run, before the host waits for either. The host waits for its own stream only, so that
instances do not wait for each other. A batch that runs in a CUDA graph is copied to the graph's own inputs.
"""

import collections.abc
import contextlib
import threading
import typing
from typing import Any

import numpy as np
import torch
from typing_extensions import override

from naiad.backends import batch as batches
from naiad.backends.batch import Array
from naiad.backends.instance import Call, InputTensor, InstanceSpec
from naiad.backends.placed_inputs import is_on_device
from naiad.backends.pytorch.settings import DeviceSettings
from naiad.backends.pytorch.staging import Staging, dtype_of
from naiad.backends.pytorch.tensors import array_of, check_dense, tensor_of
from naiad.backends.ragged import RaggedBatches
from naiad.config.model_config import InstanceKind
from naiad.tensors import copies
from naiad.tensors.device_array import DeviceArray
from naiad.tensors.numbering import server_number

Inputs = collections.abc.Sequence[collections.abc.Sequence[InputTensor]]

Results = collections.abc.Sequence[tuple[Any, bool]]
"""Results, each with whether it stays on the device."""

CAPTURING = threading.Lock()
"""Held while a CUDA graph is captured: one at a time in a process, and torch gives no memory of a device back meanwhile."""


class Target(typing.NamedTuple):
    """Where a batch is copied to.

    Attributes:
        tensors: by name, on the device.
        padding: how many rows more than the batch they have, which are copies of its last one.
    """

    tensors: collections.abc.Mapping[str, Any]
    padding: int


class Device:
    """The host.

    A batch is gathered, run and brought back within `running`.

    Attributes:
        name: the device as torch writes it; None where the model itself decides (row 16.18).
    """

    def __init__(self, name: "str | None" = "cpu") -> None:
        self.name = name

    def gathered(
        self,
        requests: Inputs,
        *,
        copy: bool,
        ragged: RaggedBatches | None = None,
        target: Target | None = None,
    ) -> dict[str, Any]:
        """The inputs of a batch by name, as tensors and lists of text; with `copy`, in memory that the model may write to.

        `ragged` merges requests of different shapes; `target` is there for a batch that runs in a CUDA graph.
        """
        merged = batches.merge(requests) if ragged is None else ragged.merge(requests)
        if copy:  # unless the merge has made an array of its own: it may be a view of where the requests lie
            lone = len(requests) == 1
            merged = {
                name: array.copy() if lone or not array.flags.owndata else array
                for name, array in merged.items()
            }
        return {name: tensor_of(array) for name, array in merged.items()}

    def running(self) -> "contextlib.AbstractContextManager[Any]":
        """Within it, the model runs."""
        return contextlib.nullcontext()

    def finish(self) -> None:
        """Wait until what has run is complete."""

    def staying(self, batch: collections.abc.Sequence[Call], names: list[str]) -> set[str]:
        """The outputs of a batch that stay on the device, because their receivers take them there."""
        return set()

    def begin_outputs(self, results: Results) -> Results:
        """Begin to bring the results of a run to where they are wanted, while it may be running still; for `end_outputs`."""
        return results

    def wait_for_run(self) -> None:
        """Wait until what ran before `begin_outputs` is complete."""

    def end_outputs(self, begun: Results) -> list[Array | DeviceArray]:
        """What `begin_outputs` has begun, complete: arrays of the host, and of a device what stays there."""
        return [array_of(_on_host(result)) for result, _ in begun]

    def clean(self) -> None:
        """Give back cached memory of the device."""


class CudaDevice(Device):
    """A GPU, by its number in this process.

    Args:
        settings: the priority of its stream, and the memory of its copies.
    """

    def __init__(self, index: int, settings: DeviceSettings) -> None:
        super().__init__(f"cuda:{index}")
        self.index = index
        self._settings = settings
        self._stream = torch.cuda.Stream(device=index, priority=settings.priority)
        self._ran = torch.cuda.Event()
        self._staging = Staging(pinned=settings.pinned_inputs)
        self._results = Staging(pinned=settings.pinned_outputs)

    @override
    def gathered(
        self,
        requests: Inputs,
        *,
        copy: bool,
        ragged: RaggedBatches | None = None,
        target: Target | None = None,
    ) -> dict[str, Any]:
        if ragged is not None:
            return self._on_device(super().gathered(requests, copy=copy, ragged=ragged))
        there = self._from_device(requests, copy=copy, target=target)
        if there:
            requests = [[each for each in inputs if each.name not in there] for inputs in requests]
            if not requests[0]:
                return there
        return {**there, **self._from_host(requests, target)}

    def _from_device(
        self, requests: Inputs, *, copy: bool, target: Target | None
    ) -> dict[str, Any]:
        """The inputs that every request has on a GPU already, without a way through the host; with `copy`, in memory that the model may write to."""
        found: dict[str, Any] = {}
        names = [tensor.name for tensor in requests[0] if is_on_device(tensor)]
        for name in names:
            column = [tensor for inputs in requests for tensor in inputs if tensor.name == name]
            if not all(is_on_device(tensor) for tensor in column):
                continue
            tensors = [torch.from_dlpack(each) for each in column]
            found[name] = (
                _joined(tensors, copy=copy)
                if target is None
                else _joined_into(target.tensors[name], tensors, target.padding)
            )
        return found

    def _from_host(self, requests: Inputs, target: Target | None) -> dict[str, Any]:
        padding = 0 if target is None else target.padding
        texts = [tensor.name for tensor in requests[0] if tensor.array.dtype.hasobject]
        numbers = requests
        if texts:
            numbers = [[each for each in inputs if each.name not in texts] for inputs in requests]
        staged = {
            tensor.name: self._staging.place(
                tensor.name,
                _shape(tensor.array, sum(_rows(inputs[at]) for inputs in numbers) + padding),
                dtype_of(tensor.array.dtype),
            )
            for at, tensor in enumerate(numbers[0])
        }
        batches.merge(numbers, padding, out={name: each.array for name, each in staged.items()})
        feeds: dict[str, Any] = {
            name: each.tensor.to(self.name, non_blocking=True, copy=True)
            if target is None
            else target.tensors[name].copy_(each.tensor, non_blocking=True)
            for name, each in staged.items()
        }
        for name in texts:
            feeds[name] = tensor_of(
                batches.merge([[t for t in inputs if t.name == name] for inputs in requests])[name]
            )
        return feeds

    def _on_device(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """Tensors of the host on the device."""
        return {
            name: self._staged(feed).to(self.name, non_blocking=True)
            if isinstance(feed, torch.Tensor)
            else feed
            for name, feed in feeds.items()
        }

    def _staged(self, feed: "torch.Tensor") -> "torch.Tensor":
        return feed.pin_memory() if self._settings.pinned_inputs else feed

    @override
    def running(self) -> "contextlib.AbstractContextManager[Any]":
        # The stream's device becomes the thread's, too.
        context: contextlib.AbstractContextManager[Any] = torch.cuda.stream(self._stream)
        return context

    @override
    def finish(self) -> None:
        self._stream.synchronize()

    def has(self, result: Any) -> bool:
        """Whether a result is a tensor on a GPU."""
        return isinstance(result, torch.Tensor) and result.is_cuda

    @override
    def staying(self, batch: collections.abc.Sequence[Call], names: list[str]) -> set[str]:
        return batches.staying(batch, names, server_number(self.index))

    @override
    def begin_outputs(self, results: Results) -> Results:
        self._ran.record(self._stream)
        return [
            (self._begun(at, result, stays=stays), stays) if self.has(result) else (result, False)
            for at, (result, stays) in enumerate(results)
        ]

    def _begun(self, at: int, result: Any, *, stays: bool) -> Any:
        """A copy of a result of a run: the model may go on writing to a tensor that it returned, and a CUDA graph does."""
        if stays:
            return result.detach().clone(memory_format=torch.contiguous_format)
        check_dense(result)
        staged = self._results.place(at, tuple(result.shape), result.dtype)
        staged.tensor.copy_(result.detach(), non_blocking=True)
        return staged.array

    @override
    def wait_for_run(self) -> None:
        self._ran.synchronize()

    @override
    def end_outputs(self, begun: Results) -> list[Array | DeviceArray]:
        self._stream.synchronize()
        arrays: list[Array | DeviceArray] = []
        for value, stays in begun:
            if isinstance(value, np.ndarray):
                arrays.append(value)
            else:
                arrays.append(copies.array_of(value) if stays else array_of(value))
        return arrays

    @override
    def clean(self) -> None:
        with CAPTURING:
            torch.cuda.empty_cache()


def device_of(spec: InstanceSpec, settings: DeviceSettings) -> Device:
    """The device of an instance. Its GPU's number is the one of this process.

    Raises:
        RuntimeError: torch cannot use the GPU; says why.
    """
    if spec.kind is InstanceKind.GPU:
        return CudaDevice(spec.device_id, settings)
    return Device(None if spec.kind is InstanceKind.MODEL else "cpu")


def _joined(tensors: "list[torch.Tensor]", *, copy: bool) -> "torch.Tensor":
    if len(tensors) > 1:
        return torch.cat(tensors)
    return tensors[0].clone() if copy else tensors[0]


def _joined_into(
    target: "torch.Tensor", tensors: "list[torch.Tensor]", padding: int
) -> "torch.Tensor":
    """The rows of tensors in another one, and behind them as many copies of the last row as it has more."""
    rows = target[: len(target) - padding] if padding else target
    if len(tensors) == 1:
        rows.copy_(tensors[0], non_blocking=True)
    else:
        torch.cat(tensors, out=rows)
    if padding:
        target[len(rows) :].copy_(rows[-1:].expand_as(target[len(rows) :]), non_blocking=True)
    return target


def _rows(tensor: InputTensor) -> int:
    return len(tensor.array) if tensor.array.ndim else 1


def _shape(array: Array, rows: int) -> tuple[int, ...]:
    return (rows, *array.shape[1:]) if array.ndim else ()


def _on_host(result: Any) -> Any:
    return result.cpu() if isinstance(result, torch.Tensor) and result.is_cuda else result
