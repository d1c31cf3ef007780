"""Builds environments in the cache's folders: unpacks a tarball, or creates a virtual environment with pip (row 15.30)."""

import collections.abc
import importlib.util
import logging
import os
import pathlib
import sys

from naiad.environments import commands
from naiad.environments.archive import UnpackError, unpack
from naiad.environments.commands import Variables
from naiad.environments.numpy_copy import NoNumpyError, copy_numpy
from naiad.environments.paths import interpreter_in, packages_in
from naiad.environments.programs import FailedError, Programs
from naiad.environments.spec import REQUIREMENTS_PARAMETER, Required, cannot_load

_log = logging.getLogger("naiad.environments")


class EnvironmentBuilder:
    """Builds one environment, for one model.

    Args:
        model: the model's name, for the log and errors.
        programs: runs programs.
        folder: the environment's, empty.
        lock: a descriptor that programs keep open while they write there.
    """

    def __init__(self, model: str, programs: Programs, *, folder: pathlib.Path, lock: int) -> None:
        self._model = model
        self._programs = programs
        self._folder = folder
        self._lock = lock

    def unpack(self, tarball: pathlib.Path) -> None:
        """Unpack a tarball.

        Raises:
            InferenceError: it cannot be unpacked.
            OSError: it cannot be read, or the folder not written.
        """
        folder = self._folder
        _log.info(
            "model '%s': unpacking its environment %s into %s, once", self._model, tarball, folder
        )
        try:
            unpack(tarball, folder)
        except UnpackError as error:
            raise cannot_load(self._model, f"{tarball} cannot be unpacked: {error}") from error
        script = folder / "bin" / "conda-unpack"
        python = interpreter_in(folder)
        if script.is_file() and python is not None:
            # Packages of conda hold the path at which they were installed; this writes the one where they are now.
            try:
                self._run([str(python), str(script)], {}, folder)
            except FailedError as error:
                output = "\n".join(error.output)
                raise cannot_load(
                    self._model, f"conda-unpack failed in {folder}:\n{output}"
                ) from error

    def build(self, spec: Required) -> None:
        """Build a virtual environment.

        Raises:
            InferenceError: it cannot be built; the message holds the output of the installer.
            OSError: the folder cannot be written.
        """
        file, wheels, folder = spec.file, spec.wheels, self._folder
        own_pip = importlib.util.find_spec("pip") is None
        _log.info(
            "model '%s': building an environment from %s in %s, once%s",
            self._model, file, folder, "" if wheels is None else f", from the wheels in {wheels}",
        )  # fmt: skip
        variables = commands.installer_variables(only_wheels=wheels is not None)
        python = sys.executable
        for command in (
            commands.make_venv(python, folder, with_pip=own_pip),
            commands.install(python, folder, file=file, wheels=wheels, own_pip=own_pip),
        ):
            try:
                self._run(command, variables, file.absolute().parent)
            except FailedError as error:
                source = "" if wheels is None else f" (from the wheels in {wheels} only)"
                raise cannot_load(
                    self._model,
                    f"its environment could not be built from {file}{source}:\n{commands.errors_of(error.output)}\n"
                    f'To run it in the server\'s own environment, set its parameter {REQUIREMENTS_PARAMETER} to "ignore"',
                ) from error
        self._have_numpy(file)

    def _have_numpy(self, file: pathlib.Path) -> None:
        packages = packages_in(self._folder)
        if (packages / "numpy" / "__init__.py").is_file():
            return
        try:
            version = copy_numpy(packages)
        except NoNumpyError as error:
            raise cannot_load(
                self._model,
                f"{file} does not bring numpy, which every model needs, and {error}: add numpy to it",
            ) from error
        _log.info(
            "model '%s': %s brings no numpy: its environment gets a copy of the server's (%s)",
            self._model, file, version,
        )  # fmt: skip

    def _run(
        self, command: collections.abc.Sequence[str], variables: Variables, folder: pathlib.Path
    ) -> None:
        _log.debug("model '%s': %s", self._model, " ".join(command))
        self._programs.run(
            command,
            environ=commands.environ(os.environ, variables),
            folder=folder,
            keep=self._lock,
            on_line=self._log_line,
        )

    def _log_line(self, line: str) -> None:
        if line:
            _log.info("[%s] %s", self._model, line)
