"""Builds programs of a Go module, with progress.

Each module is built by a `go.mod` of its own that requires only it. The build cache is a temporary folder, because the caches of
these builds reach 20 GB; `$GOCACHE` set by hand is kept. Modules that were downloaded stay in Go's module cache.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import typing
from collections.abc import Callable, Mapping, Sequence

from tests.toolchain import go
from tests.toolchain.table import Module

_EVERY_PACKAGES = 100
"""A line of progress for so many compiled packages (Kubernetes has about 1,700)."""

Say = Callable[[str], None]


class BuildError(RuntimeError):
    """Go is missing, or a build failed; the message says what to do or has Go's last lines."""


def build(module: Module, programs: Sequence[str], home: pathlib.Path, say: Say) -> None:
    """Put programs of a module into `home`, each under its name once it is complete.

    Raises:
        BuildError: Go is missing, or the build failed.
    """
    if go.path() is None:
        raise BuildError(
            f"{', '.join(programs)} {module.version} must be built, and Go is not installed: install Go 1.26 or newer (https://go.dev/dl)"
        )
    minutes = f"about {module.minutes} minute{'s' if module.minutes > 1 else ''} on two cores"
    say(f"building {', '.join(programs)} {module.version}: once, {minutes}")
    started = time.monotonic()
    home.parent.mkdir(parents=True, exist_ok=True)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
    try:
        environment = _environment(scratch)
        folder = _workspace(module, scratch, environment)
        packages = [f"{module.path}/{module.programs[name]}".rstrip("/") for name in programs]
        _go(["get", "-tool", *(f"{p}@{module.version}" for p in packages)], folder, environment)
        home.mkdir(exist_ok=True)
        _compile(module, packages, folder, environment, say)
        for name, package in zip(programs, packages, strict=True):
            (folder / "bin" / _go_name(package)).rename(home / name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"built in {time.monotonic() - started:.0f} s")


def _go_name(package: str) -> str:
    """The name that Go gives a program: the last part of its package before a major version."""
    parts = package.split("/")
    major = parts[-1].startswith("v") and parts[-1][1:].isdigit()
    return parts[-2] if major else parts[-1]


def _workspace(
    module: Module, scratch: pathlib.Path, environment: Mapping[str, str]
) -> pathlib.Path:
    """A folder with a `go.mod` for the module."""
    folder = scratch / "build"
    folder.mkdir()
    language, replaced = "1.24", list(module.replace)
    if module.staging:
        manifest = _manifest(module, scratch, environment)
        released = "v0." + module.version.removeprefix("v1.")
        language = manifest["Go"]
        replaced += [f"{path} => {path} {released}" for path in _staging_modules(manifest)]
    lines = ["module build", f"go {language}", *(f"replace {line}" for line in replaced)]
    (folder / "go.mod").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _manifest(module: Module, scratch: pathlib.Path, environment: Mapping[str, str]) -> typing.Any:
    empty = scratch / "download"
    empty.mkdir()
    (empty / "go.mod").write_text("module build\ngo 1.24\n", encoding="utf-8")
    download = ["mod", "download", "-json", f"{module.path}@{module.version}"]
    path = json.loads(_go(download, empty, environment))["GoMod"]
    return json.loads(_go(["mod", "edit", "-json", path], empty, environment))


def _staging_modules(manifest: typing.Any) -> list[str]:
    replaced = manifest.get("Replace") or []
    folders = {r["Old"]["Path"] for r in replaced if r["New"]["Path"].startswith("./staging/")}
    # `work`-based releases list no replaces: there the requirements at v0.0.0 are the staging modules.
    return sorted(folders | {r["Path"] for r in manifest["Require"] if r["Version"] == "v0.0.0"})


def _compile(
    module: Module,
    packages: Sequence[str],
    folder: pathlib.Path,
    environment: Mapping[str, str],
    say: Say,
) -> None:
    stamp = " ".join(f"-X {variable}={value}" for variable, value in module.stamp.items())
    flags = ["-trimpath", "-ldflags", f"-s -w {stamp}".strip()]
    if module.tags:
        flags += ["-tags", module.tags]
    command = [go.path() or "go", "build", "-v", *flags, "-o", "bin/", *packages]
    (folder / "bin").mkdir()
    last: list[str] = []
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
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
        raise BuildError(f"{' '.join(command)} exited {process.returncode}:\n{''.join(last)}")


def _go(arguments: Sequence[str], folder: pathlib.Path, environment: Mapping[str, str]) -> str:
    command = [go.path() or "go", *arguments]
    finished = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if finished.returncode != 0:
        raise BuildError(
            f"{' '.join(command)} exited {finished.returncode}:\n{finished.stdout[-1000:]}{finished.stderr[-3000:]}"
        )
    return finished.stdout


def _environment(scratch: pathlib.Path) -> dict[str, str]:
    cache = os.environ.get("GOCACHE") or str(scratch / "cache")
    fixed = {"CGO_ENABLED": "0", "GO111MODULE": "on", "GOWORK": "off", "GOCACHE": cache}
    return {**os.environ, **fixed}


def source_folder(module: str, version: str, folder: str, home: pathlib.Path) -> pathlib.Path:
    """A folder of a module's sources, copied to `home` first if that does not exist: for modules whose manifests are used.

    Raises:
        BuildError: Go is missing, or the module cannot be downloaded.
    """
    if not home.exists():
        if go.path() is None:
            raise BuildError(f"{module} {version} must be downloaded, and Go is not installed: install Go 1.26 or newer (https://go.dev/dl)")  # fmt: skip
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{home.name}.", dir=home.parent) as name:
            scratch = pathlib.Path(name)
            (scratch / "go.mod").write_text("module build\ngo 1.24\n", encoding="utf-8")
            download = ["mod", "download", "-json", f"{module}@{version}"]
            source = json.loads(_go(download, scratch, _environment(scratch)))["Dir"]
            shutil.copytree(pathlib.Path(source) / folder, scratch / "copy")
            (scratch / "copy").chmod(0o755)  # in Go's cache everything is read-only
            (scratch / "copy").rename(home)
    return home
