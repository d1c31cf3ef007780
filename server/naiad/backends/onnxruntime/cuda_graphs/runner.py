"""Runs an ONNX model in its CUDA graphs, and without one where a batch has other shapes. Importing this imports onnxruntime.

A graph is captured when this is made: onnxruntime runs the model with zeros as often as it has to before. One that cannot be captured is logged, as TensorRT's are,
and its batches run without it. On the CPU onnxruntime takes the same calls, and captures nothing.
"""

import collections.abc
import logging
from typing import Any

import numpy as np
import onnxruntime
from typing_extensions import override

from naiad.backends import device_errors
from naiad.backends.batch import Array
from naiad.backends.cuda_graph_shapes import Shapes
from naiad.backends.model_files.signature import Signature
from naiad.backends.onnxruntime.cuda_graphs.planning import NUMBER
from naiad.backends.onnxruntime.runner import SessionRunner
from naiad.config.model_config import ModelConfig
from naiad.config.sequence_tensors import model_inputs

log = logging.getLogger("naiad.backends")


class GraphRunner(SessionRunner):
    """Implements `SessionRunner`; used by one instance.

    Args:
        session: of a plan by `with_graphs`.
        options: for runs without a graph.
        config: of the model.
        signature: of the model.
        graphs: the shapes of each graph.
        device: the memory of inputs and outputs as onnxruntime names it, and the GPU's number.
        entries: run options of the plan, for runs with a graph.
        label: the model and where it runs, for the log.

    Raises:
        InferenceError: as `SessionRunner`.
        Exception: what onnxruntime raises when the device is lost.
    """

    def __init__(
        self,
        session: Any,
        options: Any,
        *,
        config: ModelConfig,
        signature: Signature,
        graphs: collections.abc.Iterable[Shapes],
        device: tuple[str, int],
        entries: tuple[tuple[str, str], ...] = (),
        label: str = "",
    ) -> None:
        super().__init__(session, options, config=config, signature=signature)
        datatypes = {spec.name: spec.datatype.dtype for spec in model_inputs(config)}
        self._graphs: dict[tuple[tuple[str, tuple[int, ...]], ...], _Graph] = {}
        for number, shapes in enumerate(graphs, 1):
            zeros = {name: np.zeros(shape, datatypes[name]) for name, shape in shapes.items()}
            try:
                outputs = super().run(self.output_names, dict(zeros))
                known = dict(zip(self.output_names, outputs, strict=True))
                graph = _Graph(session, zeros, known, device, (*entries, (NUMBER, str(number))))
            except Exception as error:
                if device_errors.unrecoverable(error) is not None:
                    raise
                log.error(  # noqa: TRY400 - the message says all
                    "unable to record CUDA graph for %s, shapes %s: %s", label, dict(shapes), error
                )
                continue
            log.info("captured CUDA graph for %s, shapes %s", label, dict(shapes))
            self._graphs[_key(zeros)] = graph

    @property
    def graphs(self) -> int:
        """The number of graphs that were captured."""
        return len(self._graphs)

    @override
    def run(self, names: list[str], feeds: dict[str, Array]) -> list[Array]:
        """See `SessionRunner`: in the graph of just the shapes of a batch, if there is one."""
        graph = self._graphs.get(_key(feeds))
        return super().run(names, feeds) if graph is None else graph.run(names, feeds)


class _Graph:
    """A graph with the memory of its inputs and outputs.

    Args:
        session: that captures it.
        zeros: inputs of its shapes.
        outputs: of a run with them.
        device: where the memory is.
        entries: run options.
    """

    def __init__(
        self,
        session: Any,
        zeros: collections.abc.Mapping[str, Array],
        outputs: collections.abc.Mapping[str, Array],
        device: tuple[str, int],
        entries: tuple[tuple[str, str], ...],
    ) -> None:
        self._session = session
        self._on_host = device[0] == "cpu"
        self._options = onnxruntime.RunOptions()
        for key, value in entries:
            self._options.add_run_config_entry(key, value)
        self._binding = session.io_binding()
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}
        for name, array in zeros.items():
            self._inputs[name] = onnxruntime.OrtValue.ortvalue_from_numpy(array, *device)
            self._binding.bind_ortvalue_input(name, self._inputs[name])
        for name, array in outputs.items():
            value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                array.shape, array.dtype, *device
            )
            self._outputs[name] = value
            self._binding.bind_ortvalue_output(name, value)
        self._launch()

    def run(self, names: list[str], feeds: collections.abc.Mapping[str, Array]) -> list[Array]:
        """Run it; gives copies of its outputs.

        Raises:
            Exception: what onnxruntime raises.
        """
        for name, value in self._inputs.items():
            value.update_inplace(np.ascontiguousarray(feeds[name]))
        self._launch()
        arrays = [self._outputs[name].numpy() for name in names]
        # On the CPU these are the memory itself, which the next run writes to.
        return [array.copy() for array in arrays] if self._on_host else arrays

    def _launch(self) -> None:
        self._session.run_with_iobinding(self._binding, self._options)


def _key(feeds: collections.abc.Mapping[str, Array]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple(sorted((name, array.shape) for name, array in feeds.items()))
