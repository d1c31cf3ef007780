"""A serialised pipeline, read without DALI: its inputs, its outputs and its operators, and which operators are never run.

The format is protobuf (`dali_proto.PipelineDef` in DALI's sources). Nothing of the file is trusted; see `model_files/wire_format.py`.
"""

import pathlib
import re

import msgspec

from naiad.backends.model_files.wire_format import (
    LENGTH,
    VARINT,
    Field,
    MalformedError,
    WireFormat,
    walk,
)

WHAT = "a serialised DALI pipeline"

MAX_BYTES = 1 << 30
"""Of a serialised pipeline, which is a few KB but for the constants in it."""

MAX_SAMPLES = (1 << 31) - 1
"""Of a run: DALI itself counts them in an int."""

MAX_DIMENSIONS = 64
"""Of a sample, as numpy has it; a completed config lists them all."""

DATA_TYPES = (
    "TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32", "TYPE_UINT64", "TYPE_INT8", "TYPE_INT16", "TYPE_INT32", "TYPE_INT64",
    "TYPE_FP16", "TYPE_FP32", "TYPE_FP64", "TYPE_BOOL",
)  # fmt: skip
"""The datatypes of DALI's tensors by their numbers in DALI (`DALIDataType`), as configs name them."""

_RUNS_CODE = re.compile("Python|Numba|DLTensor|Torch|Jax")
"""In the names of operators that call a function of the process that made the pipeline, by its address."""

_VIDEO_INPUT = re.compile("inputs__Video")

# Fields of dali_proto.PipelineDef, OpDef, InputOutput and Argument.
_BATCH_SIZE, _OPERATOR, _OUTPUT = (2, VARINT), (5, LENGTH), (7, LENGTH)
_SCHEMA, _OP_OUTPUT, _ARGUMENT, _INSTANCE = (1, LENGTH), (3, LENGTH), (4, LENGTH), (5, LENGTH)
_NAME, _DEVICE, _DTYPE, _NDIM = (1, LENGTH), (2, LENGTH), (5, VARINT), (6, VARINT)
_INTEGER, _TEXT = (4, VARINT), (5, LENGTH)


class PipelineTensor(msgspec.Struct, frozen=True, kw_only=True):
    """An input or an output.

    Attributes:
        name: an input's is what clients call it; an output's is only the default.
        data_type: as configs name it; "" if the pipeline does not say it.
        ndim: the number of dimensions of a sample; -1 if the pipeline does not say it.
        device: where an output is: cpu or gpu. An input is brought from the host to wherever the pipeline wants it.
    """

    name: str
    data_type: str = ""
    ndim: int = -1
    device: str = "cpu"


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """An operator.

    Attributes:
        schemas: its kind, by DALI's name; several only in a file that DALI did not write.
        label: what it is called in Python.
        device: cpu, gpu or mixed.
    """

    schemas: tuple[str, ...]
    label: str
    device: str


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """What a serialised pipeline says of itself; `batch_size` is the most samples of a run."""

    batch_size: int
    inputs: tuple[PipelineTensor, ...]
    outputs: tuple[PipelineTensor, ...]
    operators: tuple[Operator, ...]

    def refusal(self) -> str:
        """Why it is never run; "" if it may be."""
        for each in self.operators:
            if any(_RUNS_CODE.search(schema) for schema in each.schemas):
                return (
                    f"its operator {each.label} calls a Python function of the process that serialised it: take it out, and do that step in a Python model "
                    "of the same ensemble"
                )
            if any(_VIDEO_INPUT.search(schema) for schema in each.schemas):
                return (
                    f"its operator {each.label} splits one video into many responses, which this server does not do: send the frames of one response in each "
                    "request, through external_source"
                )
        if not self.inputs:
            return "it has no external_source, so that a request could bring it nothing: add one, with the name of the input"
        if not self.outputs:
            return "it returns nothing"
        return ""

    def needing_gpu(self) -> str:
        """What of it needs a GPU: the first such operator, or else an output; "" for a pipeline of the CPU."""
        for each in self.operators:
            if each.device != "cpu":
                return f"operator {each.label} (device '{each.device}')"
        return next((f"output '{each.name}'" for each in self.outputs if each.device != "cpu"), "")


