"""Backends that are libraries in C, declared: what configs and options know of them. Imports no numpy and loads no library."""

import functools
import pathlib

from naiad.backends.plugin import BackendPlugin, deferred

_make = deferred("naiad.backends.c.backend:make")
_preflight = deferred("naiad.backends.c.preflight:preflight")
_completes = deferred("naiad.backends.c.preflight:completes")


def library_name(backend: str) -> str:
    """The file name of the library of a backend."""
    return f"libnaiad_{backend}.so"


def triton_library_name(backend: str) -> str:
    """The file name of a library for Triton's own interface."""
    return f"libtriton_{backend}.so"


def c_library(
    name: str, backend_dir: pathlib.Path | None, *, for_triton: bool = False
) -> BackendPlugin:
    """A backend whose library `libnaiad_<name>.so`, or one for Triton, is in a model's folder or in `backend_dir`, its folder in `--backend-directory` (row 11.52)."""
    return BackendPlugin(
        name=name,
        make=functools.partial(_make, name=name, backend_dir=backend_dir),
        default_host="process",
        plans_workers=True,
        shares_processes=True,
        runtime=triton_library_name(name) if for_triton else library_name(name),
        missing_file="",
        completes_itself=functools.partial(_completes, backend=name, backend_dir=backend_dir),
        preflight=functools.partial(_preflight, backend_dir=backend_dir),
    )
