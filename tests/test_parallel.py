"""In which order a parallel run hands out its tests, and what its processes send each other: every result, whatever a test has logged."""

import pathlib
import typing

import execnet
import pytest

from tests.parallel import arrange, folders_to_collect
from tests.parallel_reports import Groups, is_needed, send_less, sendable, without_keywords

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


_PLACE = ("a.py", 1, "test_a")


def _report(
    when: typing.Literal["setup", "call", "teardown"] = "teardown",
    outcome: typing.Literal["passed", "failed", "skipped"] = "passed",
    *,
    seconds: float = 0.001,
    printed: tuple[tuple[str, str], ...] = (),
) -> pytest.TestReport:
    return pytest.TestReport(
        "a.py::test_a", _PLACE, {}, outcome, None, when, sections=printed, duration=seconds
    )


def test_a_report_is_needed_unless_it_is_of_a_quick_setup_or_teardown_that_passed() -> None:
    assert not is_needed(_report("setup"))
    assert not is_needed(_report("teardown"))
    assert is_needed(_report("call"))
    assert is_needed(_report("setup", "failed"))
    assert is_needed(_report("setup", "skipped"))
    assert is_needed(_report("teardown", "failed"))
    assert is_needed(_report("teardown", seconds=0.005)), "--durations shows it"
    assert is_needed(_report("teardown", printed=(("Captured log", "a line"),)))


class _Options(typing.NamedTuple):
    verbose: int = 0
    loadscopereorder: bool = False


class _Config:
    """As much of a configuration as is looked at."""

    def __init__(self, options: _Options) -> None:
        self.option = options
        self.pluginmanager = pytest.PytestPluginManager()

    def getvalue(self, name: str) -> list[str]:
        assert name == "tx"
        return ["2*popen"]


class _Sender:
    """As much of a process that runs tests as sends."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def sendevent(self, name: str, **_content: typing.Any) -> None:
        self.sent.append(name)


@pytest.mark.parametrize(("verbose", "more"), [(0, []), (1, ["logstart", "logfinish"])])
def test_what_nothing_shows_is_not_sent(verbose: int, more: list[str]) -> None:
    sender, config = _Sender(), _Config(_Options(verbose))
    config.pluginmanager.register(sender)
    send_less(config)  # type: ignore[arg-type]
    for name in ("logstart", "logfinish", "runtest_protocol_complete"):
        sender.sendevent(name, nodeid="a.py::test_a")
    serialize = config.pluginmanager.hook.pytest_report_to_serializable
    for report in (_report("setup"), _report("call")):
        data = serialize(config=config, report=report)
        assert data in (None, {})
        sender.sendevent("testreport", data={"nodeid": report.nodeid} if data is None else data)
    assert sender.sent == [*more, "runtest_protocol_complete", "testreport"]


class _Process:
    """As much of a process that runs tests as is handed them."""

    shutting_down = False

    class gateway:  # noqa: N801 - as the package has it
        id = "gw0"

    def __init__(self) -> None:
        self.given: list[int] = []

    def send_runtest_some(self, places: list[int]) -> None:
        self.given += places

    def shutdown(self) -> None:
        self.shutting_down = True


def test_groups_are_handed_out_in_order_and_what_a_process_leaves_undone_to_another() -> None:
    tests = ["a::1@one", "b::1@two", "a::2@one", "c::1@three", "c::2@three", "d::1@four", "e::1@five"]  # fmt: skip
    groups = Groups(_Config(_Options()))
    first, second = _Process(), _Process()
    for each in (first, second):
        groups.add_node(each)
        groups.add_node_collection(each, tests)
    groups.schedule()
    assert (first.given, second.given) == ([0, 2, 3, 4], [1, 5])
    groups.mark_test_complete(first, 0)
    assert groups.remove_node(first) == "a::2@one", "which ran when the process ended"
    done = 0
    while not groups.tests_finished:
        groups.mark_test_complete(second, second.given[done])
        done += 1
    assert sorted(second.given) == [1, 2, 3, 4, 5, 6]
    assert second.shutting_down
