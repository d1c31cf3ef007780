"""Which backend a model is for: platforms, backends and model files that belong together (rows 11.3-11.6).

One table, in the order in which Triton asks: the first kind of model that the config or the version folder speaks for wins.
Pure: what lies in the version folder is an argument.
"""

import collections.abc
import enum
from typing import Any

import msgspec

ENSEMBLE = "ensemble"
PYTHON = "python"
ONNXRUNTIME = "onnxruntime"

Listing = collections.abc.Mapping[str, bool]
"""What lies in a version folder: name to whether it is a folder."""


class _Shape(enum.Enum):
    """What a model file has to be to speak for its backend."""

    FILE = "file"
    FOLDER = "folder"
    EITHER = "either"


class ModelKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of model.

    Attributes:
        backend: who runs it.
        filename: the default name of the model file in a version folder.
        platform: the platform filled in when the config gives none; "" for none.
        shape: whether the file may be a folder.
        aliases: other platform names that mean this kind.
    """

    backend: str
    filename: str
    platform: str = ""
    shape: _Shape = _Shape.FILE
    aliases: tuple[str, ...] = ()


KINDS = (
    ModelKind(
        backend="tensorflow",
        filename="model.savedmodel",
        platform="tensorflow_savedmodel",
        shape=_Shape.FOLDER,
    ),
    ModelKind(backend="tensorflow", filename="model.graphdef", platform="tensorflow_graphdef"),
    ModelKind(backend="tensorrt", filename="model.plan", platform="tensorrt_plan"),
    ModelKind(
        backend=ONNXRUNTIME,
        filename="model.onnx",
        platform="onnxruntime_onnx",
        shape=_Shape.EITHER,
    ),
    ModelKind(backend="openvino", filename="model.xml", shape=_Shape.EITHER),
    ModelKind(
        backend="pytorch",
        filename="model.pt",
        platform="pytorch_libtorch",
        aliases=("libtorch",),
    ),
    ModelKind(backend="pytorch", filename="model.pt2", platform="torch_aoti"),
    ModelKind(backend=PYTHON, filename="model.py", shape=_Shape.EITHER),
)

PLATFORMS = tuple(kind.platform for kind in KINDS if kind.platform)
BACKENDS = tuple(dict.fromkeys(kind.backend for kind in KINDS))


def fits(platform: str, backend: str) -> bool:
    """Whether a platform may stand beside a backend (row 11.3); a backend without a platform of its own takes any."""
    platforms = {kind.platform for kind in KINDS if kind.backend == backend}
    platforms.discard("")
    return not platforms or platform in platforms


def autofill(message: Any, listing: Listing) -> None:
    """Fill `backend`, `platform` and `default_model_filename` where they follow from what is given or lies there.

    Args:
        message: the ModelConfig, changed in place; its name must be set.
        listing: what lies in the version folder.
    """
    kind = _kind(message, listing)
    if kind is not None:
        message.backend = message.backend or kind.backend
        message.platform = message.platform or kind.platform
        message.default_model_filename = message.default_model_filename or kind.filename
    elif not _says_something(message) and "." in message.name:
        message.backend = message.name.partition(".")[2]
        message.default_model_filename = f"model.{message.backend}"


def _says_something(message: Any) -> bool:
    return bool(message.backend or message.platform or message.default_model_filename)


def _kind(message: Any, listing: Listing) -> ModelKind | None:
    """The kind of model that the config speaks of, or else the one whose file lies there."""
    kinds = [kind for kind in KINDS if message.backend in {"", kind.backend}]
    if message.platform:
        found = [kind for kind in kinds if message.platform in {kind.platform, *kind.aliases}]
    elif message.default_model_filename:
        found = [kind for kind in kinds if message.default_model_filename == kind.filename]
    else:
        found = [kind for kind in kinds if _lies_there(kind, listing)]
    if not found and message.backend:
        found = kinds
    return found[0] if found else None


def _lies_there(kind: ModelKind, listing: Listing) -> bool:
    if kind.filename not in listing:
        return False
    return kind.shape is _Shape.EITHER or listing[kind.filename] is (kind.shape is _Shape.FOLDER)
