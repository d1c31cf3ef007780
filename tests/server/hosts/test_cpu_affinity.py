"""Which threads stay on the loop's processor: decided by numbers, carried out through an injected call."""

import collections.abc
import os
import pathlib
import subprocess
import sys

import pytest

from naiad.hosts import cpu_affinity
from naiad.hosts.cpu_affinity import (
    ALONE_AFTER,
    SAMPLE_INTERVAL,
    SHORT_IN_A_PROCESS_NS,
    SHORT_NS,
    SHORT_WITH_INTERPRETER_NS,
    WARM_UP_BATCHES,
    AffinityPolicy,
    Binder,
    Instances,
    ThreadBinding,
    WorkerAffinity,
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


class Bound:
    """Remembers what a thread was bound to, and how often others were released."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.calls: list[collections.abc.Set[int]] = []
        self.threads: set[int] = set()
        self.released = 0
        self._refuses = refuses

    def __call__(self, thread: int, processors: collections.abc.Set[int]) -> None:
        self.threads.add(thread)
        self.calls.append(processors)
        if self._refuses:
            raise PermissionError

    def release_others(self, thread: int, processors: collections.abc.Set[int]) -> None:
        assert (thread, processors) == (4711, os.sched_getaffinity(0))
        self.released += 1


@pytest.fixture(autouse=True)
def instances(monkeypatch: pytest.MonkeyPatch) -> Instances:
    made = Instances()
    monkeypatch.setattr(cpu_affinity, "INSTANCES", made)
    return made


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.mark.usefixtures("two_processors")
def test_a_thread_follows_the_loop_and_is_let_go_to_where_it_was_allowed() -> None:
    binding = Bound()
    thread = ThreadBinding(4711, binding)
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
    binding = Bound()
    thread = ThreadBinding(4711, binding)
    thread.loop_is_on(7)
    thread.apply(together=True)
    assert binding.calls == [{0, 1}]


@pytest.mark.usefixtures("two_processors")
def test_a_system_that_refuses_is_not_asked_again() -> None:
    binding = Bound(refuses=True)
    thread = ThreadBinding(4711, binding)
    thread.loop_is_on(1)
    thread.apply(together=True)
    thread.apply(together=True)
    assert len(binding.calls) == 1


@pytest.mark.usefixtures("two_processors")
def test_while_a_thread_is_bound_threads_that_it_starts_are_released_now_and_then() -> None:
    binding = Bound()
    thread = ThreadBinding(4711, binding)
    thread.loop_is_on(1)
    for _ in range(3 * SAMPLE_INTERVAL + 1):
        thread.apply(together=True)
    assert (binding.calls, binding.released) == ([{1}], 3)
    for _ in range(3 * SAMPLE_INTERVAL):
        thread.apply(together=False)
    assert (binding.calls, binding.released) == ([{1}, {0, 1}], 3)


def ran(place: WorkerAffinity, computed_ns: int, *, batches: int = 100) -> None:
    for _ in range(batches):
        place.ran(computed_ns)


@pytest.fixture
def loop_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_affinity, "current_processor", lambda: 1)


@pytest.mark.usefixtures("two_processors", "loop_on_one")
def test_a_worker_with_short_batches_goes_to_the_loops_processor_and_leaves_it_with_long_ones() -> None:  # fmt: skip
    binding = Bound()
    place = WorkerAffinity(4711, bind=binding)
    ran(place, 20_000, batches=SAMPLE_INTERVAL - 1)
    assert binding.calls == []
    ran(place, 20_000)
    assert binding.calls == [{1}]
    ran(place, SHORT_IN_A_PROCESS_NS * 10)
    assert binding.calls == [{1}, {0, 1}]
    assert binding.threads == {4711}


@pytest.mark.usefixtures("loop_on_one")
@pytest.mark.parametrize("processors", [1, 3, 64])
def test_with_another_number_of_processors_no_instance_is_bound(
    monkeypatch: pytest.MonkeyPatch, processors: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    binding = Bound()
    ran(WorkerAffinity(4711, bind=binding), 20_000)
    assert binding.calls == []


@pytest.mark.usefixtures("loop_on_one")
def test_with_many_processors_the_instance_of_a_thread_that_calls_alone_is_bound_until_it_calls_no_more(
    monkeypatch: pytest.MonkeyPatch, instances: Instances
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    binding = Bound()
    place = WorkerAffinity(4711, bind=binding)
    for _ in range(200):
        instances.called_alone()
        ran(place, 20_000, batches=1)
    assert binding.calls == [{1}]
    ran(place, 20_000, batches=200)
    assert binding.calls == [{1}, set(range(64))]


@pytest.mark.usefixtures("two_processors", "loop_on_one")
def test_of_several_workers_none_is_bound_and_the_last_one_again() -> None:
    bound = [Bound() for _ in range(8)]
    places = [WorkerAffinity(4711, bind=each) for each in bound]
    for _ in range(100):
        for place in places:
            ran(place, 20_000, batches=ALONE_AFTER // 2)
    assert [each.calls for each in bound] == [[]] * 8
    for place in places[1:]:
        place.close()
        place.close()
    ran(places[0], 20_000)
    assert bound[0].calls == [{1}]


@pytest.mark.usefixtures("two_processors", "loop_on_one")
def test_of_several_workers_the_one_that_gets_all_batches_is_bound_until_another_works() -> None:
    bound = [Bound(), Bound()]
    places = [WorkerAffinity(4711, bind=each) for each in bound]
    ran(places[0], 20_000, batches=ALONE_AFTER)
    assert bound[0].calls == []
    ran(places[0], 20_000, batches=SAMPLE_INTERVAL)
    assert bound[0].calls == [{1}]
    ran(places[1], 20_000, batches=1)
    ran(places[0], 20_000, batches=SAMPLE_INTERVAL)
    assert (bound[0].calls, bound[1].calls) == ([{1}, {0, 1}], [])


@pytest.mark.usefixtures("two_processors", "loop_on_one")
def test_several_instances_of_one_worker_never_work_alone() -> None:
    binding = Bound()
    WorkerAffinity(4712, bind=Bound())
    place = WorkerAffinity(4711, bind=binding)
    place.add(4713)
    ran(place, 20_000, batches=3 * ALONE_AFTER)
    assert binding.calls == []


@pytest.mark.usefixtures("two_processors", "loop_on_one")
def test_a_worker_that_gets_another_instance_is_released() -> None:
    binding = Bound()
    place = WorkerAffinity(4711, bind=binding)
    ran(place, 20_000)
    place.add(4712)
    ran(place, 20_000)
    assert binding.calls == [{1}, {0, 1}]
    place.remove(4712)
    ran(place, 20_000)
    assert binding.calls == [{1}, {0, 1}, {1}]


@pytest.mark.usefixtures("two_processors", "loop_on_one")
def test_a_worker_that_is_replaced_after_its_death_leaves_no_count_behind(
    instances: Instances,
) -> None:
    for _ in range(5):
        place = WorkerAffinity(4711, bind=Bound())
        place.add(4712)
        assert not instances.alone
        place.close()
    WorkerAffinity(4711, bind=Bound())
    assert instances.alone


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
    bind = Binder()
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
def test_a_thread_that_is_let_go_leaves_those_that_others_have_bound(worker: Worker) -> None:
    one, other = Binder(), Binder()
    thread = worker.do("start")
    one(worker.pid, {ALLOWED[0]})
    other(thread, {ALLOWED[0]})
    one(worker.pid, set(ALLOWED))
    assert os.sched_getaffinity(thread) == {ALLOWED[0]}
    other(thread, set(ALLOWED))
    assert os.sched_getaffinity(thread) == set(ALLOWED)


@several
def test_the_pool_of_a_model_is_released_while_its_worker_stays_bound(worker: Worker) -> None:
    bind = Binder()
    before = worker.do("start", ALLOWED[0])
    bind(worker.pid, {ALLOWED[0]})
    pool = [worker.do("start") for _ in range(3)]
    assert [os.sched_getaffinity(thread) for thread in pool] == [{ALLOWED[0]}] * 3
    bind.release_others(worker.pid, set(ALLOWED))
    assert [os.sched_getaffinity(thread) for thread in pool] == [set(ALLOWED)] * 3
    assert os.sched_getaffinity(worker.pid) == os.sched_getaffinity(before) == {ALLOWED[0]}


@several
def test_threads_that_a_model_binds_by_itself_stay_where_they_are(worker: Worker) -> None:
    """As OpenMP does: one on each processor, the loop's included."""
    own = {worker.do("start", each): {each} for each in ALLOWED}
    bind = Binder()
    bind(worker.pid, {ALLOWED[0]})
    if len(ALLOWED) > 2:
        both = ALLOWED[1:3]
        own[worker.do("start", *both)] = set(both)
    own[worker.do("start", ALLOWED[1])] = {ALLOWED[1]}
    bind(worker.pid, set(ALLOWED))
    assert {each: os.sched_getaffinity(each) for each in own} == own


@several
def test_a_model_that_chooses_its_processors_while_it_is_bound_keeps_them(worker: Worker) -> None:
    bind = Binder()
    bind(worker.pid, {ALLOWED[0]})
    worker.do("choose", ALLOWED[1])
    with pytest.raises(PermissionError, match="has set its own"):
        bind(worker.pid, set(ALLOWED))
    assert os.sched_getaffinity(worker.pid) == {ALLOWED[1]}


def test_the_processor_of_this_thread_is_one_it_may_run_on() -> None:
    assert current_processor() in os.sched_getaffinity(0)
