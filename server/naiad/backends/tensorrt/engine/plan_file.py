"""The first bytes of a plan: whether a file is one, and which TensorRT built it. Read without TensorRT."""

import pathlib

from naiad.errors import InferenceError, invalid

_TAG = b"ftrt"
_LAYOUT = slice(4, 8)
_VERSION = slice(24, 28)
HEADER = 28
"""Bytes that are read."""

Version = tuple[int, ...]


def version_of(head: bytes) -> Version | None:
    """The version of TensorRT that built a plan, four numbers; None where its beginning does not say it (8.5 and older).

    Raises:
        ValueError: it is not a plan, or it is cut off.
    """
    if not head:
        raise ValueError("it is empty")
    if not head.startswith(_TAG):
        if head.startswith(b"ptrt"):  # TensorRT 8.5 and older
            return None
        raise ValueError(f"it begins with {head[:4]!r} where a plan has {_TAG!r}")
    if len(head) < HEADER:
        raise ValueError("it is cut off")
    if any(head[_LAYOUT]):
        return None  # a newer layout
    return tuple(head[_VERSION])


def read_version(path: pathlib.Path, model: str) -> Version | None:
    """The version of a plan.

    Raises:
        InferenceError: INVALID_ARG: the file is not a plan.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(HEADER)
    try:
        return version_of(head)
    except ValueError as error:
        raise not_a_plan(path, model, str(error)) from None


def not_a_plan(path: pathlib.Path, model: str, fault: str) -> InferenceError:
    """The error of a file that is not a plan."""
    return invalid(
        f"unable to load model '{model}': '{path}' is not a TensorRT plan: {fault}. Build it again (trtexec --onnx=model.onnx "
        f'--saveEngine={path.name}), or copy it again; an ONNX file is served by backend: "onnxruntime"'
    )


def text(version: Version) -> str:
    """A version as people write it."""
    return ".".join(map(str, version))


def other_release(version: Version | None, installed: str) -> str:
    """What to say of a plan that another release than the installed one has built; "" for the same major and minor version, or an unknown one."""
    if version is None or text(version[:2]) == ".".join(installed.split(".")[:2]):
        return ""
    built = text(version)
    return (
        f"the plan was built by TensorRT {built}, and TensorRT {installed} is installed: a plan runs only on the release that built it: "
        f"pip install 'tensorrt=={built}', or build the plan again with TensorRT {installed}, or build it version-compatible (trtexec "
        "--versionCompatible) and start the server with --backend-config=tensorrt,version-compatible=true"
    )
