"""Asks both servers a scenario, and again where that is fair: the reference must not fail a run by its own faults.

2.51 ends or falls silent over a stream now and then (about one time in four where decoupled answers and others share
one) and seldom hangs when it is to end. So a scenario is asked again, on fresh servers, where the reference gave no answer
or did not do what the row says. A fault of Naiad's beside a reference that behaved counts the first time.
"""

import contextlib
import http.client
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import grpc

from tests.conformance.comparison.differences import DIFFERENCES
from tests.conformance.comparison.verdict import Verdict, judge
from tests.conformance.scenarios.scenario import Scenario, normalised
from tests.conformance.scenarios.wire import Answer, Target
from tests.conformance.servers.setups import SETUPS, Servers
from tests.reference.forking import switched_off
from tests.reference.process import ServerFailedError

TRIES = 3
"""How often a scenario is asked while the reference does not do what the row says."""

TRIES_OF_A_SILENT_REFERENCE = 8
"""The same where the reference gave no answer, so that nothing was compared."""

SECONDS = 60.0
"""How long after the first ask the last one may begin."""

_NO_ANSWER = "no answer"
_GONE = {repr("UNAVAILABLE"), repr("DEADLINE_EXCEEDED")}
_GRACE_S = 1.0
"""How long a process whose connection broke may take until it has ended."""

Record = Callable[[Scenario, Target, Mapping[str, str]], None]


@dataclass(frozen=True)
class Asked:
    """What came of asking once.

    Attributes:
        verdict: the faults, and the differences that showed.
        silent: the reference gave no answer.
        ended: Naiad's exit status, where it ended over the scenario.
        agreed: both servers gave the same answer.
    """

    verdict: Verdict
    silent: bool = False
    ended: int | None = None
    agreed: bool = False

    def again(self, times: int, seconds: float) -> bool:
        """Whether to ask again, on fresh servers, what has been asked so many times, for so long."""
        if not self.verdict.faults or self.ended is not None or self.agreed:
            return False
        if seconds > SECONDS:
            return False
        if self.silent:
            return times < TRIES_OF_A_SILENT_REFERENCE
        return self.verdict.reference_missed and times < TRIES


def ask(scenario: Scenario, servers: Servers, record: Record) -> Asked:
    """Asks each server once, both at the same time unless scenarios of the set-up change the repository that they share.

    After a fault, and where one ended, the next scenario of the set-up gets fresh servers.

    Args:
        scenario: what to ask.
        servers: those under comparison, the reference first.
        record: is shown each normalised answer.
    """
    targets = servers.targets(scenario.server)
    unstarted = scenario.server == "unstarted"
    in_turn = not unstarted and SETUPS[scenario.server].in_turn
    with (
        switched_off() if unstarted else contextlib.nullcontext(),
        ThreadPoolExecutor(1 if in_turn else len(targets)) as pool,
    ):
        asked = [pool.submit(_answer, scenario, target) for target in targets]
    answers = [normalised(scenario, one.result()) for one in asked]
    for target, answer in zip(targets, answers, strict=True):
        record(scenario, target, answer)
    verdict = judge(scenario, answers[0], answers[1] if answers[1:] else None, DIFFERENCES)
    agreed = answers[1:] == answers[:1] and _NO_ANSWER not in answers[0]
    if unstarted:
        return Asked(verdict, is_silent(answers[0]), agreed=agreed)
    grace_s = _GRACE_S if verdict.faults else 0
    ended = [_ended(target, grace_s) for target in targets]
    if verdict.faults or any(status is not None for status in ended):
        servers.drop(scenario.server)
    return Asked(
        verdict,
        is_silent(answers[0]),
        ended=ended[1] if ended[1:] else None,
        agreed=agreed,
    )


def is_silent(answer: Mapping[str, str]) -> bool:
    """Whether a server gave no answer, told by the leaves of what was made of it."""
    return _NO_ANSWER in answer or not _GONE.isdisjoint(answer.values())


def _answer(scenario: Scenario, target: Target) -> Answer:
    try:
        return scenario.ask(target)
    except (
        OSError,
        http.client.HTTPException,
        grpc.RpcError,
        subprocess.TimeoutExpired,
        ServerFailedError,
    ) as error:
        return {_NO_ANSWER: f"{type(error).__name__}: {error}"}


def _ended(target: Target, grace_s: float) -> int | None:
    assert target.process.process is not None
    try:
        return target.process.process.wait(grace_s)
    except subprocess.TimeoutExpired:
        return None
