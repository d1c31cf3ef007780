"""What the processes of a parallel run send to the one that prints the results, and how that one hands out the groups of tests.

A run has 15,000 tests, and what the process that prints costs comes on top of them. Left alone, pytest-xdist sends six messages for each test, of
which two say something, and searches all tests for each that it hands out.
"""

import typing
from collections.abc import Sequence

import pytest
import xdist.scheduler  # type: ignore[import-untyped]
from typing_extensions import override

_SHOWN_SECONDS = 0.005
"""`--durations` shows nothing shorter."""


def is_needed(report: pytest.TestReport | pytest.CollectReport) -> bool:
    """Whether anything of a report is shown: not of a setup or a teardown that passed, was quick and printed nothing."""
    return not (
        isinstance(report, pytest.TestReport)
        and report.when in {"setup", "teardown"}
        and report.passed
        and report.duration < _SHOWN_SECONDS
        and not report.sections
    )


def send_less(config: pytest.Config) -> None:
    """In a process that runs tests: keeps back which test begins and ends, which only `-v` shows, and the reports without content."""
    (sender,) = [
        plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "sendevent")
    ]
    config.pluginmanager.register(_Unneeded())
    send: typing.Callable[..., None] = sender.sendevent
    kept_back = {"logstart", "logfinish"} if config.option.verbose <= 0 else set()

    def sendevent(name: str, **content: typing.Any) -> None:
        if name in kept_back or (name == "testreport" and "nodeid" not in content["data"]):
            return
        send(name, **content)

    sender.sendevent = sendevent


class _Unneeded:
    """Serializes what is not needed to nothing."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_to_serializable(
        self, report: pytest.TestReport | pytest.CollectReport
    ) -> dict[str, typing.Any] | None:
        return None if is_needed(report) else {}


def without_keywords(report: dict[str, typing.Any] | None) -> dict[str, typing.Any] | None:
    """A serialized report without the words that `-k` looks for, where the test passed: they are a fifth of the cost of sending it."""
    if report is not None and report.get("outcome") == "passed" and "keywords" in report:
        return {**report, "keywords": {}}
    return report


def sendable(data: typing.Any) -> typing.Any:
    """A report as it can be sent to another process: text that is not valid Unicode (a log line of such bytes) is escaped.

    Otherwise one such line ends the whole run.
    """
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(data, dict):
        return {sendable(key): sendable(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(sendable(each) for each in data)
    return data


class Groups(xdist.scheduler.LoadGroupScheduling):  # type: ignore[misc]  # the package has no types
    """Hands out groups as `--dist loadgroup` does, and forgets what is done: its base counts that again after each test."""

    @override
    def add_node_collection(self, node: typing.Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Indexed(collection)

    @override
    def mark_test_complete(self, node: typing.Any, item_index: int, duration: float = 0) -> None:
        test = self.registered_collections[node][item_index]
        work = self.assigned_work[node]
        group = work[self._split_scope(test)]
        del group[test]
        if not group:
            del work[self._split_scope(test)]
        self._reschedule(node)


class _Indexed(list[str]):
    """Tests by their places, which are found at once."""

    def __init__(self, tests: Sequence[str]) -> None:
        super().__init__(tests)
        self._places = {test: place for place, test in enumerate(tests)}

    @override
    def index(self, value: str, /, *limits: typing.SupportsIndex) -> int:
        return self._places[value]
