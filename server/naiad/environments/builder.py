"""Builds environments in the cache's folders: unpacks a tarball, or creates a virtual environment with pip (row 15.30)."""

import collections.abc
import contextlib
import importlib.metadata
import importlib.util
import logging
import lzma
import os
import pathlib
import re
import shutil
import sys
import tarfile
import zlib

from naiad.environments import commands
from naiad.environments.commands import Variables
from naiad.environments.inspector import interpreter_in, packages_in
from naiad.environments.programs import FailedError, Programs
from naiad.environments.spec import REQUIREMENTS_PARAMETER, Required, cannot_load
from naiad.errors import InferenceError

if not hasattr(tarfile, "data_filter"):
    # Python has these filters since 3.11.4; Debian 12 has 3.11.2.
    from backports import tarfile  # type: ignore[attr-defined,no-redef]

_log = logging.getLogger("naiad.environments")

_INTERPRETER = re.compile(r"(?:\./)?bin/python[0-9.]*")


class EnvironmentBuilder:
    """Builds one environment, for one model, in an empty folder; programs keep `lock` open while they write there."""

    def __init__(self, model: str, programs: Programs, *, folder: pathlib.Path, lock: int) -> None:
        self._model = model
        self._programs = programs
        self._folder = folder
        self._lock = lock

    def unpack(self, tarball: pathlib.Path) -> None:
        """Unpack a tarball, compressed by gzip, bzip2, xz or not at all.

        Raises:
            InferenceError: it is not a tarball, is damaged, has members that lead out of the folder, or its conda-unpack fails.
            OSError: it cannot be read, or the folder not written.
        """
        folder = self._folder
        _log.info(
            "model '%s': unpacking its environment %s into %s, once", self._model, tarball, folder
        )
        with _opened(self._model, tarball) as archive:
            archive.extractall(folder, filter=_check_member)  # noqa: S202 - each member is checked
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
            self._model, spec.source, folder, "" if wheels is None else f", from the wheels in {wheels}",
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
                    f"its environment could not be built from {spec.source}{source}:\n{commands.errors_of(error.output)}\n"
                    f'To run it in the server\'s own environment, set its parameter {REQUIREMENTS_PARAMETER} to "ignore"',
                ) from error
        packages = packages_in(folder)
        if not (packages / "numpy" / "__init__.py").is_file():
            self._copy_numpy(file, packages)

    def _copy_numpy(self, file: pathlib.Path, packages: pathlib.Path) -> None:
        """Copy the server's numpy, the one package that every worker needs, into an environment whose requirements file brings none.

        A copy, not a link, so that the environment does not change or break when the server's numpy does.
        """
        try:
            numpy = importlib.metadata.distribution("numpy")
        except importlib.metadata.PackageNotFoundError as error:
            why = "the server's numpy was not installed as a package"
            raise self._without_numpy(file, why) from error
        parts = [part for part in numpy.files or () if ".." not in part.parts]
        if not parts:
            raise self._without_numpy(file, "the server's numpy does not list its files")
        for part in parts:
            source = pathlib.Path(str(part.locate()))
            if source.is_file():
                target = packages / part
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        _log.info(
            "model '%s': %s brings no numpy: its environment gets a copy of the server's (%s)",
            self._model, file, numpy.version,
        )  # fmt: skip

    def _without_numpy(self, file: pathlib.Path, why: str) -> InferenceError:
        return cannot_load(
            self._model,
            f"{file} does not bring numpy, which every model needs, and {why}: add numpy to it",
        )

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


def check_tarball(model: str, tarball: pathlib.Path, folder: pathlib.Path) -> frozenset[str]:
    """Read a tarball to its end, as `unpack` would for this folder, and write nothing; gives the names of its members.

    Raises:
        InferenceError: as `EnvironmentBuilder.unpack`.
        OSError: it cannot be read.
    """
    names = set[str]()
    with _opened(model, tarball) as archive:
        for member in archive:
            _check_member(member, str(folder))
            names.add(os.path.normpath(member.name))
    return frozenset(names)


@contextlib.contextmanager
def _opened(model: str, tarball: pathlib.Path) -> "collections.abc.Iterator[tarfile.TarFile]":
    """Open a tarball; what is wrong with it is an error of the model."""
    try:
        with tarfile.open(tarball) as archive:
            yield archive
    except tarfile.FilterError as error:
        raise cannot_load(
            model,
            f"{tarball} cannot be unpacked: its member '{error.tarinfo.name}' is refused: {error}: pack the environment with "
            "conda-pack, or tar its folder from inside (tar -czf env.tar.gz -C ENV .)",
        ) from error
    except (tarfile.TarError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise cannot_load(
            model, f"{tarball} cannot be unpacked: it is not a readable tarball: {error}"
        ) from error


def _check_member(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """Return what is written for a member of a tarball; raise `tarfile.FilterError` for one that is refused.

    Python's own `data` filter lets nothing out of the folder: no absolute names, no `..`, no devices, no links that lead out. One kind of
    link may lead out, because packed virtual environments hold it: `bin/python…`, the interpreter that it was made with. Nothing can be
    written through it: a member below it would end outside, which the filter refuses.
    """
    try:
        return tarfile.data_filter(member, folder)
    except (tarfile.AbsoluteLinkError, tarfile.LinkOutsideDestinationError):
        if member.issym() and _INTERPRETER.fullmatch(member.name):
            return tarfile.tar_filter(member, folder)
        raise
