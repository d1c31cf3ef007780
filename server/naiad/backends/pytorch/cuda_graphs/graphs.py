"""The CUDA graphs of an instance: which one runs a batch, and running it."""

import collections.abc
import contextlib
import typing
from typing import Any

from naiad.backends.cuda_graph_shapes import GraphShapes, Shape, find


class Graph(typing.NamedTuple):
    """A graph with the memory that it reads and writes.

    Attributes:
        graph: a `torch.cuda.CUDAGraph`.
        inputs: by name; what is in them when it runs are the inputs of the batch.
        outputs: by position; the next run writes to them.
    """

    graph: Any
    inputs: collections.abc.Mapping[str, Any]
    outputs: collections.abc.Sequence[Any]

    def run(self) -> collections.abc.Sequence[Any]:
        """Put it into the stream.

        Raises:
            Exception: what torch raises.
        """
        self.graph.replay()
        return self.outputs


class Graphs:
    """The graphs of an instance.

    Args:
        made: each with its shapes, one at least.
        fills: batches may run in a graph of more rows.
    """

    def __init__(
        self, made: collections.abc.Iterable[tuple[GraphShapes, Graph]], *, fills: bool
    ) -> None:
        pairs = list(made)
        self._shapes = [shapes for shapes, _ in pairs]
        self._graphs = [graph for _, graph in pairs]
        self._fills = fills

    def __len__(self) -> int:
        """How many there are."""
        return len(self._graphs)

    def graph_of(self, batch: collections.abc.Mapping[str, Shape]) -> tuple[Graph, int] | None:
        """The graph that runs a batch of these shapes, and how many rows more than the batch's it has; None for none."""
        index = find(self._shapes, batch, inexact=self._fills)
        if index < 0:
            return None
        shapes = self._shapes[index].shapes
        name = next(iter(shapes), "")
        rows = shapes[name][0] - batch[name][0] if self._fills else 0
        return self._graphs[index], rows

    def close(self) -> None:
        """Release them. The instance's stream is idle."""
        for graph in self._graphs:
            with contextlib.suppress(Exception):  # the device may be lost, and what was on it
                graph.graph.reset()
        self._graphs.clear()
        self._shapes.clear()
