"""Provides the Python environments that models need: finds, unpacks or builds them, each once (row 15.30).

`spec.py` decides which one, `identity.py` names it, `commands.py` has the command lines, `builder.py` builds it, and `cache.py` keeps
it. Blocking, for the loader's threads: an installer may take minutes.
"""

import collections.abc
import contextlib
import logging
import os
import pathlib
import threading

from naiad.core.clock import Clock
from naiad.environments import commands, identity
from naiad.environments.builder import EnvironmentBuilder, check_tarball
from naiad.environments.cache import Cache, default_folder
from naiad.environments.inspector import (
    INTERPRETERS,
    Environment,
    EnvironmentInspector,
    check_folder,
    check_members,
)
from naiad.environments.programs import ClosedError, Programs
from naiad.environments.spec import (
    CACHE_OPTION,
    KEEP_OPTION,
    EnvironmentSpec,
    Options,
    Packed,
    Required,
    cannot_load,
    missing_archive,
)
from naiad.errors import InferenceError, invalid, unavailable

_log = logging.getLogger("naiad.environments")

_Fingerprint = tuple[tuple[int, int] | None, ...]
"""Inode and time of the last change of some files; None for one that does not exist."""

KEEP_DAYS = 30.0
"""How long an environment is kept that no server uses."""

_NS_PER_SECOND = 1e9
_RETRY_NS = 60_000_000_000


