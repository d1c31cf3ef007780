"""What a PyTorch model file is, from the names in its archive alone: torch is not imported, and nothing of the file is unpickled.

All formats are zip archives. A TorchScript archive has its code as text; a checkpoint of `torch.save` is a pickle, which may run any code when
it is opened and holds no model, only weights or an object of a class that is not there.
"""

import enum
import pathlib
import zipfile
import zlib

from naiad.backends.pytorch import storages
from naiad.errors import InferenceError, internal

_PIECE = 1 << 20
"""Bytes that are read at once."""

_EXPORT = "torch.export.save(torch.export.export(model, example_inputs), 'model.pt2'), with platform: \"torch_aoti\""
_SCRIPT = "torch.jit.script(model).save('model.pt')"


class Kind(enum.Enum):
    """The formats, with the words of messages."""

    TORCHSCRIPT = "a TorchScript archive"
    EXPORTED = "a program of torch.export"
    COMPILED = "a package of AOTInductor"
    CHECKPOINT = "a checkpoint of torch.save"
    ANOTHER_ARCHIVE = "a zip archive of another kind"
    NO_ARCHIVE = "not an archive"


def kind_of(path: pathlib.Path) -> Kind:
    """The format of a file.

    Raises:
        OSError: it cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return Kind.NO_ARCHIVE
    inside = {name.partition("/")[2] for name in names}
    if any(name.startswith("data/aotinductor/") for name in inside | set(names)):
        return Kind.COMPILED
    if "serialized_exported_program.json" in names or any(
        name.startswith("models/") and name.endswith(".json") for name in inside | set(names)
    ):
        return Kind.EXPORTED
    if "constants.pkl" in inside:
        return Kind.TORCHSCRIPT
    return Kind.CHECKPOINT if "data.pkl" in inside else Kind.ANOTHER_ARCHIVE


def check(path: pathlib.Path, kind: Kind, *, model: str, expects_program: bool) -> None:
    """Check that a model file of a kind (`kind_of`) is one that its platform runs: torch_aoti if `expects_program`, else TorchScript's.

    Raises:
        InferenceError: INTERNAL: it is not, or lacks bytes of a tensor; says how to make one.
    """
    programs = (Kind.EXPORTED, Kind.COMPILED)
    if kind in programs and expects_program and (fault := _damaged_text(path)):
        raise internal(
            f"failed to load model '{model}': '{path.name}' is damaged: {fault}: copy it again, or save the model again"
        )
    if kind is Kind.TORCHSCRIPT and not expects_program:
        if fault := storages.fault(path):
            raise internal(
                f"failed to load model '{model}': '{path.name}' is damaged: {fault}: copy it again, or save the model again"
            )
        return
    if kind in programs and expects_program:
        return
    raise _wrong(path, kind, model=model, expects_program=expects_program)


def _damaged_text(path: pathlib.Path) -> str:
    """What is wrong with the first of the files in an archive that describe the program: torch's own error would be that of a text which cannot be decoded."""
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".json"):
                    with archive.open(name) as file:
                        while file.read(_PIECE):
                            pass
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        return str(error)
    except storages.UNREADABLE:
        return ""
    return ""


def _wrong(path: pathlib.Path, kind: Kind, *, model: str, expects_program: bool) -> InferenceError:
    expected = "a .pt2 archive (torch_aoti)" if expects_program else Kind.TORCHSCRIPT.value
    ways = {
        Kind.TORCHSCRIPT: 'write platform: "pytorch_libtorch"',
        Kind.EXPORTED: 'write platform: "torch_aoti"',
        Kind.COMPILED: 'write platform: "torch_aoti"',
        Kind.CHECKPOINT: "it holds weights and no program, and opening it may run any code: save the model by "
        f'{_SCRIPT}, or by {_EXPORT}; or put its class into model.py beside it and write runtime: "model.py"',
        Kind.ANOTHER_ARCHIVE: f"save the model by {_SCRIPT}, or by {_EXPORT}",
        Kind.NO_ARCHIVE: "it is cut off, or of another format: copy it again, or save the model by "
        f"{_SCRIPT}, or by {_EXPORT}",
    }
    return internal(
        f"failed to load model '{model}': '{path.name}' is {kind.value}, but the model's platform needs {expected}: {ways[kind]}"
    )
