"""Reports travel between the processes of a parallel run, whatever a test has logged."""

import pathlib

import execnet
import pytest

from tests.parallel import arrange, folders_to_collect, sendable, without_keywords

_TESTS = pathlib.Path(__file__).parent


def test_folders_that_a_run_ignores_are_not_named_to_pytest() -> None:
    everything = folders_to_collect([])
    assert str(_TESTS / "soak") in everything
    assert str(_TESTS / "operator" / "live") in everything
    fewer = folders_to_collect([_TESTS / "soak", _TESTS / "operator" / "live"])
    assert set(everything) - set(fewer) == {
        str(_TESTS / "soak"),
        str(_TESTS / "operator" / "live"),
    }


def test_a_log_line_that_is_not_text_can_be_sent() -> None:
    report = {"sections": [("Captured log", "no file \udcff, ü")], "duration": 0.5, "when": None}
    sent = sendable(report)
    assert sent == {
        "sections": [("Captured log", "no file \\udcff, ü")],
        "duration": 0.5,
        "when": None,
    }
    assert execnet.loads(execnet.dumps(sent)) == sent


def test_a_report_keeps_its_keywords_unless_the_test_passed() -> None:
    passed = {"outcome": "passed", "nodeid": "a", "keywords": {"slow": 1}}
    failed = {**passed, "outcome": "failed"}
    assert without_keywords(passed) == {**passed, "keywords": {}}
    assert without_keywords(failed) == failed
    assert without_keywords(None) is None


class _Item:
    """As much of a test as `arrange` looks at."""

    fixturenames: tuple[str, ...] = ()

    def __init__(self, path: str) -> None:
        self.path = _TESTS / path
        self.markers: list[pytest.MarkDecorator] = []

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.markers.append(marker)


@pytest.mark.parametrize(
    ("missing", "order"),
    [
        (False, ["operator/live/test_a.py", "soak/test_s.py", "server/core/test_b.py"]),
        (True, ["soak/test_s.py", "server/core/test_b.py", "operator/live/test_a.py"]),
    ],
)
def test_tests_of_programs_that_are_still_being_built_come_last(
    *, missing: bool, order: list[str]
) -> None:
    items = [_Item("server/core/test_b.py"), _Item("operator/live/test_a.py"), _Item("soak/test_s.py")]  # fmt: skip
    arrange(items, programs_missing=missing)  # type: ignore[arg-type]
    assert [item.path.relative_to(_TESTS).as_posix() for item in items] == order
