"""Which library serves a model, and what is wrong with it, as far as the file and the config say: the rules of a load and of `naiad check`."""

import collections.abc
import pathlib

from naiad.backends.c import adapter
from naiad.backends.c.plugin import library_name, triton_library_name
from naiad.config.model_config import ModelConfig
from naiad.core import elf
from naiad.core.file_kind import is_file
from naiad.errors import InferenceError, invalid

ABI = 1
"""`NAIAD_BACKEND_ABI` of the header in this folder."""

_ABI_SYMBOL = "naiad_backend_abi"
_FUNCTIONS = (
    "naiad_model_load", "naiad_model_unload", "naiad_instance_create", "naiad_instance_destroy", "naiad_execute",
)  # fmt: skip

_EXECUTE = "TRITONBACKEND_ModelInstanceExecute"
_HEADER = "naiad_backend.h (docs/c-backends.md)"


def folders(
    model_dir: pathlib.Path, version: int, backend_dir: pathlib.Path | None
) -> list[pathlib.Path]:
    """Where a library is looked for, in this order (row 11.52)."""
    found = [model_dir / str(version), model_dir]
    return found if backend_dir is None else [*found, backend_dir]


def find(backend: str, places: collections.abc.Iterable[pathlib.Path], model: str) -> pathlib.Path:
    """The library of a model version.

    Raises:
        InferenceError: INVALID_ARG: there is none in these folders.
    """
    places = list(places)
    names = library_name(backend), triton_library_name(backend)
    for name in names:
        for folder in places:
            if is_file(folder / name):
                return folder / name
    looked = ", ".join(map(str, places))
    raise invalid(
        f"unable to load model '{model}': unable to find backend library for backend '{backend}': neither {names[0]} nor {names[1]} is in {looked}"
    )


def is_for_triton(path: pathlib.Path) -> bool:
    """Whether a library was built for Triton's own interface."""
    return path.name.startswith("libtriton_")


def check_library(path: pathlib.Path, model: str) -> None:
    """Hold a library's file against the header, or against the adapter for Triton's interface; it is not loaded.

    Raises:
        InferenceError: INVALID_ARG: it is not a library, of another version of the header, or lacks a function.
    """

    def refused(why: str) -> InferenceError:
        return invalid(f"unable to load model '{model}': '{path}' cannot be its backend: {why}")

    try:
        found = elf.read(path)
        if is_for_triton(path):
            _check_for_triton(found, refused)
            return
        abi = elf.number(path, found, _ABI_SYMBOL)
    except OSError as error:
        raise refused(f"it cannot be read: {error.strerror}") from error
    except elf.NoLibraryError as error:
        raise refused(str(error)) from error
    if _ABI_SYMBOL not in found.defined:
        raise refused(
            f"it does not define {_ABI_SYMBOL}: write NAIAD_BACKEND once in its source, after including {_HEADER}"
        )
    if abi != ABI:
        raise refused(
            f"it was built with version {abi} of naiad_backend.h, and this server has version {ABI}: build it with the header of this server "
            "(python -m naiad.backends.c prints its folder)"
        )
    missing = [name for name in _FUNCTIONS if name not in found.defined]
    if missing:
        raise refused(
            f"it does not define {', '.join(missing)}: a backend defines them all, with C linkage, as in {_HEADER}"
        )


def _check_for_triton(
    found: elf.Symbols, refused: collections.abc.Callable[[str], InferenceError]
) -> None:
    if _EXECUTE not in found.defined:
        raise refused(f"it does not define {_EXECUTE}, which every backend for Triton does")
    unknown = sorted(
        name
        for name in found.undefined
        if name.startswith(("TRITONBACKEND_", "TRITONSERVER_")) and name not in adapter.functions()
    )
    if unknown:
        raise refused(
            f"it was built for Triton, and calls functions that this server does not have ({', '.join(unknown)}): implement {_HEADER} instead, "
            "or write the backend in Python (docs/backends.md)"
        )


def check_config(config: ModelConfig, host: str) -> None:
    """Refuse what such a backend cannot do.

    Raises:
        InferenceError: INVALID_ARG: it shall run in a thread.
    """
    if host == "thread":
        raise invalid(
            f"unable to load model '{config.name}': its backend '{config.backend}' is a C library, which runs in a worker process only, so that a "
            "crash of it ends that process and not the server: take out host=thread (parameter naiad.host, or --backend-config)"
        )


def may_complete(path: pathlib.Path) -> bool:
    """Whether a library may complete a config: it has, or calls, the function for that.

    Raises:
        OSError: it cannot be read.
        NoLibraryError: it is not a library.
    """
    found = elf.read(path)
    if is_for_triton(path):
        return "TRITONBACKEND_ModelSetConfig" in found.undefined
    return "naiad_model_complete" in found.defined
