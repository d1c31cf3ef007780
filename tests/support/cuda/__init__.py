"""A CUDA runtime for tests, between processes as well: `fake_cudart.c`, compiled once, and what lives in it.

`environment` has the variables with which a process uses it, through `naiad.tensors.cudart.load`.
"""

import collections.abc
import contextlib
import ctypes
import functools
import hashlib
import mmap
import os
import pathlib
import shutil
import subprocess
import tempfile

from naiad.tensors import cudart

ALLOCATED, OPENED, REGISTERED = 1, 2, 3
"""What a process may hold: memory of its own, that of another process, pinned memory of the host."""

ARRAYS = pathlib.Path(__file__).parent / "device_arrays.py"
"""A module for models: arrays on the device."""

_DRIVER = pathlib.Path(__file__).parent / "driver" / "pynvml.py"
_SOURCE = pathlib.Path(__file__).parent / "fake_cudart.c"
_SLOTS = 8192


class _Slot(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_int32),
        ("kind", ctypes.c_int32),
        ("serial", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
    )


class _State(ctypes.Structure):
    _fields_ = (
        ("fail_call", ctypes.c_char * 64),
        ("fail_status", ctypes.c_int32),
        ("fail_after", ctypes.c_int32),
        *(
            (name, ctypes.c_int64)
            for name in (
                "opens", "closes", "copies", "copied", "synchronizes", "freed_while_open", "registers", "mallocs",
            )
        ),
        ("serials", ctypes.c_uint64),
        ("slots", _Slot * _SLOTS),
    )  # fmt: skip


@functools.cache
def library() -> pathlib.Path:
    """The compiled library; a test that needs it is skipped where there is no C compiler."""
    text = _SOURCE.read_bytes()
    folder = pathlib.Path(tempfile.gettempdir()) / f"naiad-fake-cuda-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    made = folder / f"libcudart-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not made.exists():
        fresh = made.with_suffix(f".{os.getpid()}")
        compiler = shutil.which("cc") or shutil.which("gcc") or "cc"
        subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", "-o", fresh, _SOURCE, "-lpthread"], check=True
        )
        fresh.rename(made)
    return made


class State:
    """What all processes hold that use the library with this file.

    Args:
        path: the file, which is made.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        with path.open("wb") as file:
            file.truncate(ctypes.sizeof(_State))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self.counts = _State.from_buffer(self._memory)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that uses it."""
        return {cudart.LIBRARY: str(library()), "FAKE_CUDA_STATE": str(self._path)}

    def live(self, kind: int) -> list[int]:
        """The sizes of what living processes hold."""
        return [
            slot.size
            for slot in self.counts.slots
            if slot.kind == kind and pathlib.Path(f"/proc/{slot.pid}/fd").exists()
        ]

    def fail(self, call: str, status: int, *, after: int = 0) -> None:
        """Have every call of a function fail, but for the first ones; `call` "" ends it."""
        self.counts.fail_status, self.counts.fail_after = status, after
        self.counts.fail_call = call.encode()


@contextlib.contextmanager
def in_this_process() -> collections.abc.Iterator[State]:
    """The library in the tests' own process, in which `naiad.tensors.cudart.load` gives it meanwhile, and none afterwards: what was loaded stays loaded."""
    state = state_of_this_process()
    os.environ.update(state.environment)
    cudart.load.cache_clear()
    try:
        cudart.load().device_count()
        for name in state.environment:
            del os.environ[name]
        yield state
    finally:
        os.environ[cudart.LIBRARY] = "/none/libcudart.so"
        cudart.load.cache_clear()


@functools.cache
def state_of_this_process() -> State:
    """What the library in the tests' own process has, and other processes find there by its environment."""
    return State(pathlib.Path(tempfile.mkdtemp()) / "state")


def server_environment(
    environ: collections.abc.Mapping[str, str], state: State, folder: pathlib.Path
) -> dict[str, str]:
    """The variables of a server on a machine with two GPUs, by a driver that is made up: any library stands for it."""
    driver = folder / "driver"
    driver.mkdir()
    (driver / _DRIVER.name).symlink_to(_DRIVER)
    maps = pathlib.Path("/proc/self/maps").read_text()
    library = next(line.split()[-1] for line in maps.splitlines() if "/libc.so" in line)
    (driver / "libnvidia-ml.so.1").symlink_to(library)
    changed = {**environ, **state.environment, "LD_LIBRARY_PATH": str(driver)}
    changed["PYTHONPATH"] = os.pathsep.join((str(driver), environ["PYTHONPATH"]))
    for name in ("TRITON_SERVER_CPU_ONLY", "CUDA_VISIBLE_DEVICES"):
        changed.pop(name, None)
    return changed
