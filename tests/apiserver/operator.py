"""The operator as a process, started as a person or a chart would start it, and asked over its own port."""

import json
import os
import signal
import subprocess
import sys
import time
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from tests.apiserver.control_plane import ControlPlane
from tests.reference.forking import FORKING
from tests.support.waiting import pause

_ROOT = Path(__file__).resolve().parents[2]
_START_TIMEOUT_S = 120.0
_AT_REST_S = 2.0
"""Longer than an operator puts anything off by itself while nothing is in its way."""


class OperatorProcess:
    """`naiad-operator run` against one API server.

    Args:
        kubeconfig: whose credentials it uses.
        arguments: more of its command line.
        log: where its lines go.
        environ: more of its environment.
        module: the program; another release has one of its own.
    """

    def __init__(
        self,
        kubeconfig: Path,
        *arguments: str,
        log: Path,
        environ: Mapping[str, str] | None = None,
        module: str = "naiad_operator",
    ) -> None:
        self.log = log
        words = [
            "run",
            f"--kubeconfig={kubeconfig}",
            "--http-host=127.0.0.1",
            "--http-port=0",
            *arguments,
        ]
        command = [sys.executable, "-m", module, *words]
        places = [str(_ROOT / "operator"), str(_ROOT), os.environ.get("PYTHONPATH", "")]
        paths = os.pathsep.join(places)
        variables = {**os.environ, **(environ or {}), "PYTHONPATH": paths}
        self._seen = log.stat().st_size if log.exists() else 0
        template = FORKING.template(module, variables) if module == "naiad_operator" else None
        with log.open("ab") as out:
            if template is not None:
                self.process: subprocess.Popen[bytes] = template.start(
                    command, words, variables, out.fileno()
                )
            else:
                self.process = subprocess.Popen(
                    command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=variables
                )
        self._port = 0
        # One for all its life: to make the TLS context of another takes longer than most answers, and this asks often. Each connection is
        # closed with its answer, since the operator may end at any time.
        self._http = httpx.Client(timeout=120, trust_env=False, headers={"Connection": "close"})

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever happened in the block, it runs no more."""
        self.kill()

    @property
    def port(self) -> int:
        """The port of its probes, as it logged it."""
        if not self._port:
            deadline = time.monotonic() + _START_TIMEOUT_S
            while not (
                found := [line for line in self.lines() if "are on port" in line["message"]]
            ):
                self.check()
                assert time.monotonic() < deadline, f"the operator did not start: {self.tail()}"
                time.sleep(0.02)
            self._port = int(found[0]["message"].split()[-1])
        return self._port

    def lines(self) -> list[dict[str, typing.Any]]:
        """Its log lines since it was started."""
        found = []
        ended = self.process.poll() is not None
        text = self.log.read_bytes()[self._seen :]
        # Behind the last line break is a line that is only being written.
        for line in (text if ended else text.rpartition(b"\n")[0]).splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({"message": line.decode(errors="replace"), "level": "raw"})
        return found

    def tail(self) -> str:
        """Its last log lines, for a failing test's message."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-25:])

    def check(self) -> None:
        """Fails with the end of its log if it has ended."""
        assert self.process.poll() is None, f"the operator ended: {self.tail()}"

    def get(self, path: str) -> httpx.Response:
        """Asks its own port."""
        return self._http.get(f"http://127.0.0.1:{self.port}{path}")

    def wait_ready(self, *, seconds: float = _START_TIMEOUT_S) -> typing.Self:
        """Waits until it has looked at everything once."""
        began = time.monotonic()
        _ = self.port  # its start is not part of a look, whose length decides the pause behind it
        while True:
            looked = time.monotonic()
            self.check()
            try:
                answer = self.get("/readyz")
                # Probes are served before the operator runs, when nothing is left to look at either.
                if answer.status_code == 200 and self.synced():
                    return self
                text = answer.text
            except httpx.TransportError as error:
                text = str(error)
            now = time.monotonic()
            assert now < began + seconds, f"not ready: {text}\n{self.tail()}"
            time.sleep(pause(now - began, now - looked, shortest_s=0.02))

    def synced(self) -> bool:
        """Whether it has listed what there is."""
        return any("objects are known" in line["message"] for line in self.lines())

    def metric(self, name: str) -> float:
        """One value of its metrics page, labels written as there."""
        for line in self.get("/metrics").text.splitlines():
            if line.rpartition(" ")[0] == name:
                return float(line.rpartition(" ")[2])
        return 0.0

    def looks(self) -> float:
        """How often it has looked at a service, however that ended."""
        lines = self.get("/metrics").text.splitlines()
        found = [line for line in lines if line.startswith("naiad_operator_reconciles_total{")]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    def memory_mb(self) -> float:
        """Its resident memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_ms(self) -> float:
        """The processor time of its threads so far: the kernel counts it in nanoseconds, and other processes do not lengthen it."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        times = [(task / "schedstat").read_text(encoding="ascii").split()[0] for task in tasks]
        return sum(map(int, times)) / 1e6

    def kill(self) -> None:
        """Ends it as a crash would."""
        self.process.kill()
        self.process.wait(60)
        self._http.close()

    def stop(self, *, seconds: float = 120) -> int:
        """SIGTERM; gives its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._http.close()
        return status


def at_rest(plane: ControlPlane, *operators: OperatorProcess) -> int:
    """Waits until for a while there was no write and no reconcile of these operators; two that undo each other's work never come to rest.

    An empty queue is not enough: a delayed reconcile, or the one of a rollout's next event, is not in it yet.

    Returns:
        How many writes there have been.
    """
    deadline = time.monotonic() + 150
    first = plane.audit.write_count()
    seen: tuple[float, ...] = ()
    since = time.monotonic()
    while True:
        now = (plane.audit.write_count(), *(operator.looks() for operator in operators))
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > _AT_REST_S:
            return int(now[0])
        assert time.monotonic() < deadline, (
            f"no rest; written meanwhile: {plane.audit.writes(first)}"
        )
        time.sleep(0.2)


def bugs(lines: Sequence[Mapping[str, typing.Any]]) -> list[str]:
    """What a test must never find in an operator's log: exceptions, and lines that are not JSON."""
    return [
        f"{line['message']}\n{line.get('exception', '')}"
        for line in lines
        if "exception" in line or line.get("level") in ("raw", "critical")
    ]


def in_turns(namespace: str) -> tuple[str, ...]:
    """Options of operators that take turns: each watches a namespace, where their Lease is as well."""
    return (
        f"--watch-namespaces={namespace}",
        "--leader-election=true",
        f"--operator-namespace={namespace}",
    )
