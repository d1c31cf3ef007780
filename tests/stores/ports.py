"""Ports of servers that tests start on 127.0.0.1."""

import contextlib
import socket
import subprocess

from tests.support.waiting import wait_until


def free_port() -> int:
    """A port that is free now, outside of the range that the system takes for clients."""
    from tests.reference.process import Ports  # noqa: PLC0415 - the same ports are not handed out twice

    return Ports.free().http


def wait_for_port(port: int, process: "subprocess.Popen[bytes]", *, seconds: float = 30) -> None:
    """Wait until a server accepts connections.

    Raises:
        AssertionError: it ended, or does not.
    """

    def accepts() -> bool:
        assert process.poll() is None, f"{process.args!r} exited {process.returncode}"
        with (
            contextlib.suppress(OSError),
            contextlib.closing(socket.create_connection(("127.0.0.1", port))),
        ):
            return True
        return False

    wait_until(accepts, seconds=seconds, what=f"{process.args!r} does not listen on port {port}")
