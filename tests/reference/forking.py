"""Starts Naiad's servers as forks of one process that has imported them: imports are four fifths of the processor time of a server's start.

A process that runs tests has one such template, which it starts with its first server, and which ends with it. A fork has the arguments,
variables, streams and folder that a program of its own would have, and calls `naiad.__main__.main`. Where a test is about the start, or the
process as a whole, `switched_off` gives it a whole interpreter, as users have; so does each change of the command or of the variables.
Benchmarks never switch it on.
"""

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_LARGEST_REQUEST = 1 << 20
_CHANGES = "PYTEST_CURRENT_TEST"
"""A variable that pytest sets anew for each test."""

_IMPORTED = (
    "naiad.__main__",
    "naiad.options.parsing",
    "naiad.serve.signals",
    "naiad.serve.command",
    "naiad.serve.console",
    "naiad.serve.server",
)
"""What every server imports."""


class ForkedServer(subprocess.Popen[bytes]):
    """A server whose parent is the template. It has no pipes."""

    _child_created = False  # of Popen: it shall neither warn of this process nor wait for it

    def __init__(self, template: "Template", pid: int, command: Sequence[str]) -> None:
        self.args = command
        self.pid = pid
        self.stdin = self.stdout = self.stderr = None
        self._template = template
        self._status: int | None = None
        self._gone = os.pidfd_open(pid)
        self._ending = threading.Lock()

    @property
    @override
    def returncode(self) -> int | None:  # type: ignore[override]  # Popen's types say int, and mean this
        """Its exit status, once `poll` or `wait` has seen it."""
        return self._status

    @override
    def poll(self) -> int | None:
        return self._seen(0)

    @override
    def wait(self, timeout: float | None = None) -> int:
        status = self._seen(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return status

    def _seen(self, seconds: float | None) -> int | None:
        """Its exit status, if it ends within that time."""
        if self._status is None:
            ended = select.poll()
            ended.register(self._gone, select.POLLIN)
            if not ended.poll(None if seconds is None else max(seconds, 0) * 1000):
                return None
            with self._ending:
                if self._status is None:
                    self._status = self._template.status_of(self.pid)
        return self._status

    @override
    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._gone, sig)

    @override
    def __del__(self) -> None:
        os.close(self._gone)


class Template:
    """The process that has imported the server, as the process sees it that runs tests.

    Args:
        environ: the variables that it, and so each of its servers, is started with.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.reference.forking", str(theirs.fileno())],
                cwd=_ROOT,
                env=dict(environ),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def start(
        self,
        command: Sequence[str],
        arguments: Sequence[str],
        environ: Mapping[str, str],
        output: int,
    ) -> ForkedServer:
        """Fork a server.

        Args:
            command: what `ForkedServer.args` shall say.
            arguments: of `naiad`.
            environ: all its variables.
            output: a descriptor for what it prints.
        """
        request = {
            "arguments": [*arguments],
            "environ": {**environ},
            "folder": str(pathlib.Path.cwd()),
        }
        return ForkedServer(self, self._ask(request, output), command)

    def status_of(self, pid: int) -> int:
        """The exit status of a server that has ended, as Popen gives it; asked once."""
        return self._ask({"ended": pid})

    def _ask(self, request: dict[str, Any], *descriptors: int) -> int:
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        with self._asking:
            self._link.sendmsg([json.dumps(request).encode()], passed if descriptors else [])
            return int(self._link.recv(64))

    def close(self) -> None:
        """End it, and what it has forked and runs on."""
        self._link.close()
        self._process.wait()


class _Forking:
    """Whether servers are forked in this process, and its template."""

    def __init__(self) -> None:
        self.on = False
        self._template: Template | None = None
        self._environ: Mapping[str, str] = {}

    def template(self, environ: Mapping[str, str]) -> Template | None:
        """The template for servers with these variables; None: they are started anew."""
        if not self.on:
            return None
        at_start = {name: value for name, value in environ.items() if name != _CHANGES}
        if self._template is None:
            self._environ = at_start
            self._template = Template(environ)
            atexit.register(self._template.close)
        # Variables that the interpreter or a library reads while it starts would come too late for a fork.
        return self._template if self._environ == at_start else None


FORKING = _Forking()


@contextlib.contextmanager
def switched_off() -> Iterator[None]:
    """In the block, each server is a program of its own."""
    before, FORKING.on = FORKING.on, False
    try:
        yield
    finally:
        FORKING.on = before


def _serve_forks(link: socket.socket) -> dict[str, Any] | None:
    """Fork what is asked for until the other end is closed; gives a request in the process that is to serve it, None at the end."""
    running: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(link, _LARGEST_REQUEST, 1)
        if not data:
            break
        request: dict[str, Any] = json.loads(data)
        if "ended" in request:
            pid = request["ended"]
            _, status = os.waitpid(pid, 0)
            running.discard(pid)
            link.send(b"%d" % os.waitstatus_to_exitcode(status))
            continue
        (output,) = descriptors
        pid = os.fork()
        if pid == 0:
            link.close()
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            return request
        os.close(output)
        running.add(pid)
        link.send(b"%d" % pid)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    return None


def _main() -> None:
    link = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    assert threading.active_count() == 1, "a fork has the thread only that forks"
    request = _serve_forks(link)
    if request is None:
        return
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]
    os.environ.clear()
    os.environ.update(request["environ"])
    import naiad.__main__ as naiad  # noqa: PLC0415 - imported above, and not in the process that runs tests

    sys.argv = [str(naiad.__file__), *request["arguments"]]
    sys.exit(naiad.main())


if __name__ == "__main__":
    _main()
