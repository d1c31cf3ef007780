"""Installs the real tritonserver (2.51, from the wheel `nvidia-pytriton`) into an environment of its own.

It must stand alone: its Python backend breaks with numpy 2 ("output tensor shape does not match size of output"),
which everything else here uses. The environment lies in the user's cache, outside the tree, and is named after what is
in it, so that a changed pin makes a new one. It is built under another name and renamed when it is whole: a stopped
build leaves nothing that looks finished, and of two processes that start at once one builds and the other waits.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("nvidia-pytriton==0.7.0", "numpy==1.26.4")
RECIPE = "1"
"""Goes up when the steps below change, so that environments built by older steps are not taken."""

_SUPPORTED = ((3, 11), (3, 12))
_INSTALL_TIMEOUT_S = 900


class ReferenceUnavailableError(RuntimeError):
    """The reference server is not available on this machine; the message says what to do about it."""


@dataclass(frozen=True)
class ReferenceEnvironment:
    """An installed reference server.

    Attributes:
        root: the virtual environment's folder.
        library_path: folders for LD_LIBRARY_PATH, where the stub finds its libpython.
    """

    root: Path
    library_path: tuple[str, ...]

    @property
    def bin(self) -> Path:
        """Must come first on PATH: the stub takes its packages from the first `python3` there."""
        return self.root / "bin"

    @property
    def triton(self) -> Path:
        """The folder with `bin/tritonserver`, `backends` and `caches`."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.root / "lib" / version / "site-packages" / "pytriton" / "tritonserver"

    def variables(self) -> dict[str, str]:
        """The variables of a process that runs the reference server."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TRITON"))}
        environ["PATH"] = f"{self.bin}{os.pathsep}{environ.get('PATH', os.defpath)}"
        inherited = environ.get("LD_LIBRARY_PATH")
        folders = [*self.library_path, *([inherited] if inherited else [])]
        if folders:
            environ["LD_LIBRARY_PATH"] = os.pathsep.join(folders)
        environ["TRITON_SERVER_CPU_ONLY"] = "1"
        return environ


def install(*, cache: Path | None = None) -> ReferenceEnvironment:
    """Returns the reference environment, and builds it first where it does not exist (about a minute, once).

    Args:
        cache: where environments are kept; default `$XDG_CACHE_HOME/naiad` or `~/.cache/naiad`.

    Raises:
        ReferenceUnavailableError: this machine or interpreter cannot run it, or the packages cannot be installed.
    """
    if sys.version_info[:2] not in _SUPPORTED:
        raise ReferenceUnavailableError(
            f"the reference server needs numpy 1.26, which Python {sys.version_info.major}."
            f"{sys.version_info.minor} cannot have; run the tests with Python 3.11 or 3.12, "
            "or leave these out with -m 'not conformance'"
        )
    library_path = _libpython_folders()
    home = cache if cache is not None else _default_cache()
    home.mkdir(parents=True, exist_ok=True)
    root = home / f"reference-{_fingerprint()}"
    with _only_one(home / f"{root.name}.lock"):
        if not root.is_dir():
            _build(root)
    return ReferenceEnvironment(root=root, library_path=library_path)


def _default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "naiad"


def _fingerprint() -> str:
    content = "\n".join([RECIPE, sys.version, sys.base_prefix, *PACKAGES])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _libpython_folders() -> tuple[str, ...]:
    """Finds the folder of libpythonX.Y.so, or says how to get it.

    A pyenv interpreter carries its own; Debian's `python3.11` does not: there it is a package. Nothing to add to the
    search path where the loader finds it by itself.
    """
    name = f"libpython{sys.version_info.major}.{sys.version_info.minor}.so.1.0"
    multiarch = str(sysconfig.get_config_var("MULTIARCH") or "")
    for folder in (
        str(sysconfig.get_config_var("LIBDIR") or ""),
        str(Path(sys.base_prefix) / "lib"),
        f"/usr/lib/{multiarch}",
    ):
        if folder and (Path(folder) / name).exists():
            return () if folder == f"/usr/lib/{multiarch}" else (folder,)
    raise ReferenceUnavailableError(
        f"the reference server's Python backend needs {name}, which this interpreter ({sys.executable}) does not "
        f"bring; on Debian: apt-get install libpython{sys.version_info.major}.{sys.version_info.minor}"
    )


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(root: Path) -> None:
    say(f"installing the reference server ({', '.join(PACKAGES)}) into {root}, once")
    scratch = Path(tempfile.mkdtemp(prefix=f"{root.name}.", dir=root.parent))
    try:
        scratch.chmod(0o755)
        _run(_venv_command(scratch))
        _run(_install_command(scratch))
        _place_stub(ReferenceEnvironment(root=scratch, library_path=()))
        scratch.rename(root)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    say("the reference server is installed")


def _uv() -> str | None:
    return shutil.which(
        "uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    )


def _venv_command(root: Path) -> list[str]:
    # The standard library's venv, without pip: Debian's interpreter has no ensurepip unless python3-venv is there.
    return [sys.executable, "-m", "venv", "--without-pip", "--clear", str(root)]


def _install_command(root: Path) -> list[str]:
    python = str(root / "bin" / "python")
    uv = _uv()
    if uv is not None:
        # A copy: hard links into uv's cache would let a change of one environment reach others.
        return [
            uv,
            "pip",
            "install",
            "--quiet",
            "--link-mode=copy",
            "--python",
            python,
            "--no-deps",
            *PACKAGES,
        ]
    return [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        *PACKAGES,
    ]


def _run(command: list[str]) -> None:
    # uv takes the machine's own certificates, as pip does.
    environ = {**os.environ, "UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true"}
    finished = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_INSTALL_TIMEOUT_S,
        check=False,
        env=environ,
    )
    if finished.returncode != 0:
        raise ReferenceUnavailableError(
            f"installing the reference server failed: {' '.join(command)} exited {finished.returncode}:\n"
            f"{finished.stdout[-2000:]}{finished.stderr[-4000:]}"
        )


def _place_stub(environment: ReferenceEnvironment) -> None:
    """Puts the stub that fits this interpreter where the Python backend looks for it."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = environment.triton / "python_backend_stubs" / version / "triton_python_backend_stub"
    shutil.copy2(stub, environment.triton / "backends" / "python" / stub.name)


def say(message: str) -> None:
    """Progress, on stderr past pytest's capture: a minute of silence looks like a hang."""
    print(f"[reference] {message}", file=sys.__stderr__, flush=True)


if __name__ == "__main__":
    say(str(install().root))
