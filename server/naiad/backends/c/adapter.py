"""The adapter behind which a library that was built for Triton runs: C source in `triton/`, compiled by this machine's compiler at the first use.

What was compiled is kept in the user's cache, under a name that says of which source: `~/.cache/naiad/c-backends` (`XDG_CACHE_HOME`).
"""

import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from naiad.errors import InferenceError, unavailable

FILE = "libtritonserver.so"
"""What libraries for Triton are linked with."""

_FOLDER = pathlib.Path(__file__).parent
_SOURCES = sorted((_FOLDER / "triton").glob("*.c"))
_HEADERS = (_FOLDER / "naiad_backend.h", _FOLDER / "triton" / "adapter.h")
_OPTIONS = (
    "-O2", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-shared", f"-Wl,-soname,{FILE}",
)  # fmt: skip
_TIMEOUT_S = 120
_CACHE = "set XDG_CACHE_HOME to a folder that the server may write to"


@functools.cache
def functions() -> frozenset[str]:
    """The functions of Triton's interface that the adapter has."""
    return frozenset(
        name
        for source in _SOURCES
        for name in re.findall(r"^API .*?\b(TRITON\w+)\(", source.read_text("utf-8"), re.MULTILINE)
    )


def compiler() -> str:
    """The C compiler: the variable CC, else cc.

    Raises:
        InferenceError: UNAVAILABLE: there is none.
    """
    name = os.environ.get("CC") or "cc"
    found = shutil.which(name)
    if found is None:
        raise unavailable(
            f"the adapter for libraries that were built for Triton is compiled at its first use, and there is no C compiler '{name}' on this machine: "
            "install one (apt-get install gcc libc6-dev), or name one in the variable CC"
        )
    return found


def check() -> None:
    """Check that there is an adapter, or a compiler that makes it.

    Raises:
        InferenceError: UNAVAILABLE: there is neither.
    """
    if not _compiled().is_file():
        compiler()


def compiled() -> pathlib.Path:
    """The compiled adapter. Blocking: the first time takes a second.

    Raises:
        InferenceError: UNAVAILABLE: it cannot be compiled, and why.
    """
    path = _compiled()
    if path.is_file():
        return path
    program = compiler()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = pathlib.Path(folder) / FILE
            command = [program, *_OPTIONS, f"-I{_FOLDER}", *map(str, _SOURCES), "-o", str(made), "-ldl", "-lpthread"]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)  # noqa: S603 - the compiler, with sources of ours  # fmt: skip
            if done.returncode:
                raise _failed(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}")
            made.replace(path)
    except OSError as error:
        raise _failed(f"{error} ({_CACHE})") from error
    except subprocess.SubprocessError as error:
        raise _failed(str(error)) from error
    return path


def _compiled() -> pathlib.Path:
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
    except RuntimeError as error:
        raise _failed(f"the user of the server has no home folder ({_CACHE})") from error
    source = b"".join(path.read_bytes() for path in (*_SOURCES, *_HEADERS))
    key = hashlib.sha256(source + repr(_OPTIONS).encode()).hexdigest()[:16]
    return pathlib.Path(cache) / "naiad" / "c-backends" / key / FILE


def _failed(why: str) -> InferenceError:
    return unavailable(
        f"the adapter for libraries that were built for Triton cannot be compiled: {why}"
    )
