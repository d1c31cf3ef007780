"""A thread that calls a server alone, the server's loop and what they start: where each may run, during a call and after it."""

import collections
import collections.abc
import contextlib
import os
import pathlib
import signal
import threading
import typing

import numpy as np
import psutil
import pytest
from typing_extensions import override

import naiad
from naiad.core.processes import inherited
from naiad.embed import lone_caller, server as server_module
from naiad.embed.calls import Calls
from naiad.embed.lone_caller import LoneCaller
from naiad.hosts.process import spawn
from tests.server.embed.conftest import some
from tests.server.embed.gate import ONE, OUT, Gate, X
from tests.server.embed.test_functions import Array
from tests.server.embed.test_process import settled

ALLOWED = frozenset(os.sched_getaffinity(0))
several = pytest.mark.skipif(len(ALLOWED) < 2, reason="there is no other processor")
CALLER, LOOP = 0, 4711
Masks = dict[int, collections.abc.Set[int]]


class Always:
    """A policy whose calls are bound from the second one on."""

    trials = 1

    def __init__(self) -> None:
        self.bound = False
        self.gains = True
        self.interrupted = 0

    def record(self, duration_ns: int) -> None:
        self.bound = self.gains

    def interrupt(self) -> None:
        self.interrupted += 1


class Fake:
    """A system with a thread that calls and a loop."""

    def __init__(self, *, processors: int = 2, current: int = 1, refuses: bool = False) -> None:
        everywhere = frozenset(range(processors))
        self.masks: Masks = {CALLER: everywhere, LOOP: everywhere}
        self.waiting = 0
        self.policy = Always()
        self.bound = collections.Counter[int]()
        self.later: list[collections.abc.Callable[[], None]] = []
        self._current = current
        self._refuses = refuses
        self.lone = LoneCaller(
            LOOP,
            typing.cast(Calls, typing.cast(object, self)),
            later=self.later.append,
            processors=self,
            now=lambda: 0,
        )
        self.lone._policy = typing.cast(typing.Any, self.policy)
        self.lone.run(lambda: None)

    def of(self, thread: int) -> collections.abc.Set[int]:
        return self.masks[thread]

    def bind(self, thread: int, processors: collections.abc.Set[int]) -> None:
        if self._refuses:
            raise PermissionError
        self.bound[thread] += 1
        self.masks[thread] = processors

    def current(self) -> int:
        return self._current

    def during(self) -> Masks:
        """Where they may run during a call; afterwards the caller may run where it might before, and soon the loop."""
        before = dict(self.masks)
        during = self.lone.run(lambda: dict(self.masks))
        assert self.masks[CALLER] == before[CALLER]
        while self.later:
            self.later.pop()()
        assert self.masks == before
        return during


@pytest.fixture(autouse=True)
def _nothing_left() -> collections.abc.Iterator[None]:
    yield
    inherited.end(LOOP)
    assert not lone_caller._TURNS


@pytest.mark.parametrize("processors", [2, 3, 64])
def test_both_run_on_the_callers_processor_during_a_call(processors: int) -> None:
    assert Fake(processors=processors).during() == {CALLER: {1}, LOOP: {1}}


def test_a_caller_that_chose_that_processor_itself_stays_there_and_the_loop_comes() -> None:
    fake = Fake()
    fake.masks[CALLER] = frozenset({1})
    assert fake.during() == {CALLER: {1}, LOOP: {1}}


def test_a_caller_that_may_not_run_there_and_the_loop_are_left_alone() -> None:
    fake = Fake(processors=3)
    fake.masks[CALLER] = frozenset({0, 2})
    assert fake.during() == {CALLER: {0, 2}, LOOP: {0, 1, 2}}
    assert fake.policy.interrupted == 1


@pytest.mark.parametrize(
    "fake",
    [
        pytest.param(lambda: Fake(refuses=True), id="the system refuses"),
        pytest.param(lambda: Fake(current=-1), id="it does not say where a thread runs"),
        pytest.param(lambda: Fake(processors=1, current=0), id="there is one processor"),
        pytest.param(lambda: Fake(current=7), id="the loop may not run there"),
    ],
)
def test_calls_go_on_where_nothing_can_be_bound(fake: collections.abc.Callable[[], Fake]) -> None:
    made = fake()
    assert made.during() == made.during() == made.masks


def test_of_calls_at_the_same_time_no_other_one_is_bound() -> None:
    fake = Fake()
    during = fake.lone.run(lambda: fake.lone.run(lambda: Fake().masks))
    assert during == {CALLER: {0, 1}, LOOP: {0, 1}}
    assert fake.policy.interrupted == 1
    fake.waiting = 1
    assert fake.during() == {CALLER: {0, 1}, LOOP: {0, 1}}
    assert fake.policy.interrupted == 2


