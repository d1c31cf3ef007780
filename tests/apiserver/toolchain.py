"""The Kubernetes programs that tests start: found in `KUBEBUILDER_ASSETS`, else built once from Go modules.

`KUBEBUILDER_ASSETS` is envtest's convention: a folder with `etcd`, `kube-apiserver` and `kubectl`. It has no
controller-manager, so whatever is missing there is built. Building takes about five minutes on two cores and needs only
Go; the results lie in the user's cache, outside the tree, in a folder named after the versions. A program is built under
another name and renamed when it is whole, and of two processes that need it at once one builds and the other waits.

Kubernetes' own `go.mod` replaces its staging modules by folders of its source tree; a build from outside must replace each
by the version released with it (v1.36.3 goes with v0.36.3), which is why the build reads that file first.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "v1.36.3"
ETCD_VERSION = "v3.6.7"
NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager")
"""What the tests start. `kubectl` can be asked for beside them."""

_KUBERNETES = "k8s.io/kubernetes"
_ETCD = "go.etcd.io/etcd/server/v3"
_KUBERNETES_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kubectl")
_EVERY_PACKAGES = 100
"""A line of progress for so many compiled packages (Kubernetes has about 1,700)."""

Say = Callable[[str], None]


class BinariesUnavailableError(RuntimeError):
    """The programs are not available on this machine; the message says what to do about it."""


@dataclass(frozen=True)
class Binaries:
    """Where each program lies, by name."""

    paths: dict[str, Path]

    def __getitem__(self, name: str) -> str:
        """The path of a program, as `subprocess` takes it."""
        return str(self.paths[name])


def find(names: Sequence[str] = NEEDED, *, say: Say | None = None) -> Binaries:
    """Gives the programs, building first those that are neither in `KUBEBUILDER_ASSETS` nor in the cache.

    Raises:
        BinariesUnavailableError: they have to be built and Go is missing, or the build failed.
    """
    tell = say if say is not None else say_on_stderr
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    paths: dict[str, Path] = {}
    for name in names:
        if assets and (Path(assets) / name).is_file():
            paths[name] = Path(assets) / name
    missing = [name for name in names if name not in paths]
    if missing:
        home = cache_folder()
        home.mkdir(parents=True, exist_ok=True)
        with _only_one(home.with_name(f"{home.name}.lock")):
            to_build = [name for name in missing if not (home / name).is_file()]
            if to_build:
                _build(to_build, home, tell)
        paths |= {name: home / name for name in missing}
    return Binaries(paths)


def cache_folder() -> Path:
    """Where built programs lie: `$XDG_CACHE_HOME/naiad/kubernetes-<version>-etcd-<version>`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "naiad" / f"kubernetes-{KUBERNETES_VERSION}-etcd-{ETCD_VERSION}"


def say_on_stderr(message: str) -> None:
    """Progress, on stderr past pytest's capture: minutes of silence look like a hang."""
    print(f"[kubernetes] {message}", file=sys.__stderr__, flush=True)


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(names: Sequence[str], home: Path, say: Say) -> None:
    if shutil.which("go") is None:
        raise BinariesUnavailableError(
            f"the tests against a real API server need {', '.join(names)}, and Go is not installed to build them. "
            "Either install Go 1.26 or newer (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a folder that holds "
            f"them at Kubernetes {KUBERNETES_VERSION.rpartition('.')[0]} (envtest's setup-envtest makes one, without "
            "the controller-manager), or leave these tests out with -m 'not apiserver'"
        )
    say(f"building {', '.join(names)} into {home}: once, about five minutes on two cores")
    started = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        if "etcd" in names:
            folder = _module(scratch, "etcd", go="1.24", replaced=())
            _go(["get", "-tool", f"{_ETCD}@{ETCD_VERSION}"], folder)
            _compile([_ETCD], folder, "", say)
            home.mkdir(exist_ok=True)
            (folder / "bin" / "server").rename(home / "etcd")
        programs = [name for name in names if name in _KUBERNETES_PROGRAMS]
        if programs:
            packages = [f"{_KUBERNETES}/cmd/{name}" for name in programs]
            folder = _kubernetes_module(scratch, say)
            _go(["get", "-tool", *(f"{p}@{KUBERNETES_VERSION}" for p in packages)], folder)
            _compile(packages, folder, _version_stamp(), say)
            home.mkdir(exist_ok=True)
            for program in programs:
                (folder / "bin" / program).rename(home / program)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"built in {time.monotonic() - started:.0f} s")


def _module(scratch: Path, name: str, *, go: str, replaced: Sequence[str]) -> Path:
    folder = scratch / name
    folder.mkdir()
    lines = ["module build", f"go {go}", *replaced]
    (folder / "go.mod").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _kubernetes_module(scratch: Path, say: Say) -> Path:
    say(f"fetching {_KUBERNETES} {KUBERNETES_VERSION}")
    empty = _module(scratch, "download", go="1.24", replaced=())
    answer = _go(["mod", "download", "-json", f"{_KUBERNETES}@{KUBERNETES_VERSION}"], empty)
    manifest = json.loads(_go(["mod", "edit", "-json", json.loads(answer)["GoMod"]], empty))
    released = "v0." + KUBERNETES_VERSION.removeprefix("v1.")
    staging = [
        replace["Old"]["Path"]
        for replace in manifest.get("Replace") or []
        if replace["New"]["Path"].startswith("./staging/")
    ]
    # `work`-based releases list no replaces: there the requirements at v0.0.0 are the staging modules.
    staging += [
        required["Path"] for required in manifest["Require"] if required["Version"] == "v0.0.0"
    ]
    lines = [f"replace {path} => {path} {released}" for path in sorted(set(staging))]
    return _module(scratch, "kubernetes", go=manifest["Go"], replaced=lines)


def _version_stamp() -> str:
    """Without it `kubectl version` fails to parse the server's version, and helm cannot compare it."""
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    where = "k8s.io/component-base/version"
    values = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X {where}.{name}={value}" for name, value in values.items())


def _compile(packages: Sequence[str], folder: Path, stamp: str, say: Say) -> None:
    flags = ["-trimpath", "-ldflags", f"-s -w {stamp}".strip()]
    command = ["go", "build", "-v", *flags, "-o", "bin/", *packages]
    (folder / "bin").mkdir()
    last: list[str] = []
    with subprocess.Popen(
        command, cwd=folder, env=_environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            for count, line in enumerate(process.stderr, start=1):
                last = [*last[-40:], line]
                if count % _EVERY_PACKAGES == 0:
                    say(f"{count} packages compiled")
        except BaseException:
            process.terminate()  # or its end would be waited for, for minutes
            raise
    if process.returncode != 0:
        raise BinariesUnavailableError(
            f"{' '.join(command)} exited {process.returncode}:\n{''.join(last)}"
        )


def _go(arguments: Sequence[str], folder: Path) -> str:
    command = ["go", *arguments]
    finished = subprocess.run(
        command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False
    )
    if finished.returncode != 0:
        raise BinariesUnavailableError(
            f"{' '.join(command)} exited {finished.returncode}:\n{finished.stdout[-1000:]}{finished.stderr[-3000:]}"
        )
    return finished.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "on", "GOWORK": "off"}


if __name__ == "__main__":
    for path in find((*NEEDED, "kubectl")).paths.values():
        say_on_stderr(str(path))
