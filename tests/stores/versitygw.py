"""versitygw, an S3 server with real signatures: built once from its Go module, started on a folder (each bucket is a folder in it).

python -m tests.stores.versitygw FOLDER      serves FOLDER on 127.0.0.1 until Ctrl-C, and prints the variables for clients
"""

import collections.abc
import contextlib
import pathlib
import signal
import subprocess
import sys
import typing

from tests.stores.ports import free_port, wait_for_port
from tests.toolchain.programs import find

ACCESS_KEY, SECRET_KEY = "naiadtests", "naiadtestssecret"


class Gateway(typing.NamedTuple):
    """A running server.

    Attributes:
        root: holds one folder per bucket.
        port: on 127.0.0.1.
        process: the server.
    """

    root: pathlib.Path
    port: int
    process: "subprocess.Popen[bytes]"

    def address(self, path: str) -> str:
        """The address of `bucket/prefix`."""
        return f"s3://127.0.0.1:{self.port}/{path}"

    def add_user(self, access_key: str, secret_key: str) -> None:
        """Add a user, who may read no bucket of others."""
        administrator = ["--access", ACCESS_KEY, "--secret", SECRET_KEY]
        user = ["--access", access_key, "--secret", secret_key, "--role", "user"]
        endpoint = ["--endpoint-url", f"http://127.0.0.1:{self.port}"]
        command = [str(program()), "admin", *administrator, *endpoint, "create-user", *user]
        subprocess.run(command, check=True, capture_output=True)


@contextlib.contextmanager
def gateway(
    folder: pathlib.Path, *, port: int = 0, keys: tuple[str, str] = (ACCESS_KEY, SECRET_KEY)
) -> collections.abc.Iterator[Gateway]:
    """A server for a context; it is built first if needed.

    Args:
        folder: for its data: `data` holds the buckets, `users` further keys, if there is such a folder.
        port: where to listen; 0: a free port.
        keys: of its administrator.
    """
    port = port or free_port()
    root = folder / "data"
    root.mkdir(parents=True, exist_ok=True)
    users = folder / "users"
    users.mkdir(exist_ok=True)
    sidecar = folder / "attributes"
    sidecar.mkdir(exist_ok=True)
    command = [
        str(program()), "--port", f"127.0.0.1:{port}", "--access", keys[0], "--secret", keys[1], "--iam-dir", str(users), "--quiet",
        "posix", "--sidecar", str(sidecar), str(root),
    ]  # fmt: skip
    with (
        (folder / "log").open("ab") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            wait_for_port(port, process)
            yield Gateway(root, port, process)
        finally:
            process.terminate()


def program() -> pathlib.Path:
    """The program, built first if needed: about two minutes on two cores.

    Raises:
        BuildError: Go is missing, or the build failed.
    """
    return find(["versitygw"]).paths["versitygw"]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the server would stay
    with gateway(pathlib.Path(sys.argv[1])) as server:
        for variable, value in (
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.port}"),
        ):
            print(f"export {variable}={value}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.process.wait()
