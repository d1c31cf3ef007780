"""The command lines that make environments, and the variables that programs in them see. Pure."""

import collections.abc
import os
import pathlib

Variables = collections.abc.Mapping[str, str | None]
"""Changes to the server's environment variables; None removes one."""

WORKER_PYTHON = (3, 8)
"""The oldest interpreter that a worker runs in."""

PROBE = (
    "import json, sys\n"
    "try:\n"
    "    import numpy\n"
    "    version, error = numpy.__version__, ''\n"
    "except Exception as failure:\n"
    "    version, error = '', '%s: %s' % (type(failure).__name__, failure)\n"
    "print(json.dumps([list(sys.version_info[:3]), version, error]))\n"
)
"""Run in an environment: prints its Python version, its numpy's, and why numpy cannot be imported."""

_SHELL_VARIABLES = frozenset(("_", "SHLVL", "PWD", "OLDPWD", "PS1"))

_PIP_TARGETS = (
    "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV", "PIP_PYTHON",
)  # fmt: skip
"""Settings that would install into another folder."""


def make_venv(python: str, folder: pathlib.Path, *, with_pip: bool) -> list[str]:
    """The command that creates an empty virtual environment, with a pip of its own or without."""
    return [python, "-m", "venv", *([] if with_pip else ["--without-pip"]), str(folder)]


def install(
    python: str,
    folder: pathlib.Path,
    *,
    file: pathlib.Path,
    wheels: pathlib.Path | None,
    own_pip: bool,
) -> list[str]:
    """The command that installs what a requirements file lists; to be run in the file's folder, to which its paths are relative.

    With `wheels`, it installs from this folder and nowhere else; with `own_pip`, it uses the environment's own pip instead of the server's.
    """
    inside = str(folder / "bin" / "python")
    pip = [inside, "-m", "pip"] if own_pip else [python, "-m", "pip", "--python", inside]
    where = [] if wheels is None else ["--no-index", "--find-links", str(wheels.absolute())]
    return [
        *pip, "--no-input", "--disable-pip-version-check", "--no-color", "install", "--progress-bar", "off",
        *where, "--requirement", str(file.absolute()),
    ]  # fmt: skip


def installer_variables(*, only_wheels: bool) -> Variables:
    """Variables for the installer: it sees no package of the server, and installs into the environment only.

    With `only_wheels`, PIP_FIND_LINKS has no effect either.
    """
    return {
        "PYTHONPATH": None, "PYTHONHOME": None, "VIRTUAL_ENV": None, "PYTHONNOUSERSITE": "1", "PYTHONUNBUFFERED": "1",
        **dict.fromkeys((*_PIP_TARGETS, *(("PIP_FIND_LINKS",) if only_wheels else ())), None),
    }  # fmt: skip


def built_variables(folder: pathlib.Path, path: str) -> Variables:
    """Variables for a worker in a virtual environment that was built here; `path` is the server's PATH."""
    return {
        "VIRTUAL_ENV": str(folder),
        "PATH": _first(folder / "bin", path),
        "PYTHONPATH": None,
        "PYTHONHOME": None,
        "PYTHONNOUSERSITE": "1",
    }


def packed_variables(
    folder: pathlib.Path,
    before: collections.abc.Mapping[str, str],
    activated: collections.abc.Mapping[str, str],
) -> Variables:
    """Variables for a worker in a packed environment: what its `bin/activate` changes in those of the server (row 15.30).

    The path at which the environment was made is replaced by its path here.
    """
    names = (before.keys() | activated.keys()) - _SHELL_VARIABLES
    changed: dict[str, str | None] = {
        name: activated.get(name) for name in names if activated.get(name) != before.get(name)
    }
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if changed.get(name):
            changed[name] = str(folder)
    changed["PATH"] = _first(folder / "bin", changed.get("PATH") or before.get("PATH", ""))
    changed["PYTHONHOME"] = None
    changed["PYTHONNOUSERSITE"] = "1"
    return changed


def with_packages(
    variables: Variables, packages: pathlib.Path, python_path: str
) -> dict[str, str | None]:
    """Variables for a worker in another interpreter that imports packages from an environment's folder."""
    behind = f"{os.pathsep}{python_path}" if python_path else ""
    return {**variables, "PYTHONPATH": f"{packages}{behind}", "VIRTUAL_ENV": None}


def environ(base: collections.abc.Mapping[str, str], variables: Variables) -> dict[str, str]:
    """All variables of a program: the base with the changes."""
    merged = {**base, **variables}
    return {name: value for name, value in merged.items() if value is not None}


def activation(shell: str, script: pathlib.Path) -> list[str]:
    """The command that sources a script and prints the variables, each followed by a NUL."""
    return [shell, "-c", '. "$1" >&2 && exec env -0', shell, str(script)]


def parse_environ(output: bytes) -> dict[str, str]:
    """The variables that `env -0` printed."""
    pairs = (pair.partition("=") for pair in os.fsdecode(output).split("\0") if pair)
    return {name: value for name, _, value in pairs}


def errors_of(output: collections.abc.Sequence[str]) -> str:
    """The part of an installer's output that explains its failure: from the first line that begins with "error" to the end, else the end."""
    most = 30
    lines = [line.rstrip() for line in output if line.strip()]
    first = next(
        (n for n, line in enumerate(lines) if line.lstrip().lower().startswith("error")), None
    )
    shown = lines[first:] if first is not None else lines
    return "\n".join(shown[:1] + shown[1:][-most:])


def _first(folder: pathlib.Path, path: str) -> str:
    return os.pathsep.join(
        [str(folder), *(part for part in path.split(os.pathsep) if part and part != str(folder))]
    )
