"""Functions of a program as models: `naiad.model`, and the declarations of their inputs and outputs. Pure, but for the folder that `write` makes.

A bound function becomes a folder of a model repository, whose model.py fetches it from this process, so that it has all that a Python model has: batching,
statistics, warmup, calls from other models, HTTP and gRPC. It runs in threads of this process (`host: thread`).
"""

import collections.abc
import inspect
import pathlib
import types
import typing
from typing import Any

import numpy as np
from google.protobuf import json_format, text_format

from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.core.messages import model_config_pb2
from naiad.embed import declared

Function = collections.abc.Callable[..., Any]
Takes = typing.Literal["batch", "requests"]

_TEXT = (np.bytes_, np.str_, np.object_, bytes, str, object)
_NO_CONFIG: collections.abc.Mapping[str, Any] = types.MappingProxyType({})
_SCHEDULING = ("dynamic_batching", "sequence_batching", "dynamicBatching", "sequenceBatching")

_CODE = """\
# Made by naiad.Server for a function of the program; it works in that program only.
from naiad.embed.function_model import bound_class

TritonPythonModel = bound_class({key})
"""


class Tensor:
    """An input or an output of a bound function.

    Args:
        shape: without the batch dimension; -1 for a dimension of any size.
        dtype: as numpy has it: `np.float32`, `np.dtype("int64")`; `bytes`, `str`, `object` and `np.bytes_` are BYTES, arrays of `bytes` objects; or the name of
            a datatype of KServe v2: "FP32", "BF16".
        name: by default that of the function's parameter, in order, else INPUT_1 or OUTPUT_1 and so on.
        optional: of an input: requests may leave it out.

    Raises:
        TypeError: no datatype has this dtype, or a dimension is not an integer.
        ValueError: a dimension is neither -1 nor above 0.
    """

    def __init__(
        self,
        shape: collections.abc.Sequence[int],
        dtype: Any,
        name: str | None = None,
        optional: bool = False,  # noqa: FBT001, FBT002 - the order of PyTriton's
    ) -> None:
        self.shape = declared.sizes(shape)
        self.datatype = _datatype(dtype)
        self.name = declared.tensor_name(name)
        self.optional = optional
        for size in self.shape:
            if isinstance(size, bool) or not isinstance(size, int | np.integer):
                raise TypeError(f"shape {self.shape}: {size!r} is not an integer")
            if size != -1 and size < 1:
                raise ValueError(
                    f"shape {self.shape}: a dimension is above 0, or -1 for any size; leave the batch dimension out"
                )

    @classmethod
    def of(cls, given: Any) -> "Tensor":
        """This tensor, or one that is declared by the members of this class, as PyTriton's.

        Raises:
            TypeError: it is not declared so.
        """
        if isinstance(given, cls):
            return given
        try:
            return cls(given.shape, given.dtype, given.name, bool(given.optional))
        except AttributeError:
            raise TypeError(
                f"{given!r} declares no tensor: write naiad.Tensor(shape=(-1,), dtype=np.float32)"
            ) from None

    def named(self, name: str) -> "Tensor":
        """The same with this name, unless it has one."""
        return self if self.name else Tensor(self.shape, self.datatype.name, name, self.optional)


