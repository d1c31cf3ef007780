"""The command lines that make environments, and the variables that programs in them see. Pure."""

import collections.abc
import os
import pathlib

Variables = collections.abc.Mapping[str, str | None]
"""Changes to the server's environment variables; None takes one out."""

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

_SHELLS_OWN = frozenset(("_", "SHLVL", "PWD", "OLDPWD", "PS1"))

_PIPS_PLACES = (
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_PYTHON",
)
"""Settings that would install to another place."""


def make_venv(python: str, folder: pathlib.Path, *, with_pip: bool) -> list[str]:
    """Makes an empty virtual environment.

    Args:
        python: the interpreter.
        folder: where.
        with_pip: whether it gets a pip of its own.
    """
    return [python, "-m", "venv", *([] if with_pip else ["--without-pip"]), str(folder)]


def install(
    python: str,
    folder: pathlib.Path,
    *,
    file: pathlib.Path,
    wheels: pathlib.Path | None,
    own_pip: bool,
) -> list[str]:
    """Installs what a requirements file lists; to be run in the file's folder, where its relative paths begin.

    Args:
        python: the server's interpreter.
        folder: the environment.
        file: the requirements file.
        wheels: install from this folder and nowhere else.
        own_pip: whether the environment's own pip is taken, rather than the server's.
    """
    inside = str(folder / "bin" / "python")
    pip = [inside, "-m", "pip"] if own_pip else [python, "-m", "pip", "--python", inside]
    where = [] if wheels is None else ["--no-index", "--find-links", str(wheels.absolute())]
    return [
        *pip, "--no-input", "--disable-pip-version-check", "--no-color", "install", "--progress-bar", "off",
        *where, "--requirement", str(file.absolute()),
    ]  # fmt: skip


def installer_variables(*, only_wheels: bool) -> Variables:
    """For the installer: nothing of the server's packages is seen, and nothing goes to another place than the environment.

    Args:
        only_wheels: a folder of wheels is all that counts, so that PIP_FIND_LINKS does not.
    """
    return {
        "PYTHONPATH": None, "PYTHONHOME": None, "VIRTUAL_ENV": None, "PYTHONNOUSERSITE": "1", "PYTHONUNBUFFERED": "1",
        **dict.fromkeys((*_PIPS_PLACES, *(("PIP_FIND_LINKS",) if only_wheels else ())), None),
    }  # fmt: skip


def built_variables(folder: pathlib.Path, path: str) -> Variables:
    """For a worker in a virtual environment that was built here.

    Args:
        folder: the environment.
        path: the server's PATH.
    """
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
    """For a worker in an environment that somebody packed: what its `bin/activate` changes (row 15.30).

    Args:
        folder: the environment, here.
        before: the server's variables.
        activated: those variables after `bin/activate`. Where it names the place at which the environment was made, the place where
            it is now counts.
    """
    names = (before.keys() | activated.keys()) - _SHELLS_OWN
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
    """For a worker in another interpreter that takes its packages from an environment's folder."""
    behind = f"{os.pathsep}{python_path}" if python_path else ""
    return {**variables, "PYTHONPATH": f"{packages}{behind}", "VIRTUAL_ENV": None}


def environ(base: collections.abc.Mapping[str, str], variables: Variables) -> dict[str, str]:
    """A program's variables."""
    merged = {**base, **variables}
    return {name: value for name, value in merged.items() if value is not None}


def activation(shell: str, script: pathlib.Path) -> list[str]:
    """Prints the variables after a script was sourced, each ended by a NUL."""
    return [shell, "-c", '. "$1" >&2 && exec env -0', shell, str(script)]


def parse_environ(output: bytes) -> dict[str, str]:
    """What `env -0` printed."""
    pairs = (each.partition("=") for each in os.fsdecode(output).split("\0") if each)
    return {name: value for name, _, value in pairs}


def errors_of(output: collections.abc.Sequence[str]) -> str:
    """What an installer said of its failure: from its first line that begins with "error" to the end, else the end."""
    most = 30
    lines = [line.rstrip() for line in output if line.strip()]
    first = next(
        (n for n, line in enumerate(lines) if line.lstrip().lower().startswith("error")), None
    )
    told = lines[first:] if first is not None else lines
    return "\n".join(told[:1] + told[1:][-most:])


def _first(folder: pathlib.Path, path: str) -> str:
    return os.pathsep.join(
        [str(folder), *(each for each in path.split(os.pathsep) if each and each != str(folder))]
    )
