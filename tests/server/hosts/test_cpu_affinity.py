"""Which threads stay on the loop's processor: decided by numbers, carried out through an injected call."""

import collections.abc
import os
import pathlib
import subprocess
import sys

import pytest

from naiad.hosts import cpu_affinity
from naiad.hosts.cpu_affinity import (
    SAMPLE_INTERVAL,
    SHORT_IN_A_PROCESS_NS,
    SHORT_NS,
    SHORT_WITH_INTERPRETER_NS,
    WARM_UP_BATCHES,
    AffinityPolicy,
    ThreadBinding,
    WorkerAffinity,
    WorkerBinding,
    current_processor,
)


def after(place: AffinityPolicy, *durations_ns: int) -> bool:
    for duration in durations_ns:
        place.record(duration)
    return place.together


def test_short_batches_bring_a_thread_to_the_loop_once_it_has_settled() -> None:
    place = AffinityPolicy(SHORT_NS)
    assert not after(place, *[10_000] * (WARM_UP_BATCHES - 1))
    assert after(place, 10_000)


def test_work_that_holds_the_interpreter_may_be_longer() -> None:
    batches = [SHORT_WITH_INTERPRETER_NS // 2] * 100
    assert after(AffinityPolicy(SHORT_WITH_INTERPRETER_NS), *batches)
    assert not after(AffinityPolicy(SHORT_NS), *batches)


def test_longer_batches_let_it_go_and_it_has_to_settle_again() -> None:
    place = AffinityPolicy(SHORT_NS)
    assert after(place, *[10_000] * WARM_UP_BATCHES)
    assert not after(place, 5_000_000)
    assert not after(place, *[10_000] * (WARM_UP_BATCHES - 1))
    assert after(place, *[10_000] * 100)


def test_between_the_two_bounds_it_stays_where_it_is() -> None:
    middle = [SHORT_NS * 3 // 2] * 200
    free, bound = AffinityPolicy(SHORT_NS), AffinityPolicy(SHORT_NS)
    assert not after(free, *middle)
    assert after(bound, *[10_000] * WARM_UP_BATCHES)
    assert after(bound, *middle)


class Binding:
    """Remembers what a thread was bound to."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.calls: list[collections.abc.Set[int]] = []
        self.threads: set[int] = set()
        self._refuses = refuses

    def __call__(self, thread: int, processors: collections.abc.Set[int]) -> None:
        self.threads.add(thread)
        self.calls.append(processors)
        if self._refuses:
            raise PermissionError


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.mark.usefixtures("two_processors")
def test_a_thread_follows_the_loop_and_is_let_go_to_where_it_was_allowed() -> None:
    binding = Binding()
    thread = ThreadBinding(bind=binding)
    thread.loop_is_on(1)
    thread.apply(together=False)
    assert binding.calls == []
    thread.apply(together=True)
    thread.apply(together=True)
    thread.loop_is_on(0)
    thread.apply(together=True)
    thread.apply(together=False)
    assert binding.calls == [{1}, {0}, {0, 1}]


@pytest.mark.usefixtures("two_processors")
def test_a_processor_that_is_not_allowed_is_not_bound_to() -> None:
    binding = Binding()
    thread = ThreadBinding(bind=binding)
    thread.loop_is_on(7)
    thread.apply(together=True)
    assert binding.calls == [{0, 1}]


@pytest.mark.usefixtures("two_processors")
def test_a_system_that_refuses_is_not_asked_again() -> None:
    binding = Binding(refuses=True)
    thread = ThreadBinding(bind=binding)
    thread.loop_is_on(1)
    thread.apply(together=True)
    thread.apply(together=True)
    assert len(binding.calls) == 1


def ran(place: WorkerAffinity, computed_ns: int, *, requests: int = 1, batches: int = 100) -> None:
    for _ in range(batches):
        place.ran(computed_ns, requests)


@pytest.mark.usefixtures("two_processors")
def test_a_worker_with_short_batches_goes_to_the_loops_processor_and_leaves_it_with_long_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu_affinity, "current_processor", lambda: 1)
    binding = Binding()
    place = WorkerAffinity(4711, processors=2, bind=binding)
    ran(place, 20_000, batches=SAMPLE_INTERVAL - 1)
    assert binding.calls == []
    ran(place, 20_000)
    assert binding.calls == [{1}]
    ran(place, SHORT_IN_A_PROCESS_NS * 10)
    assert binding.calls == [{1}, {0, 1}]
    assert binding.threads == {4711}


@pytest.mark.usefixtures("two_processors")
@pytest.mark.parametrize(("processors", "calls"), [(2, [{1}]), (8, [])])
def test_under_load_a_worker_keeps_a_processor_of_its_own_where_there_are_enough(
    monkeypatch: pytest.MonkeyPatch, processors: int, calls: list[set[int]]
) -> None:
    monkeypatch.setattr(cpu_affinity, "current_processor", lambda: 1)
    binding = Binding()
    ran(WorkerAffinity(4711, processors=processors, bind=binding), 20_000, requests=16)
    assert binding.calls == calls


ALLOWED = sorted(os.sched_getaffinity(0))
several = pytest.mark.skipif(len(ALLOWED) < 2, reason="there is nothing to let go to")

WORKER = """
import os, sys, threading
def start(*own):
    ready = threading.Event()
    def work():
        if own:
            os.sched_setaffinity(0, own)
        ready.set()
        threading.Event().wait()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    ready.wait()
    return thread.native_id
for line in sys.stdin:
    what, *own = line.split()
    if what == "start":
        print(start(*map(int, own)), flush=True)
    else:
        os.sched_setaffinity(0, set(map(int, own)))
        print(0, flush=True)
"""


class Worker:
    """A process whose threads start as a test says it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.pid = self._process.pid

    def do(self, *line: object) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, line)) + "\n")
        return int(self._process.stdout.readline())

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def worker() -> collections.abc.Iterator[Worker]:
    made = Worker()
    yield made
    made.end()


