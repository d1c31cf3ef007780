"""Tests wait for what they need, not for a time, and hold nothing to a wall clock: both fail on a busy machine, or hide a race.

Refused are, outside of loops that look again (`while`):
- `time.sleep`, and `asyncio.sleep` of more than 0 in a file whose tests do not run in virtual time (looptime);
- asserts that compare a clock with a limit;
- asserts that something took less than a time, on the wall or of the processor, below half a minute, or less than something else did.

Wait with `tests.support.waiting.wait_until`, or on an event of the thing that is waited for. That little work is done is shown by counting it
(`tests.support.calls`, requests, reads), that something is soon in virtual time, and how long it takes is measured by a benchmark.
"""

import ast
import collections.abc
import pathlib

import pytest

from tests.support.waiting import pause

_TESTS = pathlib.Path(__file__).parent
_CLOCKS = {"time.monotonic", "time.perf_counter", "time.time", "loop.time"}
_STAMPS = {f"{clock}{unit}" for clock in ("monotonic", "perf_counter", "process_time", "thread_time", "time") for unit in ("", "_ns")} | {"cpu_ms", "cpu_seconds"}  # fmt: skip
"""Functions and methods whose differences are times of this machine."""
_NEVER_S = 30
"""A time that only what hangs takes."""
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
}
"""Where one stands nevertheless (`file::function`), and why."""

ALLOWED_TIMES = {
    "operator/live/test_operator_process.py::test_an_idle_operator_stops_at_once_despite_open_connections": "kopf gives what it finds "
    "running five seconds; one of six stops has to be quicker",
}
"""Where a time is compared nevertheless, and why."""


def found(source: str) -> collections.abc.Iterator[tuple[str, str]]:
    """The fixed sleeps and timed asserts of a file: the innermost function's name, and the code."""
    if ".sleep(" not in source and not any(f"{clock}(" in source for clock in _CLOCKS):
        return  # as most files: to parse all of them takes seconds
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


def timed(source: str) -> collections.abc.Iterator[tuple[str, str]]:
    """The asserts of a file that hold a measured time to a limit: the outermost function's name, and the code."""
    if not any(f"{name}(" in source for name in (*_STAMPS, "within")):
        return  # as most files
    tree = ast.parse(source)
    measuring = _Measuring(tree)
    for node in measuring.outermost:
        for part in _outside_of_loops(node):
            if _is_limit(part, lambda each, of=node: measuring.is_duration(each, of)):  # type: ignore[misc]  # fmt: skip
                yield node.name, ast.unparse(part)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Measuring:
    """What is a time that was measured, in one file: differences of clocks, names for them, and functions that give them."""

    def __init__(self, tree: ast.Module) -> None:
        self.outermost = list(_functions(tree))
        self._functions: set[str] = set()
        self._durations: set[tuple[str, str]] = set()
        self._stamps: set[tuple[str, str]] = set()
        before = -1
        while before != (before := len(self._functions) + len(self._durations) + len(self._stamps)):
            for function in self.outermost:
                self._look_into(function)

    def is_duration(self, node: ast.AST, function: _Function) -> bool:
        """Whether a part of the expression is a measured time."""
        return any(self._is_one(part, function) for part in ast.walk(node))

    def _is_one(self, node: ast.AST, function: _Function) -> bool:
        match node:
            case ast.Name(id=name):
                return (function.name, name) in self._durations
            case ast.Call(func=ast.Name(id=name)):
                return name in self._functions
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return any(self._is_stamp(each, function) for each in (left, right))
            case _:
                return False

    def _is_stamp(self, node: ast.AST, function: _Function) -> bool:
        match node:
            case ast.Name(id=name):
                return (function.name, name) in self._stamps
            case ast.Call(func=ast.Attribute(value=clock)) if ast.unparse(clock).endswith("clock"):
                return False  # one that a test moves
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                return name in _STAMPS
            case _:
                return False

    def _look_into(self, function: _Function) -> None:
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=[*targets], value=value):
                    self._name(targets, value, function)
                case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):  # fmt: skip
                    self._name([target], value, function)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._name([target], value, function)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    if any(
                        isinstance(part, ast.Return) and part.value is not None and self.is_duration(part.value, function)
                        for part in ast.walk(node)
                    ):  # fmt: skip
                        self._functions.add(name)
                case _:
                    pass

    def _name(self, targets: list[ast.expr], value: ast.expr, function: _Function) -> None:
        for target in targets:
            if isinstance(target, ast.Name):
                if self._is_stamp(value, function):
                    self._stamps.add((function.name, target.id))
                if self.is_duration(value, function):
                    self._durations.add((function.name, target.id))


def _functions(node: ast.AST) -> collections.abc.Iterator[_Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function):
            yield child
        else:
            yield from _functions(child)


def _outside_of_loops(node: ast.AST) -> collections.abc.Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.While):
            yield child
            yield from _outside_of_loops(child)


def _is_limit(node: ast.AST, is_duration: collections.abc.Callable[[ast.AST], bool]) -> bool:
    """Whether it asserts that a measured time is less than something which is not very long."""
    match node:
        case ast.Call(func=ast.Name(id="within")):
            return True
        case ast.Assert(test=test):
            return any(
                is_duration(less) and not (isinstance(more, ast.Constant) and more.value >= _NEVER_S)  # type: ignore[operator]  # a number
                for part in ast.walk(test)
                if isinstance(part, ast.Compare)
                for less, more in _orders(part)
            )  # fmt: skip
        case _:
            return False


def _orders(compared: ast.Compare) -> collections.abc.Iterator[tuple[ast.expr, ast.expr]]:
    """The pairs of which the first is said to be less."""
    values = [compared.left, *compared.comparators]
    for left, operator, right in zip(values, compared.ops, values[1:], strict=False):
        if isinstance(operator, ast.Lt | ast.LtE):
            yield left, right
        elif isinstance(operator, ast.Gt | ast.GtE):
            yield right, left


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


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("assert time.perf_counter() - began < 2", True),
        ("took = time.thread_time() - began\n    assert took < 0.02", True),
        ("took = time.thread_time() - began\n    assert 0.02 > min(took, 3)", True),
        ("took = time.thread_time() - began\n    assert took < 1.5 * other", True),
        ("took = time.monotonic() - began\n    assert took < 60", False),
        ("took = time.monotonic() - began\n    assert took >= 0.2", False),
        ("def cost():\n        return operator.cpu_ms() - before\n    assert cost() <= 1.5 * usual", True),
        ("costs = []\n    costs += [operator.cpu_ms() - before]\n    assert median(costs) <= 9", True),
        ("began = time.monotonic()\n    took = end - began\n    assert took < 9", True),
        ("assert model.clock.monotonic_ns() - began < 2", False),
        ("while True:\n        took = time.monotonic() - began\n        assert took < seconds", False),
        ("assert within(1, attempt)", True),
    ],
)  # fmt: skip
def test_limits_of_measured_times_are_found(source: str, *, refused: bool) -> None:
    assert bool(list(timed(f"import time\ndef test_it():\n    {source}"))) is refused


def test_no_test_holds_a_measured_time_to_a_limit() -> None:
    places: dict[str, str] = {}
    for path in sorted(_TESTS.rglob("*.py")):
        for function, code in timed(path.read_text(encoding="utf-8")):
            places[f"{path.relative_to(_TESTS).as_posix()}::{function}"] = code
    assert {place: code for place, code in places.items() if place not in ALLOWED_TIMES} == {}
    assert [place for place in ALLOWED_TIMES if place not in places] == [], "not needed any more"