class FunctionModel:
    """A function that a server can serve; made by `naiad.model`. A call of it calls the function.

    Attributes:
        name: of the model.
        functions: one per instance.
        takes: see `model`.
        inputs: with their names.
        outputs: with their names.
        max_batch_size: 0: no batch dimension.
        decoupled: whether a request has any number of responses: the function is a generator.
        is_async: whether it is a coroutine function.
    """

    def __init__(
        self,
        functions: collections.abc.Sequence[Function],
        *,
        name: str | None,
        inputs: collections.abc.Sequence[Any],
        outputs: collections.abc.Sequence[Any],
        max_batch_size: int,
        takes: Takes,
        instances: int,
        config: collections.abc.Mapping[str, Any],
    ) -> None:
        first = functions[0]
        self.name: str = declared.model_name(
            name or str(getattr(first, "__name__", type(first).__name__))
        )
        self.takes = takes
        self.max_batch_size = declared.whole("max_batch_size", max_batch_size, 0)
        self.functions = (*functions,) if len(functions) > 1 else (first,) * instances
        if takes not in ("batch", "requests"):
            raise ValueError(f"takes={takes!r}: expected 'batch' or 'requests'")
        if not isinstance(config, collections.abc.Mapping):
            raise TypeError(f"config={config!r}: expected fields of a ModelConfig by name")
        code = declared.code_of(first)
        generates = inspect.isgeneratorfunction(code), inspect.isasyncgenfunction(code)
        self.decoupled = any(generates)
        self.is_async = inspect.iscoroutinefunction(code) or generates[1]
        if self.decoupled and takes == "requests":
            raise ValueError(
                f"model '{self.name}': a generator has the inputs of one request (takes='batch'), and yields its responses"
            )
        parameters = [] if takes == "requests" else declared.parameters(code)
        self.inputs = _named(self.name, "INPUT", declared.several("inputs", inputs), parameters)
        self.outputs = _named(self.name, "OUTPUT", declared.several("outputs", outputs), [])
        if self.max_batch_size and not self.inputs:
            raise ValueError(f"model '{self.name}' has no inputs, whose rows would make a batch: leave max_batch_size out")  # fmt: skip
        if not self.max_batch_size and not all(each.shape for each in self.inputs + self.outputs):
            raise ValueError(f"model '{self.name}': the shape () is a number for each row of a batch: write (1,), or max_batch_size=…")  # fmt: skip
        for each in self.functions:
            if takes == "requests":
                declared.check_takes_requests(self.name, declared.code_of(each))
            else:
                declared.check_call(self.name, declared.code_of(each), self.inputs)
        self._config = config
        self.__doc__ = first.__doc__

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function, without a server."""
        return self.functions[0](*arguments, **named)

    def config(self) -> Any:
        """Its model_config_pb2.ModelConfig.

        Raises:
            ValueError: the given fields are not those of a ModelConfig.
        """
        own, message = model_config_pb2.ModelConfig(), model_config_pb2.ModelConfig()
        fields: dict[str, Any] = {
            "name": self.name,
            "backend": "python",
            "max_batch_size": self.max_batch_size,
            "input": [{**_spec(each), "optional": each.optional} for each in self.inputs],
            "output": [_spec(each) for each in self.outputs],
            "instance_group": [{"kind": "KIND_CPU", "count": len(self.functions)}],
        }
        if self.decoupled:
            fields["model_transaction_policy"] = {"decoupled": True}
        elif self.max_batch_size and not any(each in self._config for each in _SCHEDULING):
            fields["dynamic_batching"] = {}
        json_format.ParseDict(fields, own)
        try:
            json_format.ParseDict({**fields, **self._config}, message)
        except json_format.ParseError as error:
            raise ValueError(
                f"model '{self.name}': config={dict(self._config)!r}: {error}"
            ) from None
        declared.check_config(self.name, dict(self._config), message, own)
        message.parameters["naiad.host"].string_value = "thread"
        return message

    def write(self, repository: pathlib.Path, key: str) -> None:
        """Make its folder in a repository; `key`: by which its model.py finds it."""
        version = repository / self.name / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(text_format.MessageToString(self.config()))
        (version / "model.py").write_text(_CODE.format(key=repr(key)))


def model(
    *,
    inputs: collections.abc.Sequence[Any],
    outputs: collections.abc.Sequence[Any],
    max_batch_size: int = 0,
    name: str | None = None,
    takes: Takes = "batch",
    instances: int = 1,
    config: collections.abc.Mapping[str, Any] = _NO_CONFIG,
) -> collections.abc.Callable[[Function], FunctionModel]:
    """Declare a function as a model, for `Server(functions=[…])` or `server.bind(…)`.

        @naiad.model(
            inputs=[naiad.Tensor((-1,), np.float32), naiad.Tensor((-1,), np.float32)],
            outputs=[naiad.Tensor((-1,), np.float32, "sum")],
            max_batch_size=128,
        )
        def add(a, b):
            return {"sum": a + b}

    The function may be a callable object, a coroutine function, or, for a model with any number of responses per request, a generator. It returns its outputs as a
    dict by name, as a list or tuple in their order, or as the one array. What it raises fails its requests, as do outputs of wrong names, dtypes or shapes.

    Args:
        inputs: in the order of the function's parameters.
        outputs: what it returns.
        max_batch_size: 0: arrays have no batch dimension, and each call has the inputs of one request; else requests are batched up to so many rows.
        name: of the model; by default that of the function.
        takes: "batch": each input is an argument by name, the rows of all requests of a batch in one array (a generator: of one request); requests with different
            optional inputs come in calls of their own. "requests": the one argument is a list of `naiad.Request`, and the result a list with the outputs of each,
            or an exception for one that failed.
        instances: how many threads call it.
        config: other fields of a ModelConfig, as JSON has them: {"dynamic_batching": {"max_queue_delay_microseconds": 1000}}.

    Raises:
        TypeError, ValueError: a declaration is wrong.
    """

    def bound(function: Function) -> FunctionModel:
        return function_model(
            function, name=name, inputs=inputs, outputs=outputs, max_batch_size=max_batch_size, takes=takes, instances=instances, config=config,
        )  # fmt: skip

    return bound


def function_model(
    function: Function | collections.abc.Sequence[Function], *, instances: int = 1, **given: Any
) -> FunctionModel:
    """As `model`, of one function, or of several: one per instance."""
    several = list(function) if isinstance(function, collections.abc.Sequence) else [function]
    if not several or not all(map(callable, several)):
        raise TypeError(f"{function!r} is not a function, nor a list of them")
    count = declared.whole("instances", instances, 1)
    return FunctionModel(several, instances=count, **given)


def _datatype(dtype: Any) -> DataType:
    if isinstance(dtype, str) and dtype in datatypes.BY_NAME:
        return datatypes.BY_NAME[dtype]
    if dtype in _TEXT:
        return datatypes.BYTES
    try:
        kind = np.dtype(dtype) if dtype is not None else None
    except TypeError:
        kind = None
    if kind is not None and kind.kind in "SUO":
        return datatypes.BYTES
    found = None if kind is None else datatypes.BY_DTYPE.get(kind)
    if found is None:
        names = ", ".join(each.name for each in datatypes.ALL)
        raise TypeError(f"dtype {dtype!r} has no datatype; there are {names}")
    return found


def _named(
    model_name: str,
    kind: str,
    given: collections.abc.Sequence[Any],
    names: collections.abc.Sequence[str],
) -> tuple[Tensor, ...]:
    tensors = [Tensor.of(each) for each in given]
    named = tuple(
        each.named(names[place] if place < len(names) else f"{kind}_{place + 1}")
        for place, each in enumerate(tensors)
    )
    if len({each.name for each in named}) < len(named):
        raise ValueError(
            f"model '{model_name}': two tensors are called alike: {', '.join(str(each.name) for each in named)}"
        )
    if not named and kind == "OUTPUT":
        raise ValueError(f"model '{model_name}' declares no output")
    return named


def _spec(tensor: Tensor) -> dict[str, Any]:
    # A scalar for each row: config.pbtxt has no empty dims without a reshape.
    shape: dict[str, Any] = {"dims": [int(size) for size in tensor.shape]}
    if not tensor.shape:
        shape = {"dims": [1], "reshape": {"shape": []}}
    return {"name": tensor.name, "data_type": tensor.datatype.config_name, **shape}
