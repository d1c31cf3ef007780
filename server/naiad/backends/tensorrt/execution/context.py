"""An execution context with its optimization profile and its CUDA graphs: takes shapes and addresses, and runs."""

import collections.abc
import logging
from typing import Any

from naiad.backends import batch as batches
from naiad.backends.cuda_graph_shapes import GraphShapes, find
from naiad.backends.cuda_graph_specs import GraphPlan
from naiad.backends.cuda_runtime import CudaRuntime
from naiad.backends.tensorrt.engine.description import EngineDescription, Shape, shown
from naiad.backends.tensorrt.engine.library import Engine
from naiad.backends.tensorrt.engine.profiles import Shapes, UsedProfile
from naiad.backends.tensorrt.execution.graphs import shapes_of
from naiad.backends.tensorrt.execution.memory import GrowingOutput
from naiad.errors import InferenceError, internal, invalid
from naiad.tensors.cudart import CudaError

log = logging.getLogger("naiad.backends")


class ProfileContext:
    """A context of one profile.

    Attributes:
        profile: as the config narrows it.
    """

    def __init__(
        self,
        engine: Engine,
        profile: UsedProfile,
        cuda: CudaRuntime,
        *,
        stream: int,
        allocation: str,
        instance: str,
    ) -> None:
        self.profile = profile
        self._engine = engine
        self._description: EngineDescription = engine.description
        self._context: Any = engine.make_context(allocation)
        self._cuda = cuda
        self._stream = stream
        self._instance = instance
        self._dynamic = {tensor.name for tensor in self._description.inputs if -1 in tensor.shape}
        self._has_values = any(tensor.is_shape for tensor in self._description.tensors)
        self._set: dict[str, Shape] = {}
        self._graph_shapes: list[GraphShapes] = []
        self._graphs: list[int] = []
        self._inexact = False
        if profile.index and not self._context.set_optimization_profile_async(
            profile.index, stream
        ):
            last = len(self._description.profiles) - 1
            raise invalid(
                f"Can not set the specified optimization profile {profile.name}[{profile.index}] for {instance}. Expected optimization profile index "
                f"range 0-{last}"
            )
        cuda.synchronize(stream)

    def bind(self, name: str, address: int) -> None:
        """Set where a tensor lies.

        Raises:
            InferenceError: INVALID_ARG: there is no such tensor.
        """
        if not self._context.set_tensor_address(name, address):
            raise invalid(f"'{name}' does not map to an input or output tensor")

    def bind_growing(self, name: str, output: GrowingOutput) -> None:
        """Set what gives an output its memory during a run."""
        self._context.set_output_allocator(name, output)

    def set_shape(self, name: str, shape: Shape) -> None:
        """Set the shape of an input.

        Raises:
            InferenceError: INTERNAL: TensorRT refuses it; its reason comes first.
        """
        self._set.pop(name, None)
        if not self._context.set_input_shape(name, shape):
            reason = self._engine.logger.take_error("")
            text = f"trt failed to set binding dimension to {shown(shape)} for input '{name}' for {self._instance}"
            raise internal(f"{reason} ({text})" if reason else text)
        self._set[name] = shape

    def set_shapes(self, shapes: collections.abc.Mapping[str, Shape]) -> bool:
        """Set the shapes of a batch; whether one is another than before: TensorRT works out all shapes of the network again after each call."""
        changed = False
        for name, shape in shapes.items():
            if name in self._dynamic and self._set.get(name) != shape:
                self.set_shape(name, shape)
                changed = True
        return changed

    def shape_of(self, name: str) -> Shape:
        """The shape of a tensor, as the shapes of the inputs make it; -1 where the values of inputs decide."""
        return tuple(int(size) for size in self._context.get_tensor_shape(name))

    def most_bytes(self, name: str) -> int:
        """The most bytes of an output, with the shapes that are set; -1 if TensorRT does not know."""
        return int(self._context.get_max_output_size(name))

    def unspecified(self) -> list[str]:
        """The tensors whose shapes or values are not set.

        Raises:
            InferenceError: INTERNAL: the shapes do not go together.
        """
        try:
            return list(self._context.infer_shapes())
        except RuntimeError as error:
            raise batches.broken(
                f"{self._engine.logger.take_error(str(error))} ({error})"
            ) from error

    def capture(self, plan: GraphPlan, unbatched: collections.abc.Container[str]) -> None:
        """Capture the CUDA graphs of this context. One that cannot be captured is logged, and batches run without it, as in Triton."""
        if any(tensor.is_shape for tensor in self._description.tensors):
            log.warning("Detected shape tensor, CUDA graph is not captured for %s", self._instance)
            return
        if any(-1 in self.shape_of(tensor.name) for tensor in self._description.outputs):
            log.warning(
                "the shape of an output depends on values, CUDA graph is not captured for %s",
                self._instance,
            )
            return
        self._inexact = plan.inexact
        for spec in plan.specs:
            try:
                shapes = shapes_of(spec, self._description, self.profile, unbatched)
                graph = self._captured(shapes)
            except (InferenceError, CudaError) as error:
                log.error(  # noqa: TRY400 - the message says all
                    "unable to record CUDA graph for %s, batch size %d: %s",
                    self._instance,
                    spec.rows,
                    error,
                )
                continue
            self._graph_shapes.append(shapes)
            self._graphs.append(graph)
            log.info(
                "captured CUDA graph for %s, batch size %d, profile %s[%d]",
                self._instance,
                spec.rows,
                self.profile.name,
                self.profile.index,
            )

    def enqueue(self, batch: Shapes) -> dict[str, Shape]:
        """Run a batch in the stream: in a graph, if there is one for it. Returns the shapes with which it runs.

        Raises:
            InferenceError: INTERNAL: TensorRT refuses; its reason comes first.
        """
        index = find(self._graph_shapes, batch.inputs, inexact=self._inexact)
        if index >= 0:
            shapes = dict(self._graph_shapes[index].shapes)
            self.set_shapes(shapes)
            self._cuda.launch(self._graphs[index], self._stream)
            return shapes
        changed = self.set_shapes(batch.inputs)
        if (changed or self._has_values) and (missing := self.unspecified()):
            raise batches.broken(
                "failed to specify the dimensions of all input tensors or values of all input shape tensors"
                f" (not set: {', '.join(missing)})"
            )
        self._run()
        return dict(batch.inputs)

    def close(self) -> None:
        """Release the graphs and the context."""
        for graph in self._graphs:
            self._cuda.destroy_graph(graph)
        self._graphs.clear()
        self._graph_shapes.clear()
        self._context = None

    def _captured(self, shapes: GraphShapes) -> int:
        self.set_shapes(shapes.shapes)
        # A first run outside of the graph: TensorRT makes there what it may not make while a graph is captured.
        self._run()
        self._cuda.synchronize(self._stream)
        self._cuda.begin_capture(self._stream)
        try:
            self._run()
        except InferenceError:
            try:
                self._cuda.destroy_graph(self._cuda.end_capture(self._stream))
            except CudaError:
                log.debug("the capture of a CUDA graph is over", exc_info=True)
            raise
        return self._cuda.end_capture(self._stream)

    def _run(self) -> None:
        if self._context.execute_async_v3(self._stream):
            return
        reason = self._engine.logger.take_error("TensorRT gave no reason")
        failed = batches.broken(f"{reason} (unable to enqueue for inference {self._instance})")
        raise failed
