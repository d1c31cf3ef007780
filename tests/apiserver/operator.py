"""The operator as a process, started as a person or a chart would start it, and asked over its own port."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.apiserver import toolchain

_ROOT = Path(__file__).resolve().parents[2]
_START_TIMEOUT_S = 30.0


class OperatorProcess:
    """`naiad-operator run` against one API server.

    Args:
        kubeconfig: whose credentials it uses.
        arguments: more of its command line.
        log: where its lines go.
    """

    def __init__(
        self,
        kubeconfig: Path,
        *arguments: str,
        log: Path,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        command = [sys.executable, "-m", "naiad_operator", "run"]
        command += [f"--kubeconfig={kubeconfig}", "--http-host=127.0.0.1", "--http-port=0"]
        paths = os.pathsep.join([str(_ROOT / "operator"), os.environ.get("PYTHONPATH", "")])
        self._seen = log.stat().st_size if log.exists() else 0
        inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        # Compiled once and kept outside the tree, as an image has it: compiling anew takes most of a start.
        inherited["PYTHONPYCACHEPREFIX"] = str(toolchain.cache_folder().with_name("pycache"))
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [*command, *arguments],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env={**inherited, **(environ or {}), "PYTHONPATH": paths},
            )
        self._port = 0

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

    def lines(self) -> list[dict[str, Any]]:
        """Its log lines since it was started."""
        found = []
        for line in self.log.read_bytes()[self._seen :].splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({"message": line.decode(errors="replace"), "level": "raw"})
        return found

    def tail(self) -> str:
        """Its last log lines, for a failing test's message."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-25:])

    def check(self) -> None:
        """Fails with its last words if it has ended."""
        assert self.process.poll() is None, f"the operator ended: {self.tail()}"

    def get(self, path: str) -> httpx.Response:
        """Asks its own port."""
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=5, trust_env=False)

    def wait_ready(self, *, seconds: float = _START_TIMEOUT_S) -> "OperatorProcess":
        """Waits until it has looked at everything once."""
        deadline = time.monotonic() + seconds
        while True:
            self.check()
            try:
                answer = self.get("/readyz")
                # Probes are served before the operator runs, when nothing is left to look at either.
                if answer.status_code == 200 and self.synced():
                    return self
                said = answer.text
            except httpx.TransportError as error:
                said = str(error)
            assert time.monotonic() < deadline, f"not ready: {said}\n{self.tail()}"
            time.sleep(0.02)

    def synced(self) -> bool:
        """Whether it has listed what there is."""
        return any("objects are known" in line["message"] for line in self.lines())

    def metric(self, name: str) -> float:
        """One value of its metrics page, labels written as there."""
        for line in self.get("/metrics").text.splitlines():
            if line.rpartition(" ")[0] == name:
                return float(line.rpartition(" ")[2])
        return 0.0

    def memory_mb(self) -> float:
        """Its resident memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def kill(self) -> None:
        """Ends it as a crash would."""
        self.process.kill()
        self.process.wait(10)

    def stop(self, *, seconds: float = 30) -> int:
        """SIGTERM; gives its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def bugs(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a test must never find in an operator's log: exceptions, and lines that are no JSON."""
    return [
        f"{line['message']}\n{line.get('exception', '')}"
        for line in lines
        if "exception" in line or line.get("level") in ("raw", "critical")
    ]
