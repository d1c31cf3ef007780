"""Starts servers and operators as forks of a process that has imported the program: imports are four fifths of the processor time of a start.

A process that runs tests has one such template of each program, which it starts with the first server or operator, and which ends with it. A fork
has the arguments, variables, streams and folder that a program of its own would have, and calls `main` of the program's `__main__`. Where a test is
about the start, or the process as a whole, `switched_off` gives it a whole interpreter, as users have; so does each change of the command or of the
variables. Benchmarks never switch it on.
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
_SET_FOR_EACH = {
    "PYTHONPATH", "TRITON_SERVER_CPU_ONLY", "XDG_CACHE_HOME", "PYTEST_CURRENT_TEST", "NAIAD_CUDART", "CUDA_DEVICE_ORDER",
}  # fmt: skip
"""Variables that may differ from the template's: what each server or operator of the tests is given, which a fork reads as a program of its own does; what pytest
changes for each test, what `tests.support.cuda` leaves behind and is read when a tensor on a GPU first comes, and what a server sets itself, also one in the tests'
own process.
"""

_IMPORTED = {
    "naiad": (
        "naiad.options.parsing",
        "naiad.serve.signals",
        "naiad.serve.command",
        "naiad.serve.console",
        "naiad.serve.server",
    ),
    "naiad_operator": ("naiad_operator.cli", "naiad_operator.logs", "naiad_operator.handlers.run"),
}
"""What each process of a program imports."""


class Fork(subprocess.Popen[bytes]):
    """A process whose parent is the template. It has no pipes."""

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
    """The process that has imported a program, as the process sees it that runs tests.

    Args:
        package: the program's.
        environ: the variables that it, and so each of its forks, is started with.
    """

    def __init__(self, package: str, environ: Mapping[str, str]) -> None:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.reference.forking", package, str(theirs.fileno())],
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
    ) -> Fork:
        """Fork.

        Args:
            command: what `Fork.args` shall say.
            arguments: those behind the program's name.
            environ: all variables.
            output: a descriptor for what is printed.
        """
        request = {
            "arguments": [*arguments],
            "environ": {**environ},
            "folder": str(pathlib.Path.cwd()),
        }
        return Fork(self, self._ask(request, output), command)

    def status_of(self, pid: int) -> int:
        """The exit status of a fork that has ended, as Popen gives it; asked once."""
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
    """Whether this process forks what it starts, and its templates."""

    def __init__(self) -> None:
        self.on = False
        self._environ: Mapping[str, str] = {}
        self._templates: dict[str, Template] = {}

    def switch_on(self) -> None:
        """From now on: programs with the variables that this process has now."""
        self.on = True
        self._environ = compared(os.environ)

    def template(self, package: str, environ: Mapping[str, str]) -> Template | None:
        """The template for a program with these variables; None: it is started as a program of its own.

        Variables that the interpreter or a library reads while it starts would come too late for a fork.
        """
        if not self.on or compared(environ) != self._environ:
            return None
        if package not in self._templates:
            self._templates[package] = Template(package, environ)
            atexit.register(self._templates[package].close)
        return self._templates[package]


def compared(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that must be those of the template."""
    return {name: value for name, value in environ.items() if name not in _SET_FOR_EACH}


FORKING = _Forking()


@contextlib.contextmanager
def switched_off() -> Iterator[None]:
    """In the block, whatever is started is a program of its own."""
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


def _find_packages(template: str, ours: str) -> None:
    """Look where the variable PYTHONPATH of this process says, not where that of the template did."""
    sys.path[1 : 1 + len(template.split(os.pathsep))] = ours.split(os.pathsep)


def _main() -> None:
    _, package, descriptor = sys.argv
    link = socket.socket(fileno=int(descriptor))
    gc.disable()
    program = importlib.import_module(f"{package}.__main__")
    for name in _IMPORTED[package]:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    assert threading.active_count() == 1, "a fork has the thread only that forks"
    request = _serve_forks(link)
    if request is None:
        return
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]
    _find_packages(os.environ["PYTHONPATH"], request["environ"]["PYTHONPATH"])
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv = [str(program.__file__), *request["arguments"]]
    sys.exit(program.main())


if __name__ == "__main__":
    _main()
