"""An operator that is being translated: its inputs, and its arguments as Caffe2 reads them.

Every argument that is read is marked. One that nothing reads, and that is not known to be without effect here, refuses the operator: it may change the
numbers.
"""

import collections.abc

import numpy as np

from naiad.backends.caffe2.graph import Array, GraphBuilder, UnsupportedError, Value
from naiad.backends.caffe2.net import Argument, Operator

_IGNORED = frozenset(
    (
        "order", "use_cudnn", "use_mkldnn", "cudnn_exhaustive_search", "exhaustive_search", "ws_nbytes_limit", "shared_buffer", "shared_ws_name", "init_params",
        "float16_compute", "float_bias", "enable_tensor_core", "deterministic", "device_id", "net_pos", "use_gpu_transform", "use_scratch", "is_test", "momentum",
        "num_batches", "allow_broadcast_fastpath", "cudnn_math_mode", "algo", "quantile", "no_bias", "input_mute", "output_mute", "transpose_b_packed",
        "convolution_transform_strategy", "training_mode", "use_nnpack", "mobile", "noise_scale", "debug_info",
    )
)  # fmt: skip
"""How an operator is computed, and what counts in training alone."""


class Call:
    """An operator with its inputs' values.

    Args:
        inputs: None for one that is left out.
    """

    def __init__(
        self, operator: Operator, inputs: collections.abc.Sequence[Value], graph: GraphBuilder
    ) -> None:
        self.operator = operator
        self.inputs = inputs
        self.graph = graph
        self._read: set[str] = set()

    @property
    def x(self) -> Value:
        """The first input."""
        return self.input(0)

    def input(self, index: int) -> Value:
        """An input that has to be there.

        Raises:
            UnsupportedError: it is not.
        """
        if index >= len(self.inputs):
            raise UnsupportedError(f"has {len(self.inputs)} inputs, and needs {index + 1}")
        return self.inputs[index]

    def constant_input(self, index: int, what: str) -> Array:
        """The contents of an input that has to be a weight.

        Raises:
            UnsupportedError: it is computed.
        """
        value = self.input(index).constant
        if value is None:
            raise UnsupportedError(
                f"computes {what} ('{self.operator.inputs[index]}') while it runs, where a constant of the init net is expected"
            )
        return value

    def has(self, name: str) -> bool:
        """Whether an argument is there."""
        return self._argument(name) is not None

    def integer(self, name: str, default: int) -> int:
        """An integer; a flag is one as well.

        Raises:
            UnsupportedError: the argument is something else.
        """
        argument = self._argument(name)
        if argument is None:
            return default
        if argument.i is not None:
            return argument.i
        if argument.f is not None and argument.f.is_integer():
            return int(argument.f)
        raise UnsupportedError(f"argument '{name}' is not an integer")

    def number(self, name: str, default: float) -> float:
        """A float.

        Raises:
            UnsupportedError: the argument is something else.
        """
        argument = self._argument(name)
        if argument is None:
            return default
        if argument.f is not None:
            return argument.f
        if argument.i is not None:
            return float(argument.i)
        raise UnsupportedError(f"argument '{name}' is not a number")

    def text(self, name: str, default: str) -> str:
        """A text.

        Raises:
            UnsupportedError: the argument is something else.
        """
        argument = self._argument(name)
        if argument is None:
            return default
        if argument.s is None:
            raise UnsupportedError(f"argument '{name}' is not a text")
        return argument.s.decode("utf-8", "replace")

    def choice(self, name: str, default: str, allowed: collections.abc.Sequence[str]) -> str:
        """One of a few texts.

        Raises:
            UnsupportedError: it is another one.
        """
        value = self.text(name, default)
        if value not in allowed:
            raise UnsupportedError(
                f"argument '{name}' is '{value}', expected {' or '.join(allowed)}"
            )
        return value

    def integers(self, name: str) -> list[int]:
        """A list of integers; empty where there is none."""
        argument = self._argument(name)
        if argument is None:
            return []
        if argument.ints or not argument.floats:
            return argument.ints
        return [int(value) for value in floats_of(argument)]

    def axis(self, name: str, default: int, rank: int | None, *, more: int = 0) -> int:
        """A dimension, counted from the front; a negative one counts from the end. `more` are dimensions past the last that are possible as well.

        Raises:
            UnsupportedError: there is no such dimension, or it is not known how many there are.
        """
        given = self.integer(name, default)
        if rank is None:
            if given >= 0:
                return given
            raise UnsupportedError(
                f"argument '{name}' is {given}, and it is not known how many dimensions there are"
            )
        axis = given + rank if given < 0 else given
        if not 0 <= axis < rank + more:
            raise UnsupportedError(f"argument '{name}' is {given}, and there are {rank} dimensions")
        return axis

    def argument(self, name: str) -> Argument | None:
        """An argument as it is; None where there is none."""
        return self._argument(name)

    @property
    def channels_last(self) -> bool:
        """Whether images are in the order NHWC."""
        return self.choice("order", "NCHW", ("NCHW", "NHWC")) == "NHWC"

    def refuse_unread(self) -> None:
        """Refuse arguments that nothing has read.

        Raises:
            UnsupportedError: there is one that may have an effect.
        """
        unread = sorted(self.operator.arguments.keys() - self._read - _IGNORED)
        if unread:
            shown = ", ".join(f"'{name}'" for name in unread)
            how = (
                f"arguments {shown}, which are"
                if len(unread) > 1
                else f"argument {shown}, which is"
            )
            raise UnsupportedError(f"has the {how} not in the table")

    def _argument(self, name: str) -> Argument | None:
        self._read.add(name)
        return self.operator.arguments.get(name)


def floats_of(argument: Argument) -> Array:
    """A list of floats, float32."""
    return np.frombuffer(argument.floats[: len(argument.floats) // 4 * 4], "<f4")
