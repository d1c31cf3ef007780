"""The comparison of answers, and the tables it works with: rows and differences name what exists."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.comparison.asking import (
    SECONDS,
    TRIES,
    TRIES_OF_A_SILENT_REFERENCE,
    Asked,
    ask,
    is_silent,
)
from tests.conformance.comparison.differences import DIFFERENCES
from tests.conformance.comparison.rows import CLAIMED, TABLE, UNSHOWN, report
from tests.conformance.comparison.verdict import Difference, Verdict, judge, vague
from tests.conformance.scenarios.scenario import Scenario, leaves, normalised
from tests.conformance.scenarios.wire import Answer
from tests.conformance.servers.setups import Servers
from tests.reference.process import Program

_ASKED = Scenario("asked", ("1.1",), lambda _target: {}, expect={"status": 200})
_OK = {"status": "200"}


def test_equal_answers_that_do_what_the_row_says_have_no_fault() -> None:
    assert judge(_ASKED, _OK, _OK, ()).faults == ()


def test_answers_that_agree_against_the_row_are_faults_of_both() -> None:
    wrong = {"status": "500"}
    assert len(judge(_ASKED, wrong, wrong, ()).faults) == 2


def test_a_difference_that_is_not_listed_is_a_fault() -> None:
    faults = judge(_ASKED, {**_OK, "id": "'a'"}, {**_OK, "id": "'b'"}, ()).faults
    assert faults == ("id: the reference answers 'a', Naiad 'b'",)


def test_a_leaf_that_only_one_server_has_is_a_difference() -> None:
    assert "(absent)" in judge(_ASKED, {**_OK, "more": "1"}, _OK, ()).faults[0]


def test_a_listed_difference_excuses_the_reference_but_not_naiad() -> None:
    listed = Difference("asked", "status", "older")
    verdict = judge(_ASKED, {"status": "500"}, _OK, (listed,))
    assert verdict.faults == ()
    assert listed in verdict.used
    assert judge(_ASKED, _OK, {"status": "500"}, (listed,)).faults != ()


def test_a_listed_difference_that_is_gone_is_a_fault() -> None:
    faults = judge(_ASKED, _OK, _OK, (Difference("asked", "status", "older"),)).faults
    assert "no longer differs" in faults[0]


def test_without_naiad_only_the_rows_are_held_against_the_reference() -> None:
    assert judge(_ASKED, _OK, None, (Difference("asked", "status", "older"),)).faults == ()
    assert judge(_ASKED, {"status": "500"}, None, ()).faults != ()


def test_leaves_tell_numbers_and_booleans_apart_and_nan_equals_itself() -> None:
    assert leaves({"a": [1, 1.0, True, float("nan")], "b": {}}) == {
        "a.0": "1",
        "a.1": "1.0",
        "a.2": "True",
        "a.3": "nan",
        "b": "{}",
    }


def test_an_errors_text_counts_only_by_the_fragment() -> None:
    scenario = Scenario("s", ("1.1",), lambda _target: {}, says="unknown", mask=("times.*",))
    answer = {"error": "an unknown model, try another", "times": {"ns": 3}}
    assert normalised(scenario, answer) == {"says": "'unknown'"}
    assert "something else" in normalised(scenario, {"error": "no"})["says"]


_FAULTY = Verdict(("wrong",), ())
_MISSED = Verdict(("wrong",), (), reference_missed=True)


def test_a_fault_beside_a_reference_that_behaved_counts_the_first_time() -> None:
    faulty = judge(_ASKED, _OK, {"status": "500"}, ())
    assert faulty.faults
    assert not Asked(faulty).again(1, 0)
    assert not Asked(Verdict((), ())).again(1, 0)


def test_what_the_reference_missed_is_asked_again_and_more_often_where_it_is_silent() -> None:
    assert judge(_ASKED, {"status": "500"}, _OK, ()).reference_missed
    listed = Difference("asked", "status", "older")
    assert not judge(_ASKED, {"status": "500"}, _OK, (listed,)).reference_missed
    assert [Asked(_MISSED).again(times, 0) for times in (1, TRIES - 1, TRIES)] == [
        True,
        True,
        False,
    ]
    assert Asked(_FAULTY, silent=True).again(TRIES, 0)
    assert not Asked(_FAULTY, silent=True).again(TRIES_OF_A_SILENT_REFERENCE, 0)


def test_nothing_is_asked_again_after_the_time_for_it() -> None:
    for asked in (Asked(_MISSED), Asked(_FAULTY, silent=True)):
        assert asked.again(1, SECONDS)
        assert not asked.again(1, SECONDS + 0.1)


@pytest.mark.parametrize(
    ("reference", "ours", "again"),
    [
        ({"status": 500}, {"status": 200}, True),
        ({"status": 500}, {"status": 500}, False),
        ({"code": "UNAVAILABLE"}, {"code": "OK"}, True),
        ({"code": "UNAVAILABLE"}, {"code": "UNAVAILABLE"}, False),
    ],
    ids=str,
)
def test_a_wrong_answer_that_both_servers_gave_is_not_asked_again(
    tmp_path: Path, reference: Answer, ours: Answer, *, again: bool
) -> None:
    answers = {"reference": reference, "naiad": ours}
    programs = tuple(Program(name, (), {}) for name in answers)
    scenario = Scenario(
        "asked",
        ("1.1",),
        lambda target: answers[target.name],
        expect={"status": 200},
        server="unstarted",
    )
    asked = ask(scenario, Servers(tmp_path, programs), lambda *_: None)
    assert asked.verdict.faults
    assert asked.again(1, 0) is again


@pytest.mark.parametrize(
    ("path", "stated", "enough"),
    [
        ("*", {}, False),
        ("*", {"expect": {"status": 400}}, False),
        ("*", {"expect": {"status": 400}, "says": "no such model"}, True),
        ("*", {"expect": {"code": "OK", "message.ready": False}}, True),
        ("report*", {"expect": {"status": 200}}, False),
        ("report*", {"expect": {"report.a": 1}}, True),
        ("status", {}, True),
    ],
)
def test_a_difference_with_a_pattern_needs_naiads_answer_stated(
    *, path: str, stated: dict[str, Any], enough: bool
) -> None:
    scenario = Scenario("asked", ("1.1",), lambda _target: {}, **stated)
    assert (vague(Difference("asked", path, "older"), scenario) is None) is enough


def test_the_report_has_every_row_of_the_table() -> None:
    *lines, count = report({"1.1", "18.1"})
    assert len(lines) == len(TABLE) == 436
    assert lines[0] == "1.1 error→status map: shown"
    assert "1.11 size limit: claimed, not shown: 2.51 has no" in "\n".join(lines)
    assert "not claimed" in lines[-1]
    assert count.startswith("of 436 rows 2 are shown, ")


def test_what_naiad_ended_over_is_not_asked_again() -> None:
    assert not Asked(_FAULTY, silent=True, ended=-11).again(1, 0)


def test_a_lost_connection_and_an_expired_call_are_silence() -> None:
    assert is_silent({"no answer": "'ConnectionRefusedError'"})
    assert is_silent({"code": "'UNAVAILABLE'", "responses": "[]"})
    assert is_silent({"code": "'DEADLINE_EXCEEDED'"})
    assert not is_silent({"code": "'OK'"})


_NO_TEXT = "the status is all that a client gets"
_WHOLE_TEXT = "the whole text is compared, as a leaf of the answer"
_IN_EVENTS = "the message is in the events, which are compared"
_NAMES_THE_FAULT = "2.51 says only that the value is invalid; Naiad says what is expected"
UNWORDED: dict[str, str] = {
    "health check's status": "a status of the protocol, no error",
    "health check's status when not ready": "a status of the protocol, no error",
    "health watch": _NO_TEXT,
    "no reflection": "2.51 gives no text",
    "a method that does not exist": "2.51 gives no text",
    "not ready with failed models": "the body is empty",
    "namespaces: readiness": "the body is empty",
    "namespaces: readiness of an unknown model": "the body is empty",
    "namespaces: statistics of an ambiguous name": "2.51 says of this request alone that the model is not available",
    "a model in two repositories": "the reason is compared, in the index",
    "more than 65536 chunks": _NO_TEXT,
    "later changes are ignored": _NO_TEXT,
    "--rate-limit=sometimes": _NAMES_THE_FAULT,
    "--rate-limit-resource with a word": _NAMES_THE_FAULT,
    "cache: without its size": "2.51 says that the size is missing; Naiad refuses the setting in its place, which 2.51 passes over",
    "cache: an unknown one": "2.51 names the library that it does not find; Naiad has none, and names its caches",
    "POST metrics": _NO_TEXT,
    "gRPC deadline": "the client's own library makes the message",
    "gRPC cancel": "the client's own library makes the message",
    "stream: cancel": "the client's own library makes the message",
    **{
        f"TraceSetting: {name}": _WHOLE_TEXT
        for name in (
            "two rates",
            "two counts",
            "two frequencies",
            "off beside a level",
            "a rate that is not a number",
            "a rate of 0 while it is on",
            "a count of -2",
            "a frequency out of range",
            "the file",
        )
    },
    **{
        f"LogSettings: {name}": _WHOLE_TEXT
        for name in (
            "the file",
            "an unknown format",
            "info as text",
            "a level as a boolean",
            "a format as a boolean",
        )
    },
    "generate_stream: an error first": _IN_EVENTS,
    "generate_stream: a model that raises first": _IN_EVENTS,
    "generate_stream: a decoupled model that returns": _IN_EVENTS,
}
"""The error scenarios that compare no text, and why."""


def _collected(session: pytest.Session) -> tuple[list[Scenario], bool]:
    """The scenarios of this run, and whether they are all there are."""
    here = Path(__file__).parent
    items = [item for item in session.items if item.path.parent == here]
    params = [item.callspec.params for item in items if hasattr(item, "callspec")]
    found = [param["scenario"] for param in params if isinstance(param.get("scenario"), Scenario)]
    whole = {path.name for path in here.glob("test_*.py")} == {item.path.name for item in items}
    return found, whole


def _doubled(names: Sequence[str]) -> list[str]:
    return [name for name in set(names) if names.count(name) > 1]


def test_scenarios_have_names_of_their_own(request: pytest.FixtureRequest) -> None:
    scenarios, _ = _collected(request.session)
    assert _doubled([scenario.name for scenario in scenarios]) == []


def test_every_row_of_the_issue_is_shown_or_says_why_not(request: pytest.FixtureRequest) -> None:
    scenarios, whole = _collected(request.session)
    shown = {row for scenario in scenarios for row in scenario.rows}
    if whole:
        assert [row for row in CLAIMED if row not in shown and row not in UNSHOWN] == []
    assert [row for row in UNSHOWN if row in shown] == []
    assert [row for row in (*shown, *CLAIMED) if row not in TABLE] == []
    assert [row for row in UNSHOWN if row not in CLAIMED] == []


def test_every_difference_is_about_a_scenario(request: pytest.FixtureRequest) -> None:
    scenarios, whole = _collected(request.session)
    names = [scenario.name for scenario in scenarios]
    idle = [d.scenario for d in DIFFERENCES if d.scenario not in names]
    assert not whole or idle == []


def test_no_difference_allows_any_answer(request: pytest.FixtureRequest) -> None:
    scenarios, _ = _collected(request.session)
    found = [vague(d, s) for s in scenarios for d in DIFFERENCES if d.scenario == s.name]
    assert [each for each in found if each is not None] == []


def test_an_error_is_compared_by_its_words_too(request: pytest.FixtureRequest) -> None:
    scenarios, whole = _collected(request.session)
    wordless = [s.name for s in scenarios if s.says is None and _is_error(s)]
    assert [name for name in wordless if name not in UNWORDED] == []
    assert not whole or [name for name in UNWORDED if name not in wordless] == []


def _is_error(scenario: Scenario) -> bool:
    status, code = scenario.expect.get("status", 200), scenario.expect.get("code", "OK")
    return status not in (0, 200, 204) or code != "OK"  # 0 is the exit status of a process