def test_a_second_caller_and_a_call_that_takes_long_set_the_loop_free() -> None:
    fake = Fake()

    def ask() -> collections.abc.Set[int]:
        fake.lone.run(lambda: None)
        return fake.masks[LOOP]

    assert fake.lone.run(ask) == {0, 1}
    seen = []

    def wait() -> None:
        for _ in range(2):
            fake.later.pop()()
            seen.append(fake.masks[LOOP])

    fake.lone.run(wait)
    assert seen == [{1}, {0, 1}]
    assert fake.masks == {CALLER: {0, 1}, LOOP: {0, 1}}
    assert fake.later == []


def test_the_loop_is_bound_once_for_many_calls_and_looks_now_and_then_whether_they_go_on() -> None:
    fake = Fake()
    for _ in range(3):
        for _ in range(100):
            assert fake.lone.run(lambda: dict(fake.masks)) == {CALLER: {1}, LOOP: {1}}
            assert fake.masks == {CALLER: {0, 1}, LOOP: {1}}
        (look,) = fake.later
        fake.later.clear()
        look()
    assert fake.bound == {CALLER: 600, LOOP: 1}
    fake.later.pop()()
    assert fake.masks == {CALLER: {0, 1}, LOOP: {0, 1}}
    assert fake.later == []
    assert fake.during() == {CALLER: {1}, LOOP: {1}}


def test_calls_that_are_bound_no_more_set_the_loop_free() -> None:
    fake = Fake()
    assert fake.lone.run(lambda: fake.masks[LOOP]) == {1}
    fake.policy.gains = False
    fake.lone.run(lambda: None)
    assert fake.masks == {CALLER: {0, 1}, LOOP: {0, 1}}


