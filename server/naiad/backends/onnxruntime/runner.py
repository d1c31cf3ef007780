"""One session and what is known of its tensors: arrays of a whole batch in, arrays of a whole batch out.

Shared by the CPU instances of a model, so nothing in it changes after it was made. A run takes the plain way (numpy in, numpy
out) unless the model has BF16 tensors, which numpy and onnxruntime can hand over only as `OrtValue`s. Binding inputs and
outputs beforehand (IOBinding) measured slower on the CPU: 13.6 against 8.1 µs for a small model.

BYTES tensors are text for onnxruntime (row 16.12): ONNX strings are UTF-8. A client may send any bytes; those that are not UTF-8 are refused
before they reach the batch.
"""

import collections.abc
import ctypes
import itertools
from typing import Any

import numpy as np
import onnxruntime

from naiad.backends import text
from naiad.backends.batch import Array, OutputRule
from naiad.backends.model_files.signature import Signature
from naiad.backends.ragged import output_rules, ragged_batches
from naiad.config.model_config import ModelConfig
from naiad.config.sequence_tensors import model_inputs, model_outputs
from naiad.core import datatypes
from naiad.errors import invalid

_TIMED_RUNS = 5
_TIMED_NS = 100_000_000
"""How often a session is run to see how long it takes, and after which time no further run begins."""

_BF16_ELEMENT = 16  # TensorProto.BFLOAT16


class SessionRunner:
    """Runs an onnxruntime.InferenceSession for a config that was held against its signature.

    Attributes:
        model: the model's name, for messages.
        output_names: the config's outputs and those of states, by name: the order of responses, as in Triton, by which some clients read.
        has_text: some input is BYTES, so that requests are decoded one by one before they are merged.
        ragged: makes batches of requests with different shapes; None for a model without any.

    Raises:
        InferenceError: INVALID_ARG: the model mixes BF16 and text.
    """

    def __init__(
        self, session: Any, options: Any, *, config: ModelConfig, signature: Signature
    ) -> None:
        self.model = config.name
        outputs = model_outputs(config)
        self.output_names = sorted(spec.name for spec in outputs)
        self._inputs = model_inputs(config)
        self.has_text = any(spec.datatype is datatypes.BYTES for spec in self._inputs)
        self._run = session.run
        self._session = session
        self._options = options
        self.ragged = ragged_batches(config)
        self._rules = output_rules(config)
        listed = {spec.name for spec in self._inputs}
        self._scalars = [
            tensor.name
            for tensor in (*signature.inputs, *signature.overridable)
            if tensor.shape == () and tensor.name in listed
        ]
        used = [spec.datatype for spec in (*self._inputs, *outputs)]
        self._has_bf16 = datatypes.BF16 in used
        if self._has_bf16 and datatypes.BYTES in used:
            raise invalid(
                f"unable to load model '{config.name}': onnxruntime for Python cannot hand over BF16 and STRING tensors "
                "in one run: cast the BF16 ones to FP32 inside the model"
            )

    def run(self, names: list[str], feeds: dict[str, Array]) -> list[Array]:
        """Run a batch: every input by name, BYTES as text; gives one array for each name of an output.

        Raises:
            Exception: what onnxruntime raises.
        """
        for name in self._scalars:
            if name in feeds:
                feeds[name] = feeds[name].reshape(())
        if self._has_bf16:
            return self._run_values(names, feeds)
        arrays: list[Array] = self._run(names, feeds, self._options)
        return arrays

    def run_rows(self, names: list[str], feeds: dict[str, Array], *, rows: int) -> list[Array]:
        """Run a batch of so many rows, and require as many of each output.

        Raises:
            Exception: what onnxruntime raises.
            ValueError: an output has another number of rows than went in.
        """
        arrays = self.run(names, feeds)
        for name, array in zip(names, arrays, strict=True):
            if array.shape[:1] != (rows,):
                raise ValueError(
                    f"output '{name}' has the shape {list(array.shape)} for a batch of {rows} rows"
                )
        return arrays

    def warm_up(self, rows: int, now_ns: collections.abc.Callable[[], int]) -> int | None:
        """Run a batch of zeros or empty strings: the first time plans are made, the second time memory is laid out by what the first took.

        Returns:
            The time of the fastest of the runs that follow, in nanoseconds; None if an input has a free dimension, so that no size is known that
            clients will send: then nothing is run.

        Raises:
            Exception: what onnxruntime raises.
        """
        feeds: dict[str, Array] = {}
        for spec in self._inputs:
            dims = spec.dims if spec.reshape is None else spec.reshape
            if min(dims, default=0) < 0:
                return None
            shape = (rows, *dims)
            feeds[spec.name] = (
                np.full(shape, "", dtype=object)
                if spec.datatype is datatypes.BYTES
                else np.zeros(shape, spec.datatype.dtype)
            )
        for _ in range(2):
            self.run(self.output_names, dict(feeds))
        times = [now_ns()]
        while len(times) <= _TIMED_RUNS and times[-1] - times[0] < _TIMED_NS:
            self.run(self.output_names, dict(feeds))
            times.append(now_ns())
        return min(end - begin for begin, end in itertools.pairwise(times))

    def checked(
        self, names: list[str], arrays: list[Array], *, rows: int
    ) -> list[tuple[OutputRule, Array]]:
        """Outputs of a batch of so many rows as the config says them: text as bytes, scalars in the config's dims.

        Raises:
            InferenceError: INTERNAL: an output is not what the config says.
        """
        model = self.model
        outputs: list[tuple[OutputRule, Array]] = []
        for name, given in zip(names, arrays, strict=True):
            rule = self._rules[name]
            array = given
            if rule.spec.datatype is datatypes.BYTES:
                array = text.encoded(array)
            if array.ndim:
                rule.check(array, rows=rows, model=model)
            else:
                array = rule.checked(array, rows=rows, model=model)
            outputs.append((rule, array))
        return outputs

    def _run_values(self, names: list[str], feeds: dict[str, Array]) -> list[Array]:
        values = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
                array.view(np.uint16), _BF16_ELEMENT
            )
            if array.dtype.kind == "V"
            else onnxruntime.OrtValue.ortvalue_from_numpy(array)
            for name, array in feeds.items()
        }
        results = self._session.run_with_ort_values(names, values, self._options)
        return [_array_of(result) for result in results]


def _array_of(value: Any) -> Array:
    """An OrtValue's contents; BF16 is copied out of its memory, because `OrtValue.numpy` does not know it."""
    if value.element_type() != _BF16_ELEMENT:
        array: Array = value.numpy()
        return array
    size = value.tensor_size_in_bytes()
    content = ctypes.string_at(value.data_ptr(), size)
    return np.frombuffer(content, datatypes.BF16.dtype).reshape(value.shape())