class Environments:
    """The environments of this server."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._closing = threading.Event()
        self._programs = Programs(self._closing)
        self._caches: dict[pathlib.Path, Cache] = {}
        self._known: dict[pathlib.Path, tuple[_Fingerprint, Environment]] = {}
        self._mutex = threading.Lock()
        self._failed: tuple[int, str] | None = None
        """Until when the environment of all models is not built again, and why it failed; only its builder, who has its lock, writes this."""

    def get(self, model: str, spec: EnvironmentSpec, options: Options) -> Environment:
        """The environment that a model needs. Blocking: it may have to be built first.

        Raises:
            InferenceError: it is not available; the message holds the output of the installer.
        """
        with _translated(model, spec):
            match spec:
                case Packed():
                    return self._packed(model, spec, options)
                case Required():
                    return self._required(model, spec, options)

    def check(self, model: str, spec: EnvironmentSpec, options: Options) -> None:
        """Raise what `get` would raise before it runs a program. Blocking: a tarball is read to its end. Nothing is written or started."""
        with _translated(model, spec):
            match spec:
                case Packed():
                    self._check_packed(model, spec, options)
                case Required():
                    _require_wheels(model, spec)
                    identity.of_requirements(spec.file, spec.wheels)
                    _folder(options)
                    _days(options)

    def close(self) -> None:
        """Stop building environments. Complete ones stay."""
        self._closing.set()
        self._programs.close()
        with self._mutex:
            for cache in self._caches.values():
                cache.close()

    def _packed(self, model: str, spec: Packed, options: Options) -> Environment:
        path = spec.path
        if not path.exists():
            raise missing_archive(model, spec)
        folder = path.resolve()
        if not path.is_dir():
            folder = self._cache(options).get(
                _packed_name(path),
                lambda folder, lock: self._builder(model, folder, lock).unpack(path),
            )
        # Each instance of a model needs the result: it is remembered until the environment changes.
        fingerprint = _fingerprint(folder)
        with self._mutex:
            known = self._known.get(folder)
        if known is not None and known[0] == fingerprint:
            return known[1]
        environment = EnvironmentInspector(
            model, self._programs, folder=folder, source=path
        ).inspect()
        with self._mutex:
            self._known[folder] = (fingerprint, environment)
        return environment

    def _check_packed(self, model: str, spec: Packed, options: Options) -> None:
        path = spec.path
        if not path.exists():
            raise missing_archive(model, spec)
        if path.is_dir():
            check_folder(model, folder=path.resolve(), source=path)
            return
        folder = _folder(options) / _packed_name(path)
        check_members(model, check_tarball(model, path, folder), folder=folder, source=path)

    def _required(self, model: str, spec: Required, options: Options) -> Environment:
        _require_wheels(model, spec)
        folder = self._cache(options).get(
            f"built-{identity.of_requirements(spec.file, spec.wheels)}",
            lambda folder, lock: self._build(model, spec, folder, lock),
        )
        return Environment(
            executable=str(folder / "bin" / "python"),
            variables=commands.built_variables(folder, os.environ.get("PATH", "")),
        )

    def _build(self, model: str, spec: Required, folder: pathlib.Path, lock: int) -> None:
        """Build an environment; one of many models that has just failed for another of them fails at once: each may take minutes."""
        now_ns = self._clock.monotonic_ns()
        if spec.shared and self._failed is not None and now_ns < self._failed[0]:
            raise cannot_load(model, self._failed[1])
        try:
            self._builder(model, folder, lock).build(spec)
        except InferenceError as error:
            if spec.shared:
                reason = error.message.removeprefix(cannot_load(model, "").message)
                self._failed = (self._clock.monotonic_ns() + _RETRY_NS, reason)
            raise

    def _builder(self, model: str, folder: pathlib.Path, lock: int) -> EnvironmentBuilder:
        return EnvironmentBuilder(model, self._programs, folder=folder, lock=lock)

    def _cache(self, options: Options) -> Cache:
        folder = _folder(options)
        days = _days(options)
        with self._mutex:
            cache = self._caches.get(folder)
            if cache is not None:
                return cache
            cache = self._caches[folder] = Cache(folder, self._closing)
        now_s = self._clock.wall_ns() / _NS_PER_SECOND
        removed = cache.remove_unused(days=days, now_s=now_s)
        if removed:
            _log.info("removed %d unused environments from %s", len(removed), folder)
        return cache


@contextlib.contextmanager
def _translated(model: str, spec: EnvironmentSpec) -> collections.abc.Iterator[None]:
    """Errors of the system and of programs as those of a model that cannot be loaded."""
    try:
        yield
    except ClosedError as error:
        raise unavailable(
            f"unable to load model '{model}': the server stops before its environment is built"
        ) from error
    except UnicodeDecodeError as error:
        what = spec.file if isinstance(spec, Required) else spec.path
        raise cannot_load(model, f"{what} is not valid UTF-8 text: {error}") from error
    except OSError as error:
        raise cannot_load(
            model,
            f"its environment cannot be built: {error} (--backend-config=python,{CACHE_OPTION}=FOLDER chooses where environments are kept)",
        ) from error


def _require_wheels(model: str, spec: Required) -> None:
    if spec.wheels is not None and not spec.wheels.is_dir():
        raise cannot_load(model, f"the wheel folder {spec.wheels} does not exist")


def _packed_name(path: pathlib.Path) -> str:
    return f"packed-{identity.of_tarball(path)}"


def _folder(options: Options) -> pathlib.Path:
    """Where environments are kept."""
    named = options.get(CACHE_OPTION, "")
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises where there is none
    folder = pathlib.Path(named).absolute() if named else default_folder(os.environ, home)
    if folder is None:
        raise invalid(
            "this user has no home folder in which environments of models could be kept: choose one with "
            f"--backend-config=python,{CACHE_OPTION}=FOLDER, or set XDG_CACHE_HOME"
        )
    return folder


def _fingerprint(folder: pathlib.Path) -> _Fingerprint:
    """Inode and times of the files that define an environment's interpreter and its variables; they differ once one has changed."""
    times: list[tuple[int, int] | None] = []
    for name in ("pyvenv.cfg", "etc/conda/activate.d", "bin/activate", *INTERPRETERS):
        try:
            status = (folder / name).stat()
        except OSError:
            times.append(None)
        else:
            times.append((status.st_ino, status.st_ctime_ns))
    return tuple(times)


def _days(options: Options) -> float:
    text = options.get(KEEP_OPTION, "")
    try:
        days = float(text) if text else KEEP_DAYS
    except ValueError:
        days = -1.0
    if not days >= 0:
        raise invalid(
            f"--backend-config=python,{KEEP_OPTION}={text}: it must be a number of days, 0 to keep environments for ever"
        )
    return days