def read(path: pathlib.Path) -> Pipeline:
    """The pipeline in a file.

    Raises:
        ModelFileError: the file is missing, not whole, or no pipeline.
    """
    return walk(path, describe, what=WHAT)


def of_bytes(data: bytes) -> Pipeline:
    """The pipeline in memory.

    Raises:
        MalformedError: it is not one, or not whole.
    """
    return describe(WireFormat(data, WHAT))


def describe(wire: WireFormat) -> Pipeline:
    """The pipeline in these bytes.

    Raises:
        MalformedError: as `of_bytes`.
    """
    batch_size = 0
    operators: list[Operator] = []
    inputs: list[PipelineTensor] = []
    outputs: list[PipelineTensor] = []
    for field in wire.fields(wire.whole()):
        if field.tag == _BATCH_SIZE:
            batch_size = _signed(field.value)
        elif field.tag == _OPERATOR:
            operator, as_input = _operator(wire, field)
            operators.append(operator)
            if "ExternalSource" in operator.schemas:
                inputs.append(as_input)
        elif field.tag == _OUTPUT:
            outputs.append(_output(wire, field))
    tensors = (*inputs, *outputs)
    if not batch_size:  # which every pipeline says
        raise MalformedError(f"is not {WHAT}")
    if batch_size > MAX_SAMPLES or any(each.ndim > MAX_DIMENSIONS for each in tensors):
        raise MalformedError("is damaged (a number in it is too large): copy it again")
    return Pipeline(
        batch_size=batch_size,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        operators=tuple(operators),
    )


def _operator(wire: WireFormat, message: Field) -> tuple[Operator, PipelineTensor]:
    """An operator, and the input that it is if it is one."""
    schemas: list[str] = []
    name = ""
    device = "cpu"
    numbers: dict[str, int] = {}
    texts: dict[str, str] = {}
    for field in wire.fields(message):
        if field.tag == _SCHEMA:
            schemas.append(wire.text(field))
        elif field.tag == _INSTANCE:
            name = wire.text(field)
        elif field.tag == _OP_OUTPUT and wire.text_of(field, _DEVICE[0]) == "gpu":
            device = "gpu"
        elif field.tag == _ARGUMENT:
            key = wire.text_of(field, _NAME[0])
            if key in ("dtype", "ndim"):
                numbers[key] = _number(wire, field)
            elif key in ("device", "_module", "_display_name"):
                texts[key] = wire.text_of(field, _TEXT[0])
    label = ".".join(filter(None, (texts.get("_module"), texts.get("_display_name"))))
    device = texts.get("device") or device
    as_input = PipelineTensor(
        name=name, data_type=_data_type(numbers.get("dtype", -1)), ndim=numbers.get("ndim", -1)
    )
    schema = schemas[-1] if schemas else ""
    return Operator(schemas=tuple(schemas), label=label or schema or name, device=device), as_input


def _number(wire: WireFormat, argument: Field) -> int:
    number = -1
    for field in wire.fields(argument):
        if field.tag == _INTEGER:
            number = _signed(field.value)
    return number


def _output(wire: WireFormat, message: Field) -> PipelineTensor:
    dtype = ndim = -1
    for field in wire.fields(message):
        if field.tag == _DTYPE:
            dtype = _signed(field.value)
        elif field.tag == _NDIM:
            ndim = _signed(field.value)
    return PipelineTensor(
        name=wire.text_of(message, _NAME[0]),
        data_type=_data_type(dtype),
        ndim=ndim,
        device=wire.text_of(message, _DEVICE[0]) or "cpu",
    )


def _data_type(number: int) -> str:
    return DATA_TYPES[number] if 0 <= number < len(DATA_TYPES) else ""


def _signed(value: int) -> int:
    """A number of two's complement, as protobuf writes int32 and int64."""
    return value - (1 << 64) if value >> 63 else value
