"""Finds a worker process that runs no more at all: one that is stopped, or in which a sleeping thread keeps the interpreter lock.

Nothing else would find it: its sockets stay open, and a batch without a time limit may take as long as it likes. The server looks at the state
of the process from time to time, and sends it a question that its listening thread answers beside batches. `Liveness` decides, purely:

* it is stopped (SIGSTOP, SIGTSTP) for `STOPPED_NS`;
* it has answered nothing for `SILENT_NS`, and has computed less than a twentieth of that time. A model that computes and holds the lock
  meanwhile is not silent in this sense, however long it takes, nor is a worker that waits for a processor of a busy machine.

A worker under a debugger is left alone: one that traces the process, or one for Python in it, which stops the listening thread as well. What
the server did not see, because it was stopped itself, does not count.
"""

import asyncio
import collections.abc
import pathlib
import time

from naiad.core.clock import Clock
from naiad.core.record import Record

INTERVAL_S = 10.0
STOPPED_NS = 30_000_000_000
SILENT_NS = 300_000_000_000

_MOST_GAP_NS = 3 * int(INTERVAL_S * 1e9)
_COMPUTES = 0.05
_STOPPED, _TRACED = "T", "t"
_PROCESS_CLOCK = 2
_NS_PER_SECOND = 1_000_000_000


class Sample(Record, frozen=True):
    """What the system says of a process.

    Attributes:
        state: as in `ps`: "R" runs, "S" sleeps, "D" waits in a system call, "T" is stopped, "t" is stopped by a debugger.
        traced: whether another process debugs it.
        cpu_ns: processor time of all its threads so far.
    """

    state: str
    traced: bool
    cpu_ns: int


class Decision(Record, frozen=True):
    """What to do: ask the process, or end it; `dead` follows "its worker process ", "" if it is alive."""

    ask: bool = False
    dead: str = ""


_WAIT = Decision()
_ASK = Decision(ask=True)


class Liveness:
    """Whether one process is alive, by what is seen of it. Knows neither clock nor process."""

    __slots__ = ("_asked_ns", "_cpu_ns", "_debugged", "_seen_ns", "_stopped_ns")

    def __init__(self) -> None:
        self._seen_ns: int | None = None
        self._stopped_ns: int | None = None
        self._asked_ns: int | None = None
        self._cpu_ns = 0
        self._debugged = False

    def answered(self, *, debugged: bool) -> None:
        """It answered; `debugged`: a debugger for Python is loaded in it."""
        self._asked_ns = None
        self._debugged = debugged

    def decide(self, now_ns: int, sample: Sample, *, serves: bool) -> Decision:
        """What to do now; `serves`: it has loaded its model, and should answer."""
        seen_ns, self._seen_ns = self._seen_ns, now_ns
        unseen = seen_ns is None or now_ns - seen_ns > _MOST_GAP_NS
        if unseen or sample.traced or sample.state == _TRACED:
            self._stopped_ns = self._asked_ns = None
            return _WAIT
        if sample.state == _STOPPED:
            return self._decide_stopped(now_ns)
        self._stopped_ns = None
        if not serves or self._debugged:
            self._asked_ns = None
            return _ASK if serves else _WAIT
        return self._decide_silent(now_ns, sample.cpu_ns)

    def _decide_stopped(self, now_ns: int) -> Decision:
        self._asked_ns = None
        if self._stopped_ns is None:
            self._stopped_ns = now_ns
        stopped_ns = now_ns - self._stopped_ns
        if stopped_ns < STOPPED_NS:
            return _WAIT
        seconds = stopped_ns // _NS_PER_SECOND
        return Decision(dead=f"was stopped by a signal for {seconds} s and was killed")

    def _decide_silent(self, now_ns: int, cpu_ns: int) -> Decision:
        if self._asked_ns is None:
            self._asked_ns, self._cpu_ns = now_ns, cpu_ns
            return _ASK
        silent_ns = now_ns - self._asked_ns
        if silent_ns < SILENT_NS:
            return _WAIT
        if cpu_ns - self._cpu_ns > silent_ns * _COMPUTES:
            self._asked_ns, self._cpu_ns = now_ns, cpu_ns
            return _WAIT
        seconds = silent_ns // _NS_PER_SECOND
        return Decision(
            dead=f"answered nothing for {seconds} s, computed next to nothing meanwhile, and was killed"
        )


def look_at(pid: int) -> Sample | None:
    """What the system says of a process; None if it is gone."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        # The clock of a process's processor time, as `clock_getcpuclockid` makes it.
        cpu_ns = time.clock_gettime_ns((~pid << 3) | _PROCESS_CLOCK)
    except OSError:
        return None
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return Sample(fields["State"][0], fields["TracerPid"] != "0", cpu_ns)


class LivenessWatch:
    """Watches one process. All methods are called on the event loop.

    Args:
        pid: the process, not reaped before `stop`.
        ask: sends it the question.
        on_dead: called once, with what follows "its worker process ".
        clock: gives the time.
        loop: the event loop.
        look: gives what the system says of a process.

    Attributes:
        serves: whether it has loaded its model.
        answered: called with each answer.
    """

    __slots__ = (
        "_ask",
        "_liveness",
        "_look",
        "_loop",
        "_now",
        "_on_dead",
        "_pid",
        "_timer",
        "answered",
        "serves",
    )

    def __init__(
        self,
        pid: int,
        *,
        ask: collections.abc.Callable[[], None],
        on_dead: collections.abc.Callable[[str], None],
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        look: collections.abc.Callable[[int], Sample | None] = look_at,
    ) -> None:
        self._pid = pid
        self._ask = ask
        self._on_dead = on_dead
        self._now = clock.monotonic_ns
        self._loop = loop
        self._look = look
        self._liveness = Liveness()
        self.answered = self._liveness.answered
        self.serves = False
        self._timer: asyncio.TimerHandle | None = loop.call_later(INTERVAL_S, self._check)

    def stop(self) -> None:
        """Watch no more: it is being ended, or is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        sample = self._look(self._pid)
        if sample is None:  # its exit is reported in another way
            self._timer = None
            return
        decision = self._liveness.decide(self._now(), sample, serves=self.serves)
        if decision.dead:
            self._timer = None
            self._on_dead(decision.dead)
            return
        self._timer = self._loop.call_later(INTERVAL_S, self._check)
        if decision.ask:
            self._ask()
