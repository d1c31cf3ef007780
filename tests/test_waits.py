"""Tests wait for what they need, not for a time, and hold nothing to a wall clock: both fail on a busy machine, or hide a race.

Refused are, outside of loops that look again (`while`):
- `time.sleep`, and `asyncio.sleep` of more than 0 in a file whose tests do not run in virtual time (looptime);
- asserts that compare a clock with a limit.

Wait with `tests.support.waiting.wait_until`, or on an event of the thing that is waited for.
"""

import ast
import collections.abc
import pathlib

import pytest

from tests.support.waiting import pause

_TESTS = pathlib.Path(__file__).parent
_CLOCKS = {"time.monotonic", "time.perf_counter", "time.time", "loop.time"}
_BUSY = "the delay is the subject: a server or a model that is busy for a while"
ALLOWED = {
    "apiserver/proxy.py::_handle": "the fault that it injects is a delay",
    "apiserver/proxy.py::serve": "the step of a loop that ends with the proxy",
    "conformance/models/counting.py::execute": _BUSY,
    "conformance/models/describe.py::_take": _BUSY,
    "conformance/models/sequence.py::_take": _BUSY,
    "conformance/models/side_by_side.py::_answer": _BUSY,
    "conformance/test_sequences.py::_busy_is_not_idle": "the pauses are the subject: each shorter than the idle time, together longer",
    "conformance/test_sequences.py::_cancelled": "the reference shows nowhere that it knows of the cancellation of a request "
    "that waits, and tritonserver knows no virtual time",
    "operator/reconcile/lookups/test_model_poller.py::handle": _BUSY,
    "server/response_cache/redis/test_store.py::test_a_busy_loop_does_not_count_against_redis": _BUSY,
    "server/hosts/process/test_death.py::test_a_batch_in_time_leaves_the_watchdog_asleep": "that nothing happens after the limit "
    "can only be seen once it has passed, and a worker process knows no virtual time",
    "server/hosts/process/test_pace.py::test_a_model_is_never_far_ahead_of_a_server_that_has_other_things_to_do": _BUSY,
    "server/protocol/http/transport/test_listener.py::app": "longer than the test: it is cancelled",
    "server/repository/world.py::_load": "its tests run in virtual time",
    "server/repository/world.py::stop": "its tests run in virtual time",
    "wire/models/test_calls.py::test_fifty_calls_of_a_coroutine_run_at_the_same_time": "half of what they take one after the other",
}
"""Where one stands nevertheless (`file::function`), and why."""


def found(source: str) -> collections.abc.Iterator[tuple[str, str]]:
    """The fixed sleeps and timed asserts of a file: the innermost function's name, and the code."""
    if "sleep" not in source and not any(clock in source for clock in _CLOCKS):
        return
    virtual = "looptime" in source
    yield from _found(ast.parse(source), "", virtual=virtual)


def _found(
    node: ast.AST, function: str, *, virtual: bool
) -> collections.abc.Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.While):
            continue
        name = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            name = child.name
        elif _is_sleep(child, virtual=virtual) or _is_timed(child):
            yield name, ast.unparse(child)
        yield from _found(child, name, virtual=virtual)


def _is_sleep(node: ast.AST, *, virtual: bool) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr != "sleep":
        return False
    called = ast.unparse(node.func)
    if called == "asyncio.sleep":
        return not virtual and ast.unparse(node.args[0]) != "0"
    return called == "time.sleep"


def _is_timed(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) and any(
        isinstance(part, ast.Call) and ast.unparse(part.func) in _CLOCKS
        for part in ast.walk(node.test)
    )


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("def test_it():\n    time.sleep(0.3)", True),
        ("async def test_it():\n    await asyncio.sleep(0.3)", True),
        ("@pytest.mark.looptime\nasync def test_it():\n    await asyncio.sleep(300)", False),
        ("async def test_it():\n    await asyncio.sleep(0)", False),
        ("def test_it():\n    while not there():\n        time.sleep(0.01)", False),
        ("def test_it():\n    assert time.monotonic() - before < 2", True),
        ("def test_it():\n    while not there():\n        assert time.monotonic() < end", False),
    ],
)
def test_fixed_sleeps_and_timed_asserts_are_found(source: str, *, refused: bool) -> None:
    assert bool(list(found(source))) is refused


@pytest.mark.parametrize(
    ("waited_s", "look_s", "expected_s"),
    [
        (0.0, 0.0, 0.05),
        (0.4, 0.01, 0.05),
        (0.8, 0.01, 0.1),
        (2.0, 0.01, 0.25),
        (60.0, 0.01, 0.3),
        (0.0, 0.1, 0.3),  # a look that takes long
        (60.0, 0.2, 0.6),
    ],
)
def test_what_has_not_come_soon_is_looked_for_less_often(
    waited_s: float, look_s: float, expected_s: float
) -> None:
    assert pause(waited_s, look_s, shortest_s=0.05) == pytest.approx(expected_s)


def test_no_test_sleeps_for_a_fixed_time_or_is_held_to_a_clock() -> None:
    places: dict[str, str] = {}
    for path in sorted(_TESTS.rglob("*.py")):
        for function, code in found(path.read_text(encoding="utf-8")):
            places[f"{path.relative_to(_TESTS).as_posix()}::{function}"] = code
    assert {place: code for place, code in places.items() if place not in ALLOWED} == {}
    assert [place for place in ALLOWED if place not in places] == [], "not needed any more"
