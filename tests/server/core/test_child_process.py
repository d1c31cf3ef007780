"""Processes that run a module of this package beside the server: they end with it, however it ends, and leave signals of terminals to it."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap

import pytest

from naiad.core.processes import child_process
from tests.server.hosts.process.workers import exists
from tests.support.waiting import wait_until

MODULE = "naiad.protocol.codec"
ROOT = pathlib.Path(__file__).parents[3]

PARENT = f"""
import socket, sys
from naiad.core.processes import child_process
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
print(child_process.start("{MODULE}", theirs, {{}}).pid, flush=True)
sys.stdin.read()
"""


def started() -> tuple["subprocess.Popen[bytes]", socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = child_process.start(MODULE, theirs, {"OF_ITS_OWN": "yes"})
    assert theirs.fileno() == -1, "its end is its alone"
    return process, ours


def handles_sigterm(pid: int) -> bool:
    """Whether a process got as far as that."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def test_it_ends_with_its_socket_and_not_by_signals_of_a_terminal_or_a_service_manager() -> None:
    process, ours = started()
    with ours:
        assert os.getpgid(process.pid) == process.pid
        variables = pathlib.Path(f"/proc/{process.pid}/environ")
        wait_until(lambda: b"OF_ITS_OWN=yes" in variables.read_bytes())
        wait_until(lambda: handles_sigterm(process.pid))
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            os.kill(process.pid, number)
        ours.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ours.recv(1)
    assert process.wait(20) == 0


def test_it_ends_with_a_server_that_is_killed_although_another_process_has_its_socket() -> None:
    environ = {**os.environ, "PYTHONPATH": f"{ROOT / 'server'}"}
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_until(lambda: handles_sigterm(child))
        parent.kill()
    wait_until(lambda: not exists(child))


def test_a_module_that_cannot_be_started_leaves_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    ours, theirs = socket.socketpair()
    with ours:
        with pytest.raises(OSError, match="No such file"):
            child_process.start(MODULE, theirs, {})
        assert theirs.fileno() == -1


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "exited with status 0"), (-9, "was ended by SIGKILL"), (-77, "was ended by signal 77")],
)
def test_an_end_in_words(status: int, words: str) -> None:
    assert child_process.in_words(status) == words