@several
def test_a_worker_that_is_let_go_takes_the_threads_along_that_it_started_while_bound(
    worker: Worker,
) -> None:
    bind = WorkerBinding()
    worker.do("start")
    for each in (ALLOWED[0], ALLOWED[1], ALLOWED[0]):
        bind(worker.pid, {each})
        started = worker.do("start")
        assert os.sched_getaffinity(started) == {each}
    bind(worker.pid, set(ALLOWED))
    threads = [int(path.name) for path in pathlib.Path(f"/proc/{worker.pid}/task").iterdir()]
    assert len(threads) == 5
    assert [os.sched_getaffinity(thread) for thread in threads] == [set(ALLOWED)] * 5


@several
def test_threads_that_a_model_binds_by_itself_stay_where_they_are(worker: Worker) -> None:
    """As OpenMP does: one on each processor, the loop's included."""
    own = {worker.do("start", each): {each} for each in ALLOWED}
    bind = WorkerBinding()
    bind(worker.pid, {ALLOWED[0]})
    if len(ALLOWED) > 2:
        both = ALLOWED[1:3]
        own[worker.do("start", *both)] = set(both)
    own[worker.do("start", ALLOWED[1])] = {ALLOWED[1]}
    bind(worker.pid, set(ALLOWED))
    assert {each: os.sched_getaffinity(each) for each in own} == own


@several
def test_a_model_that_chooses_its_processors_while_it_is_bound_keeps_them(worker: Worker) -> None:
    bind = WorkerBinding()
    bind(worker.pid, {ALLOWED[0]})
    worker.do("choose", ALLOWED[1])
    with pytest.raises(PermissionError, match="has set its own"):
        bind(worker.pid, set(ALLOWED))
    assert os.sched_getaffinity(worker.pid) == {ALLOWED[1]}


def test_the_processor_of_this_thread_is_one_it_may_run_on() -> None:
    assert current_processor() in os.sched_getaffinity(0)
