"""An instance of a DALI model: feeds the samples of a batch to its pipeline, runs it, and takes the outputs apart. Importing this imports DALI.

Samples of one batch may differ in shape. A pipeline that failed is never used again: another one is built of the same bytes, which takes milliseconds.
"""

import collections.abc
import itertools
import time
from typing import Any

import msgspec
import numpy as np
from nvidia.dali.pipeline import Pipeline
from typing_extensions import override

from naiad.backends import batch as batches
from naiad.backends.batch import Array
from naiad.backends.dali.agreement import ConfigTensor
from naiad.backends.dali.failures import reason_of
from naiad.backends.instance import Execution, Instance, Response
from naiad.core import datatypes
from naiad.errors import InferenceError, invalid

Calls = collections.abc.Sequence[Any]


class OutputPlan(msgspec.Struct, frozen=True, kw_only=True):
    """An output as the config has it; `split`: each sample is cut along its first dimension."""

    name: str
    datatype: str
    dtype: Any
    dims: tuple[int, ...]
    batched: bool
    split: bool

    @classmethod
    def of(
        cls, spec: ConfigTensor, *, batched: bool, split: collections.abc.Collection[str]
    ) -> "OutputPlan":
        """The plan of an output of the config."""
        datatype = datatypes.BY_CONFIG_NAME[spec.data_type]
        assert spec.dims is not None
        return cls(
            name=spec.name,
            datatype=datatype.name,
            dtype=datatype.dtype,
            dims=spec.dims,
            batched=batched,
            split=spec.name in split,
        )

    def check(self, part: Array, model: str) -> None:
        """Hold one request's part against the config.

        Raises:
            InferenceError: INTERNAL: it has another datatype or another shape.
        """
        if part.dtype != self.dtype:
            raise batches.broken(
                f"unexpected datatype {part.dtype} of output '{self.name}' for model '{model}': its config says TYPE_{self.datatype}"
            )
        shape = part.shape[1:] if self.batched else part.shape
        if not self.batched and self.dims == (1,) and shape == (1,):
            return
        if len(shape) != len(self.dims) or any(
            dim not in (-1, size) for size, dim in zip(shape, self.dims, strict=True)
        ):
            raise batches.broken(
                f"unexpected shape of output '{self.name}' for model '{model}': the pipeline gave {list(part.shape)}, its config says "
                f"{[-1, *self.dims] if self.batched else list(self.dims)}"
            )


