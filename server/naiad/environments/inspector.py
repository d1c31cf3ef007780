"""Inspects a packed environment: its variables, its interpreter, its packages, and whether a worker can start in it (row 15.30)."""

import collections.abc
import dataclasses
import json
import logging
import os
import pathlib
import shutil
import sys

from naiad.environments import commands
from naiad.environments.commands import Variables
from naiad.environments.programs import FailedError, Programs
from naiad.environments.spec import cannot_load
from naiad.errors import InferenceError

_log = logging.getLogger("naiad.environments")

_ACTIVATE = "bin/activate"
_NO_INTERPRETER = "it has no bin/python"

INTERPRETERS = ("bin/python", "bin/python3")
"""An environment's interpreter, in its folder."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An environment that is ready: its interpreter, and its differences from the server's environment variables."""

    executable: str
    variables: Variables


class EnvironmentInspector:
    """Inspects one environment, for one model; `source` is what the config names: the folder, or its tarball."""

    def __init__(
        self, model: str, programs: Programs, *, folder: pathlib.Path, source: pathlib.Path
    ) -> None:
        self._model = model
        self._programs = programs
        self._folder = folder
        self._source = source

    def inspect(self) -> Environment:
        """Find out how to start a worker in the environment.

        The worker runs in the environment's own interpreter. If that is not on this machine (a virtual environment holds only a link to it),
        it runs in the server's interpreter with the environment's packages, if these are for the same version of Python.

        Raises:
            InferenceError: a worker cannot start in it.
            OSError: it cannot be read.
        """
        variables = self._activated()
        python = interpreter_in(self._folder)
        if python is None:
            why = _why_no_interpreter(self._folder)
        else:
            environment = Environment(executable=str(python), variables=variables)
            why = self._probe(environment)
            if not why:
                return environment
        return self._with_server_interpreter(variables, why)

    def _activated(self) -> Variables:
        script = self._folder / _ACTIVATE
        if not script.is_file():
            raise _without_activate(self._model, self._folder, self._source)
        shell = shutil.which("bash") or "sh"
        try:
            output = self._programs.run(
                commands.activation(shell, script), environ=os.environ, folder=self._folder
            )
        except FailedError as error:
            raise cannot_load(
                self._model,
                f"{script} failed when it was sourced: {error}; its output is in the log",
            ) from error
        return commands.packed_variables(self._folder, os.environ, commands.parse_environ(output))

    def _with_server_interpreter(self, variables: Variables, why: str) -> Environment:
        packages = packages_in(self._folder)
        if not packages.is_dir():
            raise _without_packages(self._model, self._source, why)
        environment = Environment(
            # Without the packages of the server's virtual environment.
            executable=str(getattr(sys, "_base_executable", "") or sys.executable),
            variables=commands.with_packages(variables, packages, os.environ.get("PYTHONPATH", "")),
        )
        if error := self._probe(environment):
            raise cannot_load(
                self._model,
                f"{self._source} cannot be used: {why}; nor with the server's Python: {error}",
            )
        _log.warning(
            "model '%s': %s: %s; its worker runs in %s with the packages of that environment",
            self._model, self._source, why, environment.executable,
        )  # fmt: skip
        return environment

    def _probe(self, environment: Environment) -> str:
        """Start the interpreter and check that it has what every worker needs; returns why it does not start, "" if it does."""
        try:
            output = self._programs.run(
                [environment.executable, "-B", "-c", commands.PROBE],
                environ=commands.environ(os.environ, environment.variables),
                folder=self._folder,
            )
        except (FailedError, OSError) as error:
            return f"{environment.executable} does not start ({error})"
        version, numpy, why = json.loads(output.splitlines()[-1])
        shown = ".".join(map(str, version))
        oldest = commands.WORKER_PYTHON
        if tuple(version) < oldest:
            raise cannot_load(
                self._model,
                f"{self._source} holds Python {shown}; a worker needs {oldest[0]}.{oldest[1]} or newer",
            )
        if not numpy:
            raise cannot_load(
                self._model,
                f"{self._source} (Python {shown}) has no working numpy, which every model needs ({why}): install numpy there and pack "
                "it again",
            )
        return ""


def check_folder(model: str, *, folder: pathlib.Path, source: pathlib.Path) -> None:
    """Check what can be seen of a packed environment's folder, without starting anything in it.

    Raises:
        InferenceError: as `EnvironmentInspector.inspect`.
    """
    if not (folder / _ACTIVATE).is_file():
        raise _without_activate(model, folder, source)
    if interpreter_in(folder) is None and not packages_in(folder).is_dir():
        raise _without_packages(model, source, _why_no_interpreter(folder))


def check_members(
    model: str,
    members: collections.abc.Collection[str],
    *,
    folder: pathlib.Path,
    source: pathlib.Path,
) -> None:
    """The same for a tarball that is not unpacked, by the names of its members; `folder`: where it will be.

    Raises:
        InferenceError: as `EnvironmentInspector.inspect`.
    """
    if _ACTIVATE not in members:
        raise _without_activate(model, folder, source)
    packages = str(packages_in(folder).relative_to(folder))
    if not any(name in members for name in INTERPRETERS) and not any(
        name.startswith(packages) for name in members
    ):
        raise _without_packages(model, source, _NO_INTERPRETER)


def _why_no_interpreter(folder: pathlib.Path) -> str:
    for name in INTERPRETERS:
        if (folder / name).is_symlink():
            link = (folder / name).readlink()
            return f"bin/python is a link to {link}, which is not on this machine"
    return _NO_INTERPRETER


def _without_activate(model: str, folder: pathlib.Path, source: pathlib.Path) -> InferenceError:
    return cannot_load(
        model,
        f"Path {folder / _ACTIVATE} does not exist. The Python environment should contain an 'activate' script. ({source} must be an "
        "environment itself, with bin/ at its top, as conda-pack makes it)",
    )


def _without_packages(model: str, source: pathlib.Path, why: str) -> InferenceError:
    major, minor = sys.version_info[:2]
    return cannot_load(
        model,
        f"{source} cannot be used: {why}, and it has no packages for the server's Python {major}.{minor} either: pack an "
        "environment together with its interpreter, as conda-pack does",
    )


def interpreter_in(folder: pathlib.Path) -> pathlib.Path | None:
    """An environment's interpreter; None if it has none, or a broken link."""
    return next((folder / name for name in INTERPRETERS if (folder / name).is_file()), None)


def packages_in(folder: pathlib.Path) -> pathlib.Path:
    """The folder of an environment's packages for this server's version of Python."""
    major, minor = sys.version_info[:2]
    return folder / "lib" / f"python{major}.{minor}" / "site-packages"
