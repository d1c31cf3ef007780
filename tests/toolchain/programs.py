"""Where programs are: in `KUBEBUILDER_ASSETS` or the cache, else built first.

`KUBEBUILDER_ASSETS` is envtest's convention: a folder with `etcd`, `kube-apiserver` and `kubectl`. Everything else lies in
`$XDG_CACHE_HOME/naiad/programs/<module>-<version>/`. All programs of a module are built together: one that is needed later would compile
most packages again. Of two processes that need a program at once, one builds it; the other waits, and says every half minute for what.

    python -m tests.toolchain.programs [NAME ...]     builds them (all of them) and prints where they are
"""

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import signal
import sys
import tempfile
import time
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence

from tests.toolchain.build import BuildError, Say, build
from tests.toolchain.table import MODULES, Module

__all__ = ["BuildError", "Programs", "cache_folder", "find", "missing", "say_on_stderr"]

_POLL_S = 0.25
_POLLS_PER_REPORT = 120
"""A process that waits for another one's build says so every half minute."""


@dataclasses.dataclass(frozen=True, slots=True)
class Programs:
    """Where each program lies, by name."""

    paths: dict[str, pathlib.Path]

    def __getitem__(self, name: str) -> str:
        """The path of a program, as `subprocess` takes it."""
        return str(self.paths[name])


def find(names: Iterable[str], *, say: "Say | None" = None) -> Programs:
    """Programs by name; those that are neither in `KUBEBUILDER_ASSETS` nor in the cache are built first.

    Raises:
        BuildError: Go is missing, or a build failed.
        KeyError: no module of the table has such a program.
    """
    wanted = list(names)
    paths = _in_assets(wanted)
    for module in MODULES:
        programs = [name for name in wanted if name in module.programs and name not in paths]
        if programs:
            home = _built(module, programs, say or say_on_stderr)
            paths |= {name: home / name for name in programs}
    for name in wanted:
        if name not in paths:
            raise KeyError(f"no module has the program {name}: add it to tests/toolchain/table.py")
    return Programs(paths)


def missing(names: Iterable[str]) -> list[str]:
    """Those of the programs that `find` would build."""
    wanted = list(names)
    present = _in_assets(wanted)
    homes = {name: cache_folder() / module.name for module in MODULES for name in module.programs}
    return [name for name in wanted if name not in present and not (homes[name] / name).is_file()]


def _in_assets(names: Iterable[str]) -> dict[str, pathlib.Path]:
    assets = pathlib.Path(os.environ.get("KUBEBUILDER_ASSETS") or os.devnull)
    return {name: assets / name for name in names if (assets / name).is_file()}


def cache_folder() -> pathlib.Path:
    """Where built programs lie, one folder per module and version."""
    base = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
    return pathlib.Path(base) / "naiad" / "programs"


def say_on_stderr(message: str) -> None:
    """Progress, on stderr past pytest's capture: minutes of silence look like a hang."""
    print(f"[programs] {message}", file=sys.__stderr__, flush=True)


def _built(module: Module, programs: Sequence[str], say: Say) -> pathlib.Path:
    """The folder with the programs of a module; if one of them is missing, all that the module lacks are built first."""
    home = cache_folder() / module.name
    if _unbuilt(programs, home):
        with lock(home, say) as note:
            if _unbuilt(programs, home):
                build(module, _unbuilt(module.programs, home), home, _both(say, note))
    return home


def _unbuilt(programs: Iterable[str], home: pathlib.Path) -> list[str]:
    return [name for name in programs if not (home / name).is_file()]


def _both(say: Say, note: Say) -> Say:
    def both(message: str) -> None:
        say(message)
        note(message)

    return both


@contextlib.contextmanager
def lock(
    home: pathlib.Path,
    say: Say = say_on_stderr,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Say]:
    """Held by one process at a time for a folder of the cache.

    Gives a function that notes the holder's progress, which the processes that wait show.
    """
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f"{home.name}.lock").open("a+", encoding="utf-8") as handle:
        _acquire(handle, home.name, say, sleep)

        def note(message: str) -> None:
            handle.truncate(0)
            handle.write(f"process {os.getpid()}: {message}")
            handle.flush()

        note("started")
        try:
            yield note
        finally:
            handle.truncate(0)


def _acquire(handle: typing.TextIO, name: str, say: Say, sleep: Callable[[float], None]) -> None:
    polls = 0
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if polls % _POLLS_PER_REPORT == 0:
                handle.seek(0)
                say(f"waiting for {name}; {handle.read() or 'another process makes it'}")
            sleep(_POLL_S)
            polls += 1
        else:
            return


if __name__ == "__main__":
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # the compiler is ended, and folders are removed
    every = [name for module in MODULES for name in module.programs]
    # One build cache for all modules of this run: they share Go's own library and much of Kubernetes.
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".go-build.", dir=cache_folder()) as build_cache:
        os.environ.setdefault("GOCACHE", build_cache)
        for path in find(sys.argv[1:] or every).paths.values():
            print(path)
