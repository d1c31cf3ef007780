"""A NetDef of Caffe2 as it is read: operators with their arguments, and the blobs that go in and out."""

import collections.abc
import pathlib

import msgspec

from naiad.backends.model_files.wire_format import ModelFileError

INIT_PREFIX = "init_"
"""The init net is the file of this prefix and the model file's name, as in Triton: `init_model.netdef` beside `model.netdef`."""


class NetDefError(ModelFileError):
    """A file is not a whole NetDef, or has what cannot be translated; the message says where and what."""


class Argument(msgspec.Struct, kw_only=True):
    """A value of an operator: a single one of some type, or a list.

    Attributes:
        floats: of float32, as they lie in the file: little-endian bytes.
    """

    f: float | None = None
    i: int | None = None
    s: bytes | None = None
    floats: bytes = b""
    ints: list[int] = msgspec.field(default_factory=list)
    strings: list[bytes] = msgspec.field(default_factory=list)


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """An operator of a net.

    Attributes:
        where: the file's name and the operator's index in it, for messages.
    """

    where: str
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    arguments: collections.abc.Mapping[str, Argument]

    @property
    def described(self) -> str:
        """Which operator it is, for messages: file, index, type and outputs."""
        outputs = ", ".join(f"'{name}'" for name in self.outputs) or "no output"
        return f"{self.where} ({self.type} -> {outputs})"


class Net(msgspec.Struct, frozen=True, kw_only=True):
    """A net: its operators in the order in which they run.

    Attributes:
        known: whether the file has a field of a net beside them.
    """

    path: pathlib.Path
    operators: tuple[Operator, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    known: bool = True


def init_path(path: pathlib.Path) -> pathlib.Path:
    """The init net's file of a model file."""
    return path.with_name(INIT_PREFIX + path.name)
