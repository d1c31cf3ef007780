"""Compares the two answers to a scenario: pure, so that the comparison itself is tested."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.conformance.scenarios.scenario import Scenario, differing, stated, unmet


@dataclass(frozen=True)
class Difference:
    """A difference that is meant.

    Attributes:
        scenario: the scenario's name.
        path: the leaf that differs, or a pattern of leaves.
        reason: why: the row that a newer Triton follows, or the decision of ours.
    """

    scenario: str
    path: str
    reason: str

    def covers(self, scenario: str, path: str) -> bool:
        """Whether this difference is about that leaf of that scenario."""
        return scenario == self.scenario and fnmatchcase(path, self.path)


@dataclass(frozen=True)
class Verdict:
    """What came out of one scenario.

    Attributes:
        faults: one sentence a fault; none when all is as it should be.
        used: the differences that showed.
        reference_missed: the reference does not do what the row says, and no difference covers that.
    """

    faults: tuple[str, ...]
    used: tuple[Difference, ...]
    reference_missed: bool = False


def judge(
    scenario: Scenario,
    reference: Mapping[str, str],
    ours: Mapping[str, str] | None,
    differences: Sequence[Difference],
) -> Verdict:
    """Compares two normalised answers.

    Args:
        scenario: what was asked.
        reference: the real server's answer, as leaves.
        ours: Naiad's, or None when only the reference was asked.
        differences: all that are meant.

    Returns:
        Faults: a leaf that differs although no difference covers it; a row's statement that Naiad does not fulfil, or
        that the reference does not and no difference covers; a difference named for just this scenario that is gone.
    """
    meant = [
        difference for difference in differences if fnmatchcase(scenario.name, difference.scenario)
    ]
    used: list[Difference] = []
    faults: list[str] = []

    def covered(path: str) -> bool:
        found = [difference for difference in meant if difference.covers(scenario.name, path)]
        used.extend(found)
        return bool(found)

    faults.extend(
        f"the reference does not do what {_rows(scenario)} says: {path} is {answered}, not {wanted}"
        for path, (wanted, answered) in unmet(scenario, reference).items()
        if not covered(path)
    )
    missed = bool(faults)
    if ours is None:
        return Verdict(tuple(faults), tuple(used), missed)
    faults.extend(
        f"{path}: the reference answers {theirs}, Naiad {answered}"
        for path, (theirs, answered) in differing(reference, ours).items()
        if not covered(path)
    )
    faults.extend(
        f"Naiad does not do what {_rows(scenario)} says: {path} is {answered}, not {wanted}"
        for path, (wanted, answered) in unmet(scenario, ours).items()
    )
    faults.extend(
        f"{difference.path} no longer differs: take it out of the differences ({difference.reason})"
        for difference in meant
        if difference not in used
    )
    return Verdict(tuple(faults), tuple(used), missed)


def vague(difference: Difference, scenario: Scenario) -> str | None:
    """Why a difference with a pattern allows too much, if it does: Naiad's side of it must be stated, or any answer passes."""
    if "*" not in difference.path:
        return None
    said = stated(scenario)
    fitting = [path for path in said if fnmatchcase(path, difference.path)]
    if not fitting:
        return f"{difference.scenario}: nothing is stated of {difference.path}"
    outcome = [path for path in ("status", "code") if path in said]
    if difference.path == "*" and len(fitting) == len(outcome):
        return f"{difference.scenario}: only {' and '.join(outcome)} is stated, state what is said or answered too"
    return None


def _rows(scenario: Scenario) -> str:
    return f"row {', '.join(scenario.rows)}"
