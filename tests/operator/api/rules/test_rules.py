"""Every rule of the resource: broken by an example, and the same in CEL as in Python."""

import cel
import pytest

from naiad_operator.api.parsing import validation
from naiad_operator.api.rules import spec, table
from naiad_operator.api.rules.rule import Rule
from tests.operator.api.rules.rule_cases import BAD, GOOD, resource_of, with_defaults
from tests.support import manifests


def every_rule() -> list[Rule]:
    return [*spec.ROOT, *(rule for table in table.RULES.values() for rule in table)]


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_found_where_it_is(case: str) -> None:
    manifest, path = BAD[case]
    problems = validation.check(manifest, resource_of(manifest))
    assert path in [problem.path for problem in problems]


@pytest.mark.parametrize("case", GOOD)
def test_what_is_right_is_accepted(case: str) -> None:
    assert validation.check(GOOD[case], resource_of(GOOD[case])) == []


def test_every_rule_is_broken_by_an_example() -> None:
    broken = set()
    for manifest, _ in BAD.values():
        applied = validation.applied(manifest, with_defaults(manifest), resource_of(manifest))
        broken |= {rule.cel for rule, value, _ in applied if not rule.holds(value)}
    assert [rule.message for rule in every_rule() if rule.cel not in broken] == []


@pytest.mark.parametrize("case", [*BAD, *GOOD, *(path.stem for path in manifests.INPUTS)])
def test_a_rule_means_the_same_in_cel_and_in_python(case: str) -> None:
    known = {path.stem: path for path in manifests.INPUTS}
    manifest = BAD[case][0] if case in BAD else GOOD.get(case)
    if manifest is None:
        manifest = manifests.example(known[case])[0]
    applied = validation.applied(manifest, with_defaults(manifest), resource_of(manifest))
    for rule, value, path in applied:
        assert cel.evaluate(rule.cel, {"self": value}) is rule.holds(value), (path, rule.message)


def test_every_message_says_what_to_do() -> None:
    """A sentence, without a full stop, since others follow it."""
    for rule in every_rule():
        assert 30 < len(rule.message) < 300
        assert not rule.message.endswith(".")
