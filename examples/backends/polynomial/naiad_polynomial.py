"""A backend for Naiad as a package of its own: a model is a polynomial, its coefficients are the text of `model.polynomial`.

docs/backend-packages.md explains the declaration at the end, and the three classes with the signatures of their methods.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from naiad.backends import batch as batches
from naiad.backends.backend import ModelSource
from naiad.backends.instance import Call, Execution, Instance, InstanceSpec, LoadedModel, Response
from naiad.backends.plugin import BackendPlugin
from naiad.config.backend_type import ModelFormat
from naiad.config.option_values import integer
from naiad.core.messages import model_config_pb2
from naiad.errors import invalid


class PolynomialBackend:
    """What this server has of the backend: one object, which loads models."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Read the coefficients; an InferenceError is the reason that the repository index shows."""
        path = PLUGIN.model_file(source.version_dir, source.config.default_model_filename)
        try:
            coefficients = [float(word) for word in path.read_text().split()]
        except ValueError as error:
            raise invalid(
                f"unable to load model '{source.config.name}': {path}: {error}"
            ) from error
        highest = int(source.options.get("highest-degree") or 100)
        if not 0 < len(coefficients) <= highest + 1:
            raise invalid(
                f"unable to load model '{source.config.name}': {path} has {len(coefficients)} coefficients, expected 1 to {highest + 1}"
            )
        return Polynomial(np.array(coefficients, np.float32))


class Polynomial(LoadedModel):
    """A loaded model: what its instances share."""

    def __init__(self, coefficients: np.ndarray[Any, Any]) -> None:
        self.coefficients = coefficients

    def make_instance(self, spec: InstanceSpec) -> Instance:
        """Make one; `spec` has its name, kind and GPU."""
        return PolynomialInstance(self.coefficients)


class PolynomialInstance(Instance):
    """Runs batches, one at a time, in a thread of the server or in a worker process."""

    def __init__(self, coefficients: np.ndarray[Any, Any]) -> None:
        self.coefficients = coefficients

    def execute(self, batch: Sequence[Call]) -> Execution[Response]:
        """Merge the inputs of all requests, compute once, and give each request its rows."""
        x = batches.merge([call.request.inputs for call in batch])["X"]
        begun_ns = time.monotonic_ns()
        y = np.polyval(self.coefficients, x)
        ended_ns = time.monotonic_ns()
        ends = np.cumsum([call.batch_size for call in batch])
        responses = [Response([("Y", "FP32", rows)], {}) for rows in np.split(y, ends[:-1])]
        return Execution(responses, begun_ns, ended_ns)


def complete(message: Any, *_: Any) -> None:
    """Every polynomial has the same input and output, so its config may leave them out."""
    for tensors, name in ((message.input, "X"), (message.output, "Y")):
        if not tensors:
            tensors.add(name=name, data_type=model_config_pb2.TYPE_FP32, dims=[-1])
    message.max_batch_size = message.max_batch_size or 64
    if message.WhichOneof("scheduling_choice") is None:
        message.dynamic_batching.SetInParent()


PLUGIN = BackendPlugin(
    name="polynomial",
    make=lambda context: PolynomialBackend(),
    formats=(ModelFormat(filename="model.polynomial"),),
    instance_kinds=frozenset({"KIND_CPU"}),
    options={"highest-degree": integer(example="9")},
    complete=complete,
)
