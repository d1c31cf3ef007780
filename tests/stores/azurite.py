"""azurite, the emulator of Azure's storage: installed once with npm, started on a folder; real signatures and ranges.

python -m tests.stores.azurite FOLDER      keeps its data in FOLDER, serves on 127.0.0.1 until Ctrl-C, and prints the variables for clients
"""

import collections.abc
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import typing

from tests.stores.ports import free_port, wait_for_port

VERSION = "3.35.0"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Of azurite's account, the same everywhere."""


class Emulator(typing.NamedTuple):
    """A running server.

    Attributes:
        port: on 127.0.0.1.
        process: the server.
    """

    port: int
    process: "subprocess.Popen[bytes]"

    def address(self, path: str) -> str:
        """The address of `container/prefix`."""
        return f"as://127.0.0.1:{self.port}/{ACCOUNT}/{path}"


@contextlib.contextmanager
def emulator(folder: pathlib.Path, *, port: int = 0) -> collections.abc.Iterator[Emulator]:
    """A server for a context; it is installed first if needed.

    Args:
        folder: for its data.
        port: where to listen; 0: a free port.
    """
    port = port or free_port()
    # It refuses the API versions of newer SDKs without --skipApiVersionCheck.
    command = [
        "node", str(program()), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder), "--skipApiVersionCheck", "--silent",
        "--disableTelemetry",
    ]  # fmt: skip
    with subprocess.Popen(command) as process:
        try:
            wait_for_port(port, process, seconds=90)
            yield Emulator(port, process)
        finally:
            process.terminate()


def program() -> pathlib.Path:
    """The server for blobs, installed first if it is not in `$XDG_CACHE_HOME/naiad`: 190 MB, about 20 s.

    Raises:
        RuntimeError: npm is missing, or failed.
    """
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = home / "naiad" / f"azurite-{VERSION}"
    main = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            _install(folder)
            (folder / "installed").touch()
    return main


def _install(folder: pathlib.Path) -> None:
    if shutil.which("npm") is None:
        raise RuntimeError(
            "the tests of as:// install azurite with npm, which is missing: apt-get install npm, or leave them out"
        )
    print(f"[azurite] installing {VERSION} into {folder}, once", file=sys.__stderr__, flush=True)
    command = [
        "npm",
        "install",
        "--no-audit",
        "--no-fund",
        "--prefix",
        str(folder),
        f"azurite@{VERSION}",
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise RuntimeError(f"npm exited {finished.returncode}: {finished.stderr[-2000:]}")


if __name__ == "__main__":
    with emulator(pathlib.Path(sys.argv[1])) as server:
        for variable, value in (("AZURE_STORAGE_ACCOUNT", ACCOUNT), ("AZURE_STORAGE_KEY", KEY)):
            print(f"export {variable}={value}", flush=True)  # noqa: T201 - it is a command
        print(f"# {server.address('CONTAINER/PREFIX')}", flush=True)  # noqa: T201
        with contextlib.suppress(KeyboardInterrupt):
            server.process.wait()
