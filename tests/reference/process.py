"""One server process on 127.0.0.1: started on free ports, waited for, stopped by its own id.

The same class carries the reference and Naiad, because both take Triton's options; the command decides which program
it is. Output goes to a file, since a pipe without a reader would block a server that writes much.
"""

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.reference.forking import FORKING, Template, compared
from tests.reference.install import ReferenceEnvironment
from tests.support.waiting import pause

_FIRST_PAUSE_S = 0.02
_NAIAD: tuple[str, ...] = (sys.executable, "-m", "naiad")
"""How Naiad of this tree is started; what it shall do, and options, stand behind it."""


class ServerFailedError(RuntimeError):
    """A server ended or did not get ready in time; the message carries the end of its log."""


@dataclass(frozen=True)
class Program:
    """How to start a server that understands Triton's options: the command in front of them, and its variables.

    Attributes:
        grace_s: how long one may take to end before it is killed.
    """

    name: str
    command: tuple[str, ...]
    environ: Mapping[str, str]
    grace_s: float = 20

    def run(self, options: Sequence[str], *, timeout_s: float = 30) -> tuple[int, str]:
        """Runs it to its end, for options that make it exit: gives the exit status and all output."""
        template = _template(self)
        if template is not None:
            return _run_fork(template, self, options, timeout_s)
        finished = subprocess.run(
            [*self.command, *options],
            env=dict(self.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return finished.returncode, finished.stdout


def reference_program(environment: ReferenceEnvironment) -> Program:
    """The real tritonserver of an installed environment, its Python backend and local cache in reach."""
    triton = environment.triton
    return Program(
        name="reference",
        command=(
            str(triton / "bin" / "tritonserver"),
            f"--backend-directory={triton / 'backends'}",
            f"--cache-directory={triton / 'caches'}",
        ),
        environ=environment.variables(),
        grace_s=5,  # 2.51 often waits for its own exit timeout, because a model does not unload
    )


def naiad_program() -> Program:
    """Naiad from this tree, with the interpreter that runs the tests, and with the engines that `NAIAD_TEST_GRPC_ENGINE` and `NAIAD_TEST_HTTP_ENGINE` name."""
    server = Path(__file__).resolve().parents[2] / "server"
    environ = {**os.environ, "PYTHONPATH": str(server), "TRITON_SERVER_CPU_ONLY": "1"}
    # Changes with each test: a program that one test has made is the same in the next, and is started as a fork there, too.
    environ.pop("PYTEST_CURRENT_TEST", None)
    command = (*_NAIAD, "serve")
    for protocol in ("grpc", "http"):
        if engine := os.environ.get(f"NAIAD_TEST_{protocol.upper()}_ENGINE"):
            command = (*command, f"--{protocol}-engine={engine}")
    return Program(name="naiad", command=command, environ=environ)


def grpcio_program() -> Program:
    """As `naiad_program`, with grpcio's engine of gRPC."""
    program = naiad_program()
    return replace(program, command=(*program.command, "--grpc-engine=grpcio"))


def _template(program: Program) -> Template | None:
    """The process that forks a program, where that is Naiad as it is, with whatever command and options."""
    ours = naiad_program()
    same = program.command[: len(_NAIAD)] == _NAIAD
    same = same and compared(program.environ) == compared(ours.environ)
    return FORKING.template("naiad", ours.environ) if same else None


def _run_fork(
    template: Template, program: Program, options: Sequence[str], timeout_s: float
) -> tuple[int, str]:
    """See `Program.run`."""
    command = [*program.command, *options]
    with tempfile.TemporaryFile() as output:
        running = template.start(command, command[len(_NAIAD) :], program.environ, output.fileno())
        try:
            status = running.wait(timeout_s)
        except BaseException:
            running.kill()
            raise
        output.seek(0)
        return status, output.read().decode()


@dataclass(frozen=True)
class Ports:
    """The three ports of a server on 127.0.0.1."""

    http: int
    grpc: int
    metrics: int

    @classmethod
    def free(cls) -> "Ports":
        """Three ports that are free now, and that this process has not handed out before."""
        return cls(*(_free_port() for _ in range(3)))


# Below the range that the system takes for clients' own ends: one of those could sit on the port before the server.
# Of the processes of a parallel test run each has its own ports, or two could hand out the same one at once.
_RANGE = range(18_000, 32_000)[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 8 :: 8]
_HANDED_OUT: set[int] = set()
_CHOOSING = threading.Lock()


def _free_port() -> int:
    with _CHOOSING:
        while True:
            port = random.choice(_RANGE)
            if port in _HANDED_OUT:
                continue
            with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                _HANDED_OUT.add(port)
                return port


class ServerProcess:
    """A running server. Use it as a context manager, or call `stop`.

    Args:
        program: what to start.
        repositories: the model repositories, in order.
        log: the file for the server's output.
        options: further options, in Triton's spelling.
        settle_s: how long the models may take to load.
        http_port: the HTTP port, where a free one will not do.
    """

    def __init__(
        self,
        program: Program,
        repositories: Sequence[Path],
        *,
        log: Path,
        options: Sequence[str] = (),
        settle_s: float = 180,
        http_port: int | None = None,
    ) -> None:
        self.program = program
        free = Ports.free()
        self.ports = free if http_port is None else replace(free, http=http_port)
        self.log = log
        self.settle_s = settle_s
        self.command = [
            *program.command,
            *(f"--model-repository={path}" for path in repositories),
            "--http-address=127.0.0.1",
            "--grpc-address=127.0.0.1",
            "--metrics-address=127.0.0.1",
            f"--http-port={self.ports.http}",
            f"--grpc-port={self.ports.grpc}",
            f"--metrics-port={self.ports.metrics}",
            *options,
        ]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def arguments(self) -> list[str]:
        """The words behind the program."""
        return self.command[len(self.program.command) :]

    @property
    def http(self) -> str:
        """`host:port` of HTTP."""
        return f"127.0.0.1:{self.ports.http}"

    @property
    def grpc(self) -> str:
        """`host:port` of gRPC."""
        return f"127.0.0.1:{self.ports.grpc}"

    @property
    def metrics(self) -> str:
        """`host:port` of the metrics."""
        return f"127.0.0.1:{self.ports.metrics}"

    def start(self) -> Self:
        """Starts the process; `wait` waits for it."""
        with self.log.open("wb") as output:
            template = _template(self.program)
            if template is not None:
                arguments = self.command[len(_NAIAD) :]
                self.process = template.start(
                    self.command, arguments, self.program.environ, output.fileno()
                )
                return self
            self.process = subprocess.Popen(
                self.command,
                env=dict(self.program.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return self

    def wait(self) -> Self:
        """Waits until it is live and no model is still loading (a repository may hold models that never load).

        Raises:
            ServerFailedError: it ended, or took longer than `settle_s`.
        """
        assert self.process is not None
        begun = time.monotonic()
        while (waited := time.monotonic() - begun) < self.settle_s:
            status = self.process.poll()
            if status is not None:
                raise ServerFailedError(f"{self.program.name} exited {status}\n{self.tail()}")
            if self._settled():
                return self
            looked = time.monotonic() - begun - waited
            time.sleep(pause(waited, looked, shortest_s=_FIRST_PAUSE_S))
        self.stop()
        raise ServerFailedError(
            f"{self.program.name} not up after {self.settle_s} s\n{self.tail()}"
        )

    def _settled(self) -> bool:
        return self._loaded() and self._metrics_listen()

    def _metrics_listen(self) -> bool:
        """Tritonserver opens the metrics port last, so a client that connects right after HTTP is ready may be too early."""
        if any(option.startswith("--allow-metrics=f") for option in self.command):
            return True
        try:
            with socket.create_connection(("127.0.0.1", self.ports.metrics), timeout=2):
                return True
        except OSError:
            return False

    def _loaded(self) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.ports.http, timeout=2)
            with contextlib.closing(connection):
                connection.request("GET", "/v2/health/live")
                reply = connection.getresponse()
                reply.read()
                if reply.status != http.HTTPStatus.OK:
                    # A restricted health API answers 403 from a server that is up.
                    return reply.status == http.HTTPStatus.FORBIDDEN
                connection.request("GET", "/v2/health/ready")
                reply = connection.getresponse()
                reply.read()
                if (
                    reply.status == http.HTTPStatus.OK
                    and "--strict-readiness=false" not in self.command
                ):
                    # Every model is ready. The index would make Naiad import its control plane, which costs as much as the whole start.
                    return True
                connection.request("POST", "/v2/repository/index")
                reply = connection.getresponse()
                body = reply.read()
                if reply.status != http.HTTPStatus.OK:
                    return True
                states = [model.get("state") for model in json.loads(body)]
                return not any(state in {"LOADING", "UNLOADING"} for state in states)
        except (OSError, http.client.HTTPException):
            return False

    def ask_to_stop(self) -> None:
        """Sends SIGTERM and does not wait; so several can end side by side."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def stop(self, *, timeout_s: float = 20) -> int | None:
        """Ends it: SIGTERM, and SIGKILL if that does not do. Gives its exit status."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.ask_to_stop()
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                # Its stubs would live on, with the pipes that they have inherited from the test run.
                for pid in [self.process.pid, *descendants(self.process.pid)]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self.process.wait()
        return self.process.returncode

    def output(self) -> str:
        """All it has printed so far."""
        return self.log.read_text(errors="replace")

    def tail(self) -> str:
        """The end of its output."""
        return self.output()[-4000:]

    def __enter__(self) -> Self:
        return self.start().wait()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(timeout_s=self.program.grace_s)


def children(pid: int) -> list[int]:
    """The processes that a process has started, in whichever of its threads."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += map(int, file.read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    return [each for child in children(pid) for each in (child, *descendants(child))]
