"""Inspects a packed environment: its variables, its interpreter, and whether a worker can start in it (row 15.30)."""

import dataclasses
import json
import logging
import os
import pathlib
import shutil
import sys

from naiad.environments import commands
from naiad.environments.commands import Variables
from naiad.environments.paths import broken_link, interpreter_in, own_interpreter, packages_in
from naiad.environments.programs import FailedError, Programs
from naiad.environments.spec import cannot_load

_log = logging.getLogger("naiad.environments")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An environment that is ready.

    Attributes:
        executable: its interpreter.
        variables: the differences from the server's environment variables.
    """

    executable: str
    variables: Variables


class _UnusableError(Exception):
    """An interpreter cannot be used; the message says why."""


class EnvironmentInspector:
    """Inspects one environment, for one model.

    Args:
        model: the model's name, for the log and errors.
        programs: runs programs.
        folder: the environment.
        source: what the config names: the folder, or its tarball.
    """

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
        try:
            return self._with_own_interpreter(variables)
        except _UnusableError as error:
            return self._with_server_interpreter(variables, str(error))

    def _activated(self) -> Variables:
        script = self._folder / "bin" / "activate"
        if not script.is_file():
            raise cannot_load(
                self._model,
                f"Path {script} does not exist. The Python environment should contain an 'activate' script. ({self._source} must be an "
                "environment itself, with bin/ at its top, as conda-pack makes it)",
            )
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

    def _with_own_interpreter(self, variables: Variables) -> Environment:
        python = interpreter_in(self._folder)
        if python is None:
            link = broken_link(self._folder)
            why = f"bin/python is a link to {link}, which is not on this machine" if link else ""
            raise _UnusableError(why or "it has no bin/python")
        environment = Environment(executable=str(python), variables=variables)
        self._probe(environment)
        return environment

    def _with_server_interpreter(self, variables: Variables, why: str) -> Environment:
        packages = packages_in(self._folder)
        if not packages.is_dir():
            major, minor = sys.version_info[:2]
            raise cannot_load(
                self._model,
                f"{self._source} cannot be used: {why}, and it has no packages for the server's Python {major}.{minor} either: pack an "
                "environment together with its interpreter, as conda-pack does",
            )
        environment = Environment(
            executable=own_interpreter(),
            variables=commands.with_packages(variables, packages, os.environ.get("PYTHONPATH", "")),
        )
        try:
            self._probe(environment)
        except _UnusableError as error:
            raise cannot_load(
                self._model,
                f"{self._source} cannot be used: {why}; nor with the server's Python: {error}",
            ) from error
        _log.warning(
            "model '%s': %s: %s; its worker runs in %s with the packages of that environment",
            self._model, self._source, why, environment.executable,
        )  # fmt: skip
        return environment

    def _probe(self, environment: Environment) -> None:
        """Start the interpreter and check that it has what every worker needs."""
        try:
            output = self._programs.run(
                [environment.executable, "-B", "-c", commands.PROBE],
                environ=commands.environ(os.environ, environment.variables),
                folder=self._folder,
            )
        except (FailedError, OSError) as error:
            raise _UnusableError(f"{environment.executable} does not start ({error})") from error
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
