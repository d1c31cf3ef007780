"""Models with an environment of their own, for both servers: folders and tarballs, sound and broken (row 15.30).

An invalid tarball is not among them: after one, the reference can unpack no other.

The environment is as small as both can use: an `activate` that sets a variable, which the model reports, and for Naiad an interpreter, the
one that runs the tests. The reference has its interpreter in its stub.
"""

import gzip
import sys
import tarfile
from pathlib import Path

from tests.conformance.servers import catalogue
from tests.conformance.servers.catalogue import Model, python_model, tensor

WORD = "packed"


def _model(path: str) -> Model:
    parameters = {"EXECUTION_ENV_PATH": path, "naiad.host": "process"}
    text = "\n".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
        for key, value in parameters.items()
    )
    config = python_model(
        tensor("VARIABLE", "STRING", "[ 1 ]"),
        tensor("REPORT", "STRING", "[ 1 ]"),
        f"{text}\ninstance_group [{{ kind: KIND_CPU count: 1 }}]",
    )
    return Model(config, "environ")


def write(folder: Path) -> list[Path]:
    """Lay out the repository."""
    environment = folder / "environment"
    _environment(environment)
    inside = "$$TRITON_MODEL_DIRECTORY"
    models = {
        "env_folder": _model(str(environment)),
        "env_tarball": _model(f"{inside}/env.tar.gz"),
        "env_none": Model(_model("").config, "environ"),
        "env_missing": _model(f"{inside}/missing.tar.gz"),
        "env_no_activate": _model(str(folder / "empty")),
        "env_outside": _model(f"{inside}/../../environment"),
    }
    (folder / "empty" / "bin").mkdir(parents=True)
    repository = catalogue.write(folder / "models", models)
    _pack(environment, repository / "env_tarball" / "env.tar.gz")
    return [repository]


def _pack(environment: Path, tarball: Path) -> None:
    """The same bytes every time, so that Naiad's cache keeps one."""
    with (
        gzip.GzipFile(tarball, "wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        archive.add(environment, ".", filter=_timeless)


def _timeless(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = 0
    return member


def _environment(folder: Path) -> None:
    for name in ("bin", "lib"):
        (folder / name).mkdir(parents=True)
    (folder / "bin" / "activate").write_text(f"export ENV_WORD={WORD}\nunset ENV_GONE\n")
    python = folder / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