def test_a_call_that_raises_leaves_nothing_bound() -> None:
    fake = Fake()
    before = dict(fake.masks)
    with pytest.raises(ZeroDivisionError):
        fake.lone.run(lambda: 1 // 0)
    assert fake.masks[CALLER] == before[CALLER]


def bound(server: naiad.Server) -> Always:
    """Have the server bind the calls that are alone, from the next one on."""
    assert server._running is not None
    lone = server._running.lone
    policy = Always()
    lone._policy = typing.cast(typing.Any, policy)
    lone.run(lambda: None)
    return policy


def of(thread: int) -> frozenset[int]:
    return frozenset(os.sched_getaffinity(thread))


@pytest.fixture
def _bound_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a call that takes long, on a busy machine, sets the loop free."""
    monkeypatch.setattr(server_module, "LOOK_S", 3600)


@contextlib.contextmanager
def looked(caller: int) -> collections.abc.Iterator[tuple[naiad.Server, list[frozenset[int]]]]:
    """A server with a function that looks where the caller and the loop may run."""
    seen: list[frozenset[int]] = []

    @naiad.model(inputs=[ONE], outputs=[OUT], max_batch_size=8)
    def look(x: Array) -> Array:
        seen.extend((of(caller), of(loop)))
        if x[0, 0] < 0:
            raise ValueError("a negative number")
        return x

    with naiad.Server(functions=[look]) as server:
        assert server._running is not None
        loop = server._running.lone._loop
        yield server, seen


@several
@pytest.mark.usefixtures("_bound_for_long")
def test_a_real_caller_has_its_processors_again_after_each_call() -> None:
    with looked(threading.get_native_id()) as (server, seen):
        server.infer("look", {"x": X})
        assert seen == [ALLOWED, ALLOWED]
        bound(server)
        for wrong in ({"x": X}, {"x": -X}, {"x": X, "y": X}, {"x": [["text"]]}):
            with contextlib.suppress(naiad.InferenceError):
                server.infer("look", wrong)
            assert of(0) == ALLOWED
        assert seen[2] == seen[3] == seen[4] == seen[5]
        assert len(seen[2]) == 1
        assert len(seen) == 6


@several
def test_a_caller_that_keeps_to_some_processors_keeps_them() -> None:
    with looked(threading.get_native_id()) as (server, seen):
        bound(server)
        (processor,) = server._running.lone._one  # type: ignore[union-attr]
        own = ALLOWED - {processor}
        os.sched_setaffinity(0, own)
        try:
            server.infer("look", {"x": X})
            assert of(0) == own
        finally:
            os.sched_setaffinity(0, ALLOWED)
        assert seen == [own, ALLOWED]


@pytest.fixture
def gate() -> collections.abc.Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


class Caller(threading.Thread):
    """Waits for the gate in a call of its own, and says where it may run afterwards."""

    def __init__(self, server: naiad.Server, timeout: float | None = None) -> None:
        super().__init__()
        self._server = server
        self._timeout = timeout
        self.error: Exception | None = None
        self.after: frozenset[int] = frozenset()
        self.start()

    @override
    def run(self) -> None:
        try:
            self._server.infer("gate", {"x": X}, timeout=self._timeout)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        self.after = of(0)

    def where(self) -> frozenset[int]:
        assert self.native_id is not None
        return of(self.native_id)


@several
def test_a_caller_whose_time_is_over_has_its_processors_again_and_soon_the_loop(gate: Gate) -> None:
    with naiad.Server(functions=[gate.model()]) as server:
        bound(server)
        assert server._running is not None
        loop = server._running.lone._loop
        late = Caller(server, timeout=0.05)
        late.join()
        assert isinstance(late.error, TimeoutError)
        assert late.after == ALLOWED
        assert settled(ALLOWED, lambda: of(loop)) == ALLOWED
        gate.open()


@several
def test_a_caller_whose_server_stops_has_its_processors_again(gate: Gate) -> None:
    server = naiad.Server(functions=[gate.model()], exit_timeout_secs=0).start()
    bound(server)
    caller = Caller(server)
    assert gate.begins()
    assert len(caller.where()) == 1
    server.stop()
    caller.join()
    assert isinstance(caller.error, naiad.InferenceError)
    assert caller.after == ALLOWED


@several
def test_an_interrupted_caller_has_its_processors_again(gate: Gate) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.get_native_id()
    during: list[frozenset[int]] = []

    def interrupt() -> None:
        assert gate.begins()
        during.append(of(main))
        os.kill(os.getpid(), signal.SIGINT)

    try:
        with naiad.Server(functions=[gate.model()]) as server:
            bound(server)
            thread = threading.Thread(target=interrupt)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                server.infer("gate", {"x": X})
            thread.join()
            assert of(0) == ALLOWED
            assert len(during[0]) == 1
            gate.open()
    finally:
        signal.signal(signal.SIGINT, before)


@several
def test_of_two_callers_at_once_the_second_is_not_bound_nor_is_the_first_again(gate: Gate) -> None:
    with naiad.Server(functions=[gate.model(instances=2)]) as server:
        policy = bound(server)
        one = Caller(server)
        assert gate.begins()
        other = Caller(server)
        assert gate.begins()
        assert (len(one.where()), other.where()) == (1, ALLOWED)
        gate.open()
        one.join()
        other.join()
        assert one.after == other.after == ALLOWED
        assert policy.interrupted == 1


@several
@pytest.mark.usefixtures("_bound_for_long")
def test_a_worker_that_the_loop_starts_during_a_call_may_run_everywhere(
    models: pathlib.Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with naiad.Server(
        models, model_control_mode="explicit", functions=[gate.model()], load_model="gate"
    ) as server:
        bound(server)
        assert server._running is not None
        caller = Caller(server)
        assert gate.begins()
        # The next worker has a new thread that starts it, also where another test has left a worker.
        monkeypatch.setattr(spawn, "LAUNCHER", spawn.Launcher())
        before = set(psutil.Process().children())
        server.load("text")
        assert len(of(server._running.lone._loop)) == len(caller.where()) == 1
        workers = [each for each in psutil.Process().children() if each not in before]
        assert {frozenset(each.cpu_affinity()) for each in workers} == {ALLOWED}
        gate.open()
        caller.join()


@several
@pytest.mark.usefixtures("_bound_for_long")
def test_the_thread_of_an_instance_whose_first_batch_is_bound_may_run_everywhere() -> None:
    seen: list[frozenset[int]] = []

    @naiad.model(inputs=[ONE], outputs=[OUT], max_batch_size=8)
    def look(x: Array) -> Array:
        assert server._running is not None
        seen.extend((of(server._running.lone._loop), of(0)))
        return x

    with naiad.Server(functions=[look]) as server:
        bound(server)
        server.infer("look", {"x": X})
    assert len(seen[0]) == 1
    assert seen[1] == ALLOWED


@several
def test_calls_that_gain_by_it_are_bound_without_further_ado(models: pathlib.Path) -> None:
    x = np.ones((1, 4), np.float32)
    with some(models, "add") as server:
        assert server._running is not None
        policy = server._running.lone._policy
        count = 0
        while not policy.trials and count < 5_000:
            server.infer("add", {"x": x})
            count += 1
            assert of(0) == ALLOWED
        started = threading.Thread(target=lambda: masks.append(of(0)))
        masks: list[frozenset[int]] = []
        server.infer("add", {"x": x})
        started.start()
        started.join()
        assert masks == [ALLOWED]
        loop = server._running.lone._loop
        assert settled(ALLOWED, lambda: of(loop)) == ALLOWED
