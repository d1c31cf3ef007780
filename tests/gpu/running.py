"""Runs GPU checks side by side, each in a process of its own with a time limit; those that want the GPU for themselves come last, one by one."""

import collections.abc
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from tests.gpu import machine, one
from tests.gpu.listing import Check
from tests.gpu.machine import Gpu
from tests.gpu.report import Outcome, State

_TO_END_S = 10
"""A check that gets SIGTERM has so long to stop its server."""


@dataclasses.dataclass
class _Running:
    check: Check
    folder: pathlib.Path
    process: subprocess.Popen[bytes]
    place: int
    began: float
    ends: float
    late: bool = False

    def signal(self, number: int) -> None:
        """Send it to the check; SIGKILL goes to its server as well."""
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(self.process.pid, number)
            else:
                self.process.send_signal(number)


def run(
    checks: collections.abc.Sequence[Check],
    gpu: Gpu,
    folder: pathlib.Path,
    *,
    seconds: float,
    side_by_side: int = 1,
) -> collections.abc.Iterator[Outcome]:
    """Run checks, and give the outcome of each when it is known."""
    until = time.monotonic() + seconds
    waiting = sorted(checks, key=lambda check: check.alone)
    running: list[_Running] = []
    try:
        yield from _turns(waiting, running, gpu, folder, (until, seconds, side_by_side))
    finally:  # whatever ended this run ends its servers as well
        for each in running:
            each.signal(signal.SIGKILL)


def _turns(
    waiting: list[Check],
    running: list[_Running],
    gpu: Gpu,
    folder: pathlib.Path,
    limits: tuple[float, float, int],
) -> collections.abc.Iterator[Outcome]:
    until, seconds, side_by_side = limits
    number = 0
    while waiting or running:
        while waiting and _may_begin(waiting[0], running, side_by_side):
            check = waiting.pop(0)
            if outcome := _skipped(check, until, seconds):
                yield outcome
                continue
            taken = {each.place for each in running}
            place = next(each for each in range(side_by_side) if each not in taken)
            running.append(_begin(check, gpu, folder / f"{number:02}", place, until))
            number += 1
        for each in tuple(running):
            if each.process.poll() is not None:
                running.remove(each)
                yield _outcome(each)
            elif time.monotonic() > each.ends:
                each.signal(signal.SIGKILL if each.late else signal.SIGTERM)
                each.late, each.ends = True, time.monotonic() + _TO_END_S
        time.sleep(0.02)


def _may_begin(check: Check, running: list[_Running], side_by_side: int) -> bool:
    if check.alone or any(each.check.alone for each in running):
        return not running
    return len(running) < side_by_side


def _skipped(check: Check, until: float, seconds: float) -> Outcome | None:
    missing = [each for each in check.needs if not machine.has(each)]
    if missing:
        return Outcome(check.name, "skipped", f"not installed: {', '.join(missing)}", 0.0)
    if time.monotonic() > until:
        return Outcome(check.name, "skipped", f"the {seconds:g} s of --seconds were over", 0.0)
    return None


def _begin(check: Check, gpu: Gpu, folder: pathlib.Path, place: int, until: float) -> _Running:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{check.run.__module__}:{check.run.__name__}"
    command = [sys.executable, "-m", "tests.gpu.one", name, str(folder), json.dumps(gpu._asdict())]
    # Ports of its own, by the same rule as the processes of a parallel test run.
    environ = {**os.environ, "PYTEST_XDIST_WORKER": f"gw{place}"}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
        )  # fmt: skip
    now = time.monotonic()
    return _Running(check, folder, process, place, now, min(now + check.limit_s, until + _TO_END_S))


def _outcome(ended: _Running) -> Outcome:
    seconds = time.monotonic() - ended.began
    result = ended.folder / one.RESULT
    if result.exists():
        found = json.loads(result.read_text())
        state: State = "failed" if found["failed"] else "passed"
        return Outcome(ended.check.name, state, found["detail"], seconds, found["log"])
    server = ended.folder / "server.log"
    log = server.read_text(errors="replace")[-4000:] if server.exists() else ""
    output = (ended.folder / "output").read_text(errors="replace").strip()
    why = f"not done after {ended.check.limit_s:g} s" if ended.late else f"ended with status {ended.process.returncode}"  # fmt: skip
    return Outcome(ended.check.name, "failed", f"{why}: {output[-400:]}", seconds, log)
