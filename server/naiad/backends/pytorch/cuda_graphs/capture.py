"""Captures the CUDA graphs of an instance, or says in the log why there are none: the model is served without them then. Importing this imports torch.

A graph is captured in the stream of its instance after some runs with zeros, in which TorchScript's executor optimises the model for these shapes, libraries make
their workspaces and a module is compiled. All graphs of an instance have their memory in one pool, because one of them runs at a time.
"""

import collections.abc
import contextlib
import logging
from typing import Any

import numpy as np
import torch

from naiad.backends import device_errors, reasons
from naiad.backends.cuda_graph_shapes import GraphShapes, Shape
from naiad.backends.pytorch.cuda_graphs import planning
from naiad.backends.pytorch.cuda_graphs.graphs import Graph, Graphs
from naiad.backends.pytorch.cuda_graphs.state import State
from naiad.backends.pytorch.devices import CAPTURING, CudaDevice
from naiad.backends.pytorch.program import Program, inference
from naiad.backends.pytorch.settings import Settings
from naiad.backends.pytorch.tensors import kind_of, tensor_of
from naiad.config.model_config import ModelConfig
from naiad.config.sequence_tensors import model_inputs

log = logging.getLogger("naiad.backends")

RUNS = 3
"""Runs before a capture: TorchScript's executor profiles in the first one, optimises in the second one, and runs what it has made in the third one."""

_abandoned: list[Any] = []
"""Graphs whose capture could not be ended: torch's allocators may still ask them which stream was theirs."""


class _NoGraphError(Exception):
    """A model cannot have graphs; says why."""


def captured(
    program: Program, device: CudaDevice, *, config: ModelConfig, settings: Settings, label: str
) -> Graphs | None:
    """The graphs that a config asks for, as far as they can be captured; None, and a line in the log, if there is none.

    Args:
        program: the model, of which runs are captured.
        device: of the instance.
        config: of the model.
        settings: of the model.
        label: the instance and its model, for the log.

    Raises:
        InferenceError: INVALID_ARG: a `graph_spec` that no batch could have.
        Exception: what torch raises when the device is lost.
    """
    planned = planning.plan(config)
    why = planning.impossible(config) or program.graph_fault
    for fault in (why,) if why else planned.faults:
        log.warning("CUDA graph is not captured for %s: %s", label, fault)
    if why or not planned.graphs:
        return None
    with inference(settings), device.running():
        torch.backends.cudnn.enabled = settings.cudnn
        maker = _Maker(program, device, config)
        for shapes in planned.graphs:
            if not maker.add(shapes, label):
                break
    device.clean()  # what the runs before the captures have left, which no other stream could use
    return Graphs(maker.made, fills=planned.fills) if maker.made else None


class _Maker:
    """Captures one graph after the other, within `inference` and on the device.

    Attributes:
        made: the graphs.
    """

    def __init__(self, program: Program, device: CudaDevice, config: ModelConfig) -> None:
        self.made: list[tuple[GraphShapes, Graph]] = []
        self._program = program
        self._device = device
        self._dtypes = {spec.name: _dtype(spec.datatype.dtype) for spec in model_inputs(config)}
        self._pool = torch.cuda.graph_pool_handle()
        self._inputs: dict[tuple[str, Shape], Any] = {}
        self._is_first = True

    def add(self, shapes: GraphShapes, label: str) -> bool:
        """Capture one. Whether another one can be tried.

        Raises:
            Exception: what torch raises when the device is lost.
        """
        prepared = False
        try:
            inputs = self._zeros(shapes)
            self._prepare(inputs)
            prepared = True
            graph = self._capture(inputs)
        except Exception as error:
            if device_errors.unrecoverable(error) is not None:
                raise
            log.error(  # noqa: TRY400 - the message says all
                "unable to record CUDA graph for %s, shapes %s: %s",
                label,
                dict(shapes.shapes),
                reasons.said(error),
            )
            # Where memory ran out in a run before, a smaller graph may be possible. Anything else would fail again, and be said again.
            return not prepared and device_errors.out_of_memory(error)
        self.made.append((shapes, graph))
        log.info("captured CUDA graph for %s, shapes %s", label, dict(shapes.shapes))
        return True

    def _zeros(self, shapes: GraphShapes) -> dict[str, Any]:
        """The inputs of a graph; smaller ones lie at the beginning of larger ones, because one graph runs at a time."""
        found: dict[str, Any] = {}
        for name, shape in shapes.shapes.items():
            rows, rest = shape[:1], shape[1:]
            known = self._inputs.get((name, rest))
            if known is None or not rows or len(known) < rows[0]:
                known = torch.zeros(shape, dtype=self._dtypes[name], device=self._device.name)
                self._inputs[name, rest] = known
            found[name] = known[: rows[0]] if rows else known
        return found

    def _prepare(self, inputs: collections.abc.Mapping[str, Any]) -> None:
        """Run the model as often as it has to before a capture.

        Raises:
            _NoGraphError: it keeps state, or an output is not on the device.
            Exception: what torch raises.
        """
        program, device = self._program, self._device
        if self._is_first:
            state = State(program.buffers())
            results = program.run(inputs)
            device.finish()
            if state.put_back(program.buffers()):
                raise _NoGraphError("a run of the model changes its buffers")
            self._is_first = False
        for _ in range(RUNS):
            results = program.run(inputs)
        device.finish()
        for name, index in program.output_index.items():
            result = results[index] if index < len(results) else None
            if not device.has(result):
                kind = "is in the host's memory" if isinstance(result, torch.Tensor) else f"is of type {kind_of(result)}"  # fmt: skip
                raise _NoGraphError(
                    f"output '{name}' {kind}, and a graph writes to the device only"
                )

    def _capture(self, inputs: dict[str, Any]) -> Graph:
        """Capture a run.

        Raises:
            Exception: what torch raises; everything in this process is as before.
        """
        graph = torch.cuda.CUDAGraph()
        with CAPTURING:
            try:
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                results = self._program.run(inputs)
                graph.capture_end()
            except BaseException:
                self._abandon(graph)
                raise
        return Graph(graph, inputs, results)

    def _abandon(self, graph: Any) -> None:
        """End a capture that has failed. Where CUDA cannot end it, torch leaves its allocator in the state of a capture, in which no memory is given back any more."""
        try:
            graph.capture_end()
        except Exception:
            log.debug("the capture of a CUDA graph is over", exc_info=True)
            internals: Any = torch._C  # noqa: SLF001 - torch has no public name for it
            for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
                with contextlib.suppress(AttributeError, RuntimeError):
                    getattr(internals, name)(self._device.index, self._pool)
            _abandoned.append(graph)
        with contextlib.suppress(Exception):
            graph.reset()


def _dtype(dtype: "np.dtype[Any]") -> Any:
    like = tensor_of(np.zeros(0, dtype))
    assert isinstance(like, torch.Tensor), "it is not text"
    return like.dtype
