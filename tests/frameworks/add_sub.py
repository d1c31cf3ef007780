"""The sums and differences that Triton's own tests serve in every format and datatype, and a comparison of what a server answers with the framework.

Triton makes them by qa/common/gen_qa_models.py: OUTPUT0 is INPUT0 + INPUT1 and OUTPUT1 is INPUT0 - INPUT1, each cast to its datatype; strings are numbers
in decimal digits. The models of a framework run in one thread host: no process per model.
"""

import collections.abc
import dataclasses
import pathlib
from typing import Any

import ml_dtypes
import numpy as np
import tritonclient.grpc
import tritonclient.http

from tests.reference.process import ServerProcess, naiad_program

VALUES = 16
_ROWS = (1, 3)

NUMBERS = (
    "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "BF16", "FP32", "FP64",
)  # fmt: skip
MIXED = (
    ("INT32", "INT8", "INT8"), ("INT32", "INT64", "FP32"), ("INT16", "INT32", "FP32"), ("FP16", "FP32", "FP32"), ("FP32", "FP16", "INT32"),
    ("FP32", "INT32", "FP64"),
)  # fmt: skip
STRINGS = (
    ("BYTES", "BYTES", "BYTES"), ("BYTES", "INT32", "INT32"), ("BYTES", "BYTES", "INT32"), ("BYTES", "INT32", "BYTES"),
)  # fmt: skip

Pair = tuple[Any, Any]
Run = collections.abc.Callable[[Any, Any], Pair]
"""The framework itself: both inputs to both outputs, as numpy arrays; strings are arrays of bytes."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One model: the datatypes of both inputs and of each output, and whether it batches."""

    taken: str
    first: str
    second: str
    batched: bool

    @property
    def name(self) -> str:
        """Of the model."""
        batch = "" if self.batched else "nobatch_"
        return f"{batch}{self.taken}_{self.first}_{self.second}".lower()

    @property
    def shape(self) -> list[int]:
        """Of each tensor in the model; -1 for any number of rows."""
        return [-1, VALUES] if self.batched else [VALUES]


def cases(
    numbers: collections.abc.Iterable[str],
    *more: tuple[str, str, str],
    batched: tuple[bool, ...] = (True, False),
) -> list[Case]:
    """Models whose three datatypes are the same, and others."""
    datatypes = (*((name, name, name) for name in numbers), *more)
    return [Case(*three, batched=batch) for three in datatypes for batch in batched]


def write_config(
    model: pathlib.Path, case: Case, head: str, outputs: tuple[str, str] = ("OUTPUT0", "OUTPUT1")
) -> None:
    """Write the config; `head` names the backend."""

    def tensors(kind: str, *named: tuple[str, str]) -> str:
        return "".join(f'{kind} {{ name: "{name}" data_type: TYPE_{datatype.replace("BYTES", "STRING")} dims: [ {VALUES} ] }}\n' for name, datatype in named)  # fmt: skip

    model.mkdir(parents=True, exist_ok=True)
    (model / "config.pbtxt").write_text(
        f"{head}\nmax_batch_size: {8 if case.batched else 0}\n"
        + tensors("input", ("INPUT0", case.taken), ("INPUT1", case.taken))
        + tensors("output", (outputs[0], case.first), (outputs[1], case.second))
    )


def serving(models: pathlib.Path, backend: str) -> ServerProcess:
    """A server of the models, to be entered."""
    options = [f"--backend-config={backend},host=thread"]
    return ServerProcess(naiad_program(), [models], log=models.parent / "log", options=options)


def inputs_of(case: Case, rows: int) -> Pair:
    """Two arrays whose sums and differences every datatype holds; strings are numbers in digits."""
    shape = (rows, VALUES) if case.batched else (VALUES,)
    second = np.arange(np.prod(shape)).reshape(shape) % 10
    first = second + 11 + rows
    if case.taken == "BYTES":
        return first.astype("S").astype(np.object_), second.astype("S").astype(np.object_)
    dtype = numpy_dtype(case.taken)
    return first.astype(dtype), second.astype(dtype)


def numpy_dtype(datatype: str) -> Any:
    """As the client has it."""
    if datatype == "BF16":
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(object if datatype == "BYTES" else datatype.lower().replace("fp", "float"))


def differences(
    server: ServerProcess,
    case: Case,
    run: Run,
    outputs: tuple[str, str] = ("OUTPUT0", "OUTPUT1"),
    *,
    name: str = "",
) -> list[str]:
    """Where the server answers otherwise than the framework, over both protocols; `name` is the model's if it is not that of the case."""
    found = []
    for module, address in ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc)):
        with module.InferenceServerClient(address) as client:
            for rows in _ROWS if case.batched else (1,):
                given = inputs_of(case, rows)
                got = _asked(module, client, name or case.name, case.taken, given, outputs=outputs)
                for output, mine, theirs in zip(outputs, got, run(*given), strict=True):
                    expected = np.asarray(theirs).reshape(mine.shape)
                    if mine.tolist() != expected.tolist():
                        found.append(f"{case.name} {module.__name__} {output} {rows}: {mine.tolist()}, not {expected.tolist()}")  # fmt: skip
    return found


def _asked(
    module: Any, client: Any, model: str, datatype: str, given: Pair, *, outputs: tuple[str, str]
) -> Pair:
    tensors = []
    for name, array in zip(("INPUT0", "INPUT1"), given, strict=True):
        tensor = module.InferInput(name, list(array.shape), datatype)
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    answer = client.infer(model, tensors)
    return answer.as_numpy(outputs[0]), answer.as_numpy(outputs[1])