class DaliInstance(Instance):
    """Implements `Instance`.

    Args:
        serialized: the pipeline.
        model: the model's name, for messages.
        inputs: the names of its inputs, which are those of the pipeline.
        outputs: its outputs, in the order of the pipeline.
        samples: the most samples of a run.
        threads: of the pipeline; 0 for as many as it says itself.
        device: the GPU; None for the CPU.

    Raises:
        RuntimeError: DALI cannot build the pipeline.
    """

    prefetches = True
    keeps_arrays = True  # the next run may write into the same memory

    def __init__(
        self,
        serialized: bytes,
        *,
        model: str,
        inputs: collections.abc.Sequence[str],
        outputs: collections.abc.Sequence[OutputPlan],
        samples: int,
        threads: int,
        device: int | None,
    ) -> None:
        self._serialized = serialized
        self._model = model
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._names = [each.name for each in outputs]
        self._samples = samples
        self._built: dict[str, Any] = {"device_id": device}
        if threads:
            self._built["num_threads"] = threads
        self._pipeline: Any = self._build()

    @override
    def execute(self, batch: Calls) -> Execution[Response]:
        """Run a batch. Where one request of several makes the pipeline fail, each runs alone, so that the others get their responses.

        Raises:
            InferenceError: the only request of the batch failed.
        """
        if len(batch) == 1:
            return self._run(batch)
        try:
            return self._run(batch)
        except InferenceError:
            begun = time.monotonic_ns()
            responses = [self._alone(call) for call in batch]
            return Execution(responses, begun, time.monotonic_ns())

    @override
    def ready(self) -> bool:
        return self._pipeline is not None

    @override
    def close(self) -> None:
        self._pipeline = None

    def _build(self) -> Any:
        return Pipeline.deserialize(
            self._serialized,
            batch_size=self._samples,
            # Fed by hand: no run is begun before it is asked for.
            prefetch_queue_depth=1,
            # The executor for which DALI 2 makes pipelines, also those that go from a GPU back to the CPU.
            exec_dynamic=True,
            exec_async=True,
            exec_pipelined=True,
            **self._built,
        )

    def _alone(self, call: Any) -> Response:
        try:
            response = self._run([call]).responses[0]
        except InferenceError as error:
            return Response([], {}, error.bare())
        assert response is not None
        # A later run may write into the same memory.
        outputs = [(name, datatype, array.copy()) for name, datatype, array in response.outputs]
        return Response(outputs, {})

    def _run(self, batch: Calls) -> Execution[Response]:
        """Run a batch.

        Raises:
            InferenceError: INVALID_ARG: a request's inputs disagree in their number of samples, or it has none; INTERNAL: DALI's reason, or outputs that are
                not what the config says. No request has a response.
        """
        counts, samples = self._gathered(batch)
        began = time.monotonic_ns()
        results = self._results(samples)
        ended = time.monotonic_ns()
        wanted = set(batches.wanted_names(batch, self._names))
        columns = [
            (plan.name, plan.datatype, self._parts(plan, result, counts))
            for plan, result in zip(self._outputs, results, strict=True)
            if plan.name in wanted
        ]
        responses = [Response(each, {}) for each in batches.distribute(batch, columns)]
        return Execution(responses, began, ended)

    def _gathered(self, batch: Calls) -> tuple[list[int], dict[str, list[Array]]]:
        """How many samples each request has, and the samples of each input, without a copy."""
        samples: dict[str, list[Array]] = {name: [] for name in self._inputs}
        counts: list[int] = []
        for call in batch:
            sizes: dict[str, int] = {}
            for tensor in call.request.inputs:
                array = np.ascontiguousarray(tensor.array)
                sizes[tensor.name] = len(array) if array.ndim else 0
                samples[tensor.name] += list(array) if array.ndim > 1 else _scalars(array)
            if len(set(sizes.values())) != 1 or 0 in sizes.values():
                said = ", ".join(f"{name}: {size}" for name, size in sizes.items())
                raise invalid(
                    f"the inputs of a request to model '{self._model}' must have the same number of samples, at least one, in their first dimension ({said})"
                )
            counts.append(next(iter(sizes.values())))
        if sum(counts) > self._samples:
            raise invalid(
                f"{sum(counts)} samples for model '{self._model}': its pipeline takes at most {self._samples} in a run"
            )
        return counts, samples

    def _results(self, samples: dict[str, list[Array]]) -> collections.abc.Sequence[Any]:
        """The outputs of a run, each a list of tensors in the host's memory.

        Raises:
            InferenceError: INTERNAL: DALI's reason; another pipeline has taken the place of the one that failed.
        """
        try:
            pipeline = self._pipeline = self._pipeline or self._build()
            for name, each in samples.items():
                pipeline.feed_input(name, each)
            results = pipeline.run()
            return [each.as_cpu() if hasattr(each, "as_cpu") else each for each in results]
        except Exception as error:
            self._pipeline = None
            failure = batches.broken(
                f"DALI failed to run the pipeline of model '{self._model}': {reason_of(error)}"
            )
            self._rebuild()
            raise failure from error

    def _rebuild(self) -> None:
        """Build another pipeline at once, so that the next batch need not wait; where that fails, the next batch tries again, and says why."""
        try:
            self._pipeline = self._build()
        except RuntimeError:
            self._pipeline = None

    def _parts(self, plan: OutputPlan, result: Any, counts: list[int]) -> list[Array]:
        """Each request's part of an output: views of DALI's memory, if all samples have the same shape."""
        ends = list(itertools.accumulate(counts))
        bounds = [(end - count, end) for count, end in zip(counts, ends, strict=True)]
        parts: list[Array]
        if result.is_dense_tensor():
            whole = np.asarray(result.as_tensor())
            parts = [whole[begin:end] for begin, end in bounds]
            if plan.split:
                parts = [_without_first(part) for part in parts]
        else:
            parts = [
                self._joined(plan, [np.asarray(result.at(index)) for index in range(*bound)])
                for bound in bounds
            ]
        for part in parts:
            plan.check(part, self._model)
        return parts

    def _joined(self, plan: OutputPlan, samples: list[Array]) -> Array:
        """The samples of a request as one tensor."""
        shapes = {sample.shape[1:] if plan.split else sample.shape for sample in samples}
        if len(shapes) > 1:
            raise batches.broken(
                f"the samples of output '{plan.name}' of model '{self._model}' have the shapes {', '.join(str(list(shape)) for shape in sorted(shapes))}, and "
                "those of one request are one tensor: send each in a request of its own, or make them alike in the pipeline (fn.pad, fn.resize)"
            )
        if plan.split:
            return np.concatenate(samples)
        return samples[0][np.newaxis] if len(samples) == 1 else np.stack(samples)


def _scalars(array: Array) -> list[Array]:
    """The samples of an input without dimensions of its own: arrays, which iterating would not give."""
    return [array[index : index + 1].reshape(()) for index in range(array.size)]


def _without_first(part: Array) -> Array:
    """The rows of all samples in one dimension."""
    return part.reshape(-1, *part.shape[2:]) if part.ndim > 1 else part
