"""Where programs are: in `KUBEBUILDER_ASSETS` or the cache, else built first.

`KUBEBUILDER_ASSETS` is envtest's convention: a folder with `etcd`, `kube-apiserver` and `kubectl`. Everything else lies in
`$XDG_CACHE_HOME/naiad/programs/<module>-<version>/`. Of two processes that need a program at once, one builds it and the other waits.

    python -m tests.toolchain.programs [NAME ...]     builds them (all of them) and prints where they are
"""

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator, Sequence

from tests.toolchain.build import BuildError, Say, build
from tests.toolchain.table import MODULES, Module

__all__ = ["BuildError", "Programs", "cache_folder", "find", "say_on_stderr"]


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
    assets = pathlib.Path(os.environ.get("KUBEBUILDER_ASSETS") or os.devnull)
    wanted = list(names)
    paths = {name: assets / name for name in wanted if (assets / name).is_file()}
    for module in MODULES:
        programs = [name for name in wanted if name in module.programs and name not in paths]
        if programs:
            home = _built(module, programs, say or say_on_stderr)
            paths |= {name: home / name for name in programs}
    for name in wanted:
        if name not in paths:
            raise KeyError(f"no module has the program {name}: add it to tests/toolchain/table.py")
    return Programs(paths)


def cache_folder() -> pathlib.Path:
    """Where built programs lie, one folder per module and version."""
    base = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
    return pathlib.Path(base) / "naiad" / "programs"


def say_on_stderr(message: str) -> None:
    """Progress, on stderr past pytest's capture: minutes of silence look like a hang."""
    print(f"[programs] {message}", file=sys.__stderr__, flush=True)


def _built(module: Module, programs: Sequence[str], say: Say) -> pathlib.Path:
    """The folder with the programs of a module, built first if one is missing."""
    home = cache_folder() / module.name
    if any(not (home / name).is_file() for name in programs):
        with lock(home):
            missing = [name for name in programs if not (home / name).is_file()]
            if missing:
                build(module, missing, home, say)
    return home


@contextlib.contextmanager
def lock(home: pathlib.Path) -> Iterator[None]:
    """Held by one process at a time for a folder of the cache."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f"{home.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    every = [name for module in MODULES for name in module.programs]
    for path in find(sys.argv[1:] or every).paths.values():
        print(path)
