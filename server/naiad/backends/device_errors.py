"""Recognises errors of CUDA by what a framework raised, or by the text of a response: those that a process does not survive, and lack of memory.

After some errors every call of CUDA fails in the process that had one, until another process takes its place. NVIDIA's reference of the
runtime API (CUDA Runtime API, Data types, enum cudaError) says of these: "To continue using CUDA, the process must be terminated and
relaunched". They are listed here, and beside them those after which no call has been seen to work: a destroyed context, hardware faults, the
unknown error. 711 to 713 and 720 lie among their numbers and are ordinary errors of one call.

Text alone may come from a client: a model that repeats its input in an error would let clients restart workers. So text is certain only
in an exception of a framework's own; any other text is a suspicion, which the host confirms by asking the device.

Pure. Limits: those of `backends/instance.py`: the standard library, Python 3.8.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple


class DeviceError(NamedTuple):
    """An error after which the process cannot use its device any more.

    Attributes:
        code: its number.
        name: in the runtime API.
        certain: whether the device itself must have reported it; otherwise the text may come from elsewhere.
    """

    code: int
    name: str
    certain: bool

    def __str__(  # type: ignore[explicit-override]  # `override` is in no standard library of 3.8
        self,
    ) -> str:
        return f"CUDA error {self.code} ({self.name})"


class _Row(NamedTuple):
    """A row of the table: the error's name in the runtime API, in the driver API, and its text (`cudaGetErrorString`)."""

    name: str
    driver: str
    text: str


UNRECOVERABLE = {
    214: _Row("cudaErrorECCUncorrectable", "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"),
    220: _Row("cudaErrorNvlinkUncorrectable", "CUDA_ERROR_NVLINK_UNCORRECTABLE", "uncorrectable NVLink error detected during the execution"),
    226: _Row("cudaErrorContained", "CUDA_ERROR_CONTAINED", "Invalid access of peer GPU memory over nvlink or a hardware error"),
    700: _Row("cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    702: _Row("cudaErrorLaunchTimeout", "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"),
    709: _Row("cudaErrorContextIsDestroyed", "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"),
    710: _Row("cudaErrorAssert", "CUDA_ERROR_ASSERT", "device-side assert triggered"),
    714: _Row("cudaErrorHardwareStackError", "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"),
    715: _Row("cudaErrorIllegalInstruction", "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"),
    716: _Row("cudaErrorMisalignedAddress", "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"),
    717: _Row("cudaErrorInvalidAddressSpace", "CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space"),
    718: _Row("cudaErrorInvalidPc", "CUDA_ERROR_INVALID_PC", "invalid program counter"),
    719: _Row("cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
    721: _Row("cudaErrorTensorMemoryLeak", "CUDA_ERROR_TENSOR_MEMORY_LEAK", "tensor memory not completely freed"),
    999: _Row("cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error"),
}  # fmt: skip
"""By number; the same numbers in both APIs."""

_OUT_OF_MEMORY = 2

_CODED = {
    "AcceleratorError": "error_code",
    "CUDARuntimeError": "status",
    "CUDADriverError": "status",
    "CudaError": "status",
}
"""Classes of exceptions (of torch from 2.8, of CuPy, of `tensors.cudart`) that hold the number, and the attribute that is it."""

_FRAMEWORKS = frozenset(
    (
        "cupy", "cupy_backends", "jax", "jaxlib", "numba", "onnxruntime", "openvino", "pycuda", "tensorflow", "tensorrt", "torch",
    )
)  # fmt: skip
"""Packages whose own exceptions repeat no text of a client's."""

_BY_NAME = {name: code for code, row in UNRECOVERABLE.items() for name in (row.name, row.driver)}
_BY_TEXT = {row.text.lower(): code for code, row in UNRECOVERABLE.items()}
_FOUND = (
    r"\bcuda (?:failure|error):? (?P<code>\d{3})\b"
    rf"|\b(?P<name>{'|'.join(_BY_NAME)})\b"
    rf"|\bcuda (?:driver |runtime )?error: (?P<text>{'|'.join(map(re.escape, _BY_TEXT))})"
)
_NAMES = {name.lower(): code for name, code in _BY_NAME.items()}
_MEMORY = r"\bcuda out of memory|\bcuda (?:failure|error):? 2\b|\bcuda (?:driver )?error: out of memory|\bcudaErrorMemoryAllocation\b"
# Neither is compiled here: `re` does that with the first error, and a worker starts without it.

_LONGEST = 8_192
"""Characters of a text that are looked at: the device's words stand at the beginning."""

_MOST = 64
"""Exceptions of a chain that are looked at."""


def unrecoverable(error: BaseException) -> "DeviceError | None":
    """The error of CUDA that an exception reports, or one that caused it, if the process does not survive it."""
    suspected = None
    for each in _chain(error):
        found = _of(each)
        if found is not None and found.certain:
            return found
        suspected = suspected or found
    return suspected


def in_text(text: str) -> "DeviceError | None":
    """The device error that a text names; never certain."""
    match = re.search(_FOUND, text[:_LONGEST], re.IGNORECASE)
    if match is None:
        return None
    if match["code"]:
        code = int(match["code"])
    elif match["name"]:
        code = _NAMES[match["name"].lower()]
    else:
        code = _BY_TEXT[match["text"].lower()]
    return _error(code, certain=False)


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception, or one that caused it, says that the device has no memory left: the next request may find some."""
    return any(_is_out_of_memory(each) for each in _chain(error))


def _of(error: BaseException) -> "DeviceError | None":
    lost = getattr(error, "lost_device", None)
    if isinstance(lost, DeviceError):
        return lost
    code = _code(error)
    if code is not None:
        return _error(code, certain=True)
    found = in_text(_text(error))
    certain = type(error).__module__.partition(".")[0] in _FRAMEWORKS
    return None if found is None else found._replace(certain=certain)


def _error(code: int, *, certain: bool) -> "DeviceError | None":
    row = UNRECOVERABLE.get(code)
    return None if row is None else DeviceError(code, row.name, certain)


def _is_out_of_memory(error: BaseException) -> bool:
    code = _code(error)
    if code is not None:
        return code == _OUT_OF_MEMORY
    return type(error).__name__ == "OutOfMemoryError" or bool(
        re.search(_MEMORY, _text(error)[:_LONGEST], re.IGNORECASE)
    )


def _code(error: BaseException) -> "int | None":
    """The number that an exception holds; None if it is of no class that holds one."""
    for each in type(error).__mro__:
        attribute = _CODED.get(each.__name__)
        if attribute is not None:
            code: Any = getattr(error, attribute, None)
            if isinstance(code, int):
                return int(code)
    return None


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - `__str__` is the model's code
        return ""


def _chain(error: BaseException) -> "Iterator[BaseException]":
    """An exception, what caused it and the members of groups, each once."""
    waiting = [error]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        members: Any = getattr(each, "exceptions", ())
        if isinstance(members, tuple):
            waiting += [member for member in members if isinstance(member, BaseException)]
        cause = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        if cause is not None:
            waiting.append(cause)
