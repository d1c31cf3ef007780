"""The inputs and outputs of a model in OpenVINO's intermediate representation (model.xml), read without OpenVINO and without its weights.

A tensor may have several names. The file is read element by element, and none is kept.
"""

import collections.abc
import pathlib
from xml.parsers import expat

from naiad.backends.model_files.signature import GraphTensor, Signature
from naiad.backends.model_files.wire_format import ModelFileError
from naiad.core import datatypes
from naiad.core.datatypes import DataType

ELEMENT_TYPES: collections.abc.Mapping[str, DataType] = {
    "BOOL": datatypes.BOOL,
    "U8": datatypes.UINT8,
    "U16": datatypes.UINT16,
    "U32": datatypes.UINT32,
    "U64": datatypes.UINT64,
    "I8": datatypes.INT8,
    "I16": datatypes.INT16,
    "I32": datatypes.INT32,
    "I64": datatypes.INT64,
    "FP16": datatypes.FP16,
    "FP32": datatypes.FP32,
    "FP64": datatypes.FP64,
}
"""The precisions of the file to our datatypes; the others (4 bits, BF16, strings …) cannot be served."""

_LAYER = ["net", "layers", "layer"]
"""Where a layer of the model itself stands; those of loops and branches lie deeper."""


class Tensor(GraphTensor, frozen=True, kw_only=True):
    """An input or output of the model; `names` has all that it has."""

    names: tuple[str, ...]


class Model(Signature, frozen=True, kw_only=True):
    """A model; `weights` are the bytes of its file of weights that it takes values from."""

    weights: int


def read(path: pathlib.Path, *, prefer: collections.abc.Container[str] = ()) -> Model:
    """The inputs and outputs of a model. A tensor with several names gets the one that is among `prefer`, else the first.

    Raises:
        ModelFileError: there is no such file, or it is not a whole model.
    """
    reader = _Reader(prefer)
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.EntityDeclHandler = reader.entity
    try:
        with path.open("rb") as file:
            parser.ParseFile(file)
    except FileNotFoundError:
        raise ModelFileError(f"unable to find '{path}'") from None
    except OSError as error:
        raise ModelFileError(f"unable to read '{path}': {error.strerror}") from error
    except (expat.ExpatError, ValueError) as error:
        raise ModelFileError(
            f"'{path}' is cut off, or is not a model of OpenVINO ({error}): copy it again"
        ) from error
    return Model(
        inputs=tuple(reader.inputs),
        overridable=(),
        outputs=tuple(reader.outputs),
        weights=reader.weights,
    )


class _Reader:
    """Takes the elements of the file: net / layers / layer / (input or output) / port / dim."""

    def __init__(self, prefer: collections.abc.Container[str]) -> None:
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.weights = 0
        self._prefer = prefer
        self._path: list[str] = []
        self._layer: dict[str, str] = {}
        self._port: dict[str, str] | None = None
        self._shape: list[int] = []
        self._dim = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        if not self._path and tag != "net":
            raise ValueError(f"its root is <{tag}>, not <net>")
        self._path.append(tag)
        if self._path == _LAYER:
            self._layer, self._port, self._shape = attributes, None, []
        elif self._path[:-2] == _LAYER and tag == "port":
            self._port = attributes
        elif tag == "data" and "offset" in attributes and "size" in attributes:  # of a constant
            self.weights = max(self.weights, int(attributes["offset"]) + int(attributes["size"]))
        self._dim = ""

    def text(self, text: str) -> None:
        """A piece of what an element holds."""
        self._dim += text

    def end(self, tag: str) -> None:
        """An element ends."""
        if self._path[:-3] == _LAYER and tag == "dim":
            self._shape.append(int(self._dim))
        elif self._path == _LAYER:
            kind = self._layer.get("type")
            if kind == "Parameter":
                self.inputs.append(self._tensor((self._port or {}).get("names")))
            elif kind == "Result":
                self.outputs.append(self._tensor(self._layer.get("output_names")))
        self._path.pop()

    def entity(self, *_declared: object) -> None:
        """A file that defines entities of its own may grow without end, and no tool writes one."""
        raise ValueError("it defines entities")

    def _tensor(self, names: str | None) -> Tensor:
        if self._port is None:
            raise ValueError(f"layer '{self._layer.get('name')}' has no port")
        known = tuple(_split(names)) if names else (self._layer.get("name", ""),)
        precision = self._port.get("precision", "")
        datatype = ELEMENT_TYPES.get(precision)
        return Tensor(
            name=next((name for name in known if name in self._prefer), known[0]),
            names=known,
            kind="tensor",
            datatype=datatype,
            type_name=datatype.config_name if datatype else precision,
            shape=tuple(self._shape),
            symbols=("",) * len(self._shape),
        )


def _split(names: str) -> collections.abc.Iterator[str]:
    r"""The names in a list that is separated by commas; a comma in a name is written `\,`."""
    name = ""
    escaped = False
    for letter in names:
        if escaped or letter not in ",\\":
            name += letter
            escaped = False
        elif letter == "\\":
            escaped = True
        else:
            yield name
            name = ""
    yield name
