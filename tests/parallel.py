"""Which tests run in the same process of a parallel run, and in which order the groups are handed out.

`make test` runs six processes (pytest-xdist, `--dist loadgroup`). Tests that share a server, a control plane or another
expensive fixture are one group, so that it starts once. The groups that take longest come first, so that no process is still
busy with one when the others have nothing left to do. A group that is not named here is a file.

The programs of Kubernetes are built once per machine, which takes minutes. In a run that lacks them a background process builds them, and the
tests that need them come last.
"""

import functools
import os
import pathlib
import subprocess
import sys
import typing
from collections.abc import Sequence

import pytest

from tests.apiserver.control_plane import PROGRAMS
from tests.toolchain import programs

_TESTS = pathlib.Path(__file__).parent

_LIVE = "operator/live"
_CONFORMANCE = "conformance"
_WIRE = "wire"
_ORDER = (f"{_CONFORMANCE}-main", "live", _CONFORMANCE, "wire", "soak", "server/hosts")
"""Beginnings of group names: the first come first, all others after them."""

_BUILDING = "naiad_programs_missing"
"""The key under which a run's first process tells the others that programs have to be built: all of them must arrange the tests alike."""


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is one of those that share the tests."""
    return hasattr(config, "workerinput")


def announce_builds(workerinput: dict[str, typing.Any]) -> None:
    """Tells a process, from the one that starts it, whether programs have to be built."""
    workerinput[_BUILDING] = _missing_at_start()


@functools.cache
def _missing_at_start() -> bool:
    return bool(programs.missing(PROGRAMS))


def are_programs_missing(config: pytest.Config) -> bool:
    """Whether programs had to be built when the run began."""
    return bool(config.workerinput[_BUILDING])  # type: ignore[attr-defined] # of pytest-xdist


def start_builder(items: Sequence[pytest.Item]) -> "subprocess.Popen[bytes] | None":
    """In one process of the run: builds the programs in the background if a test needs them. It shows its progress on stderr."""
    if os.environ["PYTEST_XDIST_WORKER"] != "gw0" or not any(map(_needs_programs, items)):
        return None
    command = ["nice", "-n", "5", sys.executable, "-m", "tests.toolchain.programs", *PROGRAMS]
    return subprocess.Popen(
        command, cwd=_TESTS.parent, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def spread_collection(config: pytest.Config) -> None:
    """Lets each process begin to collect in another folder.

    Every process imports all test files. Pytest compiles them itself (it rewrites their asserts), which takes most of the time of
    a first collection; this way a process finds compiled what the others have begun with.
    """
    if config.args != config.getini("testpaths"):
        return
    ignored = [config.invocation_params.dir / path for path in config.getoption("ignore") or ()]
    folders = folders_to_collect(ignored)
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    first = len(folders) * number // count
    config.args = [*folders[first:], *folders[:first], *config.args]


def folders_to_collect(ignored: list[pathlib.Path]) -> list[str]:
    """All folders with tests, without those that a run is to ignore: pytest does not ignore what it is given by name."""
    return sorted(
        str(path)
        for path in _TESTS.rglob("*")
        if (path / "__init__.py").exists() and not any(map(path.is_relative_to, ignored))
    )


def arrange(items: list[pytest.Item], *, programs_missing: bool = False) -> None:
    """Puts every test into its group, and the groups into the order in which they are handed out.

    Args:
        items: the tests, arranged in place.
        programs_missing: tests that need them come last.
    """
    items.sort(key=lambda item: str(item.path))  # the same order in every process
    groups = {id(item): group(item) for item in items}
    for item in items:
        name = groups[id(item)]
        if name is not None:
            item.add_marker(pytest.mark.xdist_group(name))
    items.sort(
        key=lambda item: (
            programs_missing and _needs_programs(item),
            _place(groups[id(item)] or _CONFORMANCE),
        )
    )


def _needs_programs(item: pytest.Item) -> bool:
    return item.path.parent == _TESTS / _LIVE


def group(item: pytest.Item) -> str | None:
    """The name of a test's group; None is a group of its own."""
    folder = _folder(item.path)
    if folder is None:
        return item.path.name
    if folder == _LIVE:
        return _live(item)
    if folder.partition("/")[0] == _WIRE and _shares_server(item):
        return f"{_WIRE}-server"
    callspec = getattr(item, "callspec", None)
    scenario = callspec.params.get("scenario") if callspec is not None else None
    if folder == _CONFORMANCE and scenario is not None:
        # An `unstarted` scenario starts servers of its own and shares them with none.
        return None if scenario.server == "unstarted" else f"{_CONFORMANCE}-{scenario.server}"
    return f"{folder}/{item.path.stem}"


@functools.cache
def _folder(path: pathlib.Path) -> str | None:
    """The folder of a test file below that of all tests; None: it is elsewhere. There are twenty tests to a file."""
    if not path.is_relative_to(_TESTS):
        return None
    return path.parent.relative_to(_TESTS).as_posix()


def _live(item: pytest.Item) -> str:
    names = getattr(item, "fixturenames", ())
    for shared in ("plane", "full_plane", "bare_plane"):
        if shared in names:
            return f"live-{shared}"
    return f"live-{item.path.stem}"


def _shares_server(item: pytest.Item) -> bool:
    """Whether a test asks the server of `tests/wire/conftest.py`, and not one of its file's own."""
    definitions = getattr(item, "_fixtureinfo").name2fixturedefs.get("server", ())  # noqa: B009 - private, and of functions only
    return bool(definitions) and definitions[-1].scope == "session"


def _place(name: str) -> int:
    found = (place for place, start in enumerate(_ORDER) if name.startswith(start))
    return next(found, len(_ORDER))
