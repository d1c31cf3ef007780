"""Random requests, cancellations, time, responses, failures and a stop: no request is lost, repeated or overtaken."""

import asyncio

import hypothesis
import looptime
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from typing_extensions import override

from naiad.config.model_config import DynamicBatching, ModelConfig, QueuePolicy, TimeoutAction
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.errors import ErrorCode, InferenceError
from naiad.hosts.host import OnOutcome
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.instances.resources import UnlimitedResources
from naiad.scheduling.scheduler import Scheduler, SubmitsTogether
from tests.support.clock import LoopClock
from tests.support.hosts import ScriptedHost, hosted
from tests.support.inferences import make_config, make_inference
from tests.support.resources import CountedResources
from tests.support.scheduled import no_submit

MAX_ROWS = 4
POLICIES = st.builds(
    QueuePolicy,
    timeout_action=st.sampled_from(TimeoutAction),
    default_timeout_us=st.sampled_from([0, 3_000, 20_000]),
    allow_timeout_override=st.booleans(),
    max_queue_size=st.sampled_from([0, 0, 2, 5]),
)
BATCHINGS = st.none() | st.builds(
    DynamicBatching,
    preferred_batch_sizes=st.sampled_from([(), (2,), (3,), (2, 4)]),
    max_queue_delay_us=st.sampled_from([0, 0, 5_000]),
    preserve_ordering=st.booleans(),
    priority_levels=st.sampled_from([0, 2]),
    default_priority_level=st.just(2),
    default_queue_policy=POLICIES,
)


class LoggingHost(ScriptedHost):
    """Writes every batch of every host into one log when it begins."""

    log: list[list[Inference]]

    @override
    def begin(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        self.log.append(batch)
        super().begin(batch, on_outcome)


class Scheduling(RuleBasedStateMachine):
    """The model: what was taken, in order of arrival, and the log of all batches."""

    @initialize(
        batching=BATCHINGS,
        instances=st.integers(1, 3),
        resources=st.sampled_from([1, 2, 3, None, None]),
    )
    def start(
        self, batching: DynamicBatching | None, instances: int, resources: int | None
    ) -> None:
        self.loop = looptime.new_event_loop()
        self.clock = LoopClock(self.loop)
        self.batching = batching
        self.resources = None if resources is None else CountedResources(resources)
        self.most_busy = resources
        self.log: list[list[Inference]] = []
        self.hosts = [
            LoggingHost(clock=self.clock, loop=self.loop, name=f"m_0_{k}", prefetches=True)
            for k in range(instances)
        ]
        for host in self.hosts:
            host.log = self.log
        self.statistics = ModelStatistics()
        self.taken: list[Inference] = []
        self.answers: list[str] = []
        self.left_queue: set[str] = set()
        self.left_prefetched: set[str] = set()
        self.kept: list[Inference] = []
        self.stopping: asyncio.Task[None] | None = None
        config = make_config(batching=batching, max_batch_size=MAX_ROWS)
        self.scheduler = self.loop.run_until_complete(self.make_scheduler(config))

    async def make_scheduler(self, config: ModelConfig) -> Scheduler:
        make = SchedulerFactory(resources=self.resources or UnlimitedResources(), clock=self.clock)
        return make(
            config,
            version=1,
            instances=hosted(self.hosts),
            submit=no_submit,
            statistics=self.statistics,
        )

    def on_response(self, response: InferResponse) -> None:
        self.answers.append(response.id)
        if response.id in {each.request.id for each in self.prefetched()}:
            self.left_prefetched.add(response.id)

    def prefetched(self) -> list[Inference]:
        return [each for host in self.hosts for each in host.prefetched or ()]

    @rule(
        rows=st.integers(1, MAX_ROWS),
        priority=st.integers(0, 3),
        timeout_us=st.sampled_from([0, 1_000, 50_000]),
    )
    def enqueue(self, rows: int, priority: int, timeout_us: int) -> None:
        inference = make_inference(
            rows=rows,
            priority=priority,
            timeout_us=timeout_us,
            received_ns=self.clock.monotonic_ns(),
            on_response=self.on_response,
        )
        # The order in which it is taken counts, and taking it may already answer others.
        self.taken.append(inference)
        try:
            self.scheduler.submit(inference)
        except InferenceError:
            self.taken.remove(inference)
            self.may_refuse()
            assert not inference.completed

    @rule(rows=st.lists(st.integers(1, MAX_ROWS), min_size=1, max_size=3))
    def enqueue_together(self, rows: list[int]) -> None:
        inferences = [
            make_inference(
                rows=each,
                received_ns=self.clock.monotonic_ns(),
                on_response=self.on_response,
            )
            for each in rows
        ]
        assert isinstance(self.scheduler, SubmitsTogether)
        self.taken += inferences
        for inference, _ in self.scheduler.submit_together(inferences):
            self.taken.remove(inference)
            self.may_refuse()
            assert not inference.completed

    def may_refuse(self) -> None:
        limited = self.batching and self.batching.default_queue_policy.max_queue_size
        assert self.stopping or limited

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.taken:
            inference = data.draw(st.sampled_from(self.taken))
            # One of a batch that could not be handed over has its error, which only waits for its turn.
            queued = (
                not inference.completed
                and inference not in self.executed()
                and inference not in self.kept
            )
            inference.cancel()
            if queued:
                assert inference.completed
                if inference not in self.prefetched():
                    self.left_queue.add(inference.request.id)

    @rule(ms=st.sampled_from([0, 0, 1, 4, 30]))
    def advance(self, ms: int) -> None:
        self.loop.run_until_complete(asyncio.sleep(ms / 1_000))

    @rule(data=st.data(), ok=st.booleans())
    def come_back(self, data: st.DataObject, *, ok: bool) -> None:
        busy = [host for host in self.hosts if host.out is not None]
        if busy:
            host = data.draw(st.sampled_from(busy))
            self.kept.clear()
            if ok:
                host.finish()
            else:
                host.fail(InferenceError(ErrorCode.INTERNAL, "broken"))

    @rule()
    def cannot_be_handed_over(self) -> None:
        for host in self.hosts:
            if host.prefetched is not None:
                if self.batching is not None and self.batching.preserve_ordering:
                    # Its responses wait for those of the batch in execution.
                    self.kept.extend(host.prefetched)
                host.fail_prefetched(InferenceError(ErrorCode.INTERNAL, "broken"))

    @hypothesis.stateful.precondition(lambda self: self.stopping is None)
    @rule(really=st.integers(0, 9))
    def stop(self, really: int) -> None:
        if really == 0:
            self.stopping = self.loop.create_task(self.scheduler.stop())
            self.loop.run_until_complete(asyncio.sleep(0))

    def executed(self) -> list[Inference]:
        return [inference for batch in self.log for inference in batch]

    @invariant()
    def every_request_has_one_final_response(self) -> None:
        assert len(self.answers) == len(set(self.answers))
        assert {each.request.id for each in self.taken if each.completed} == set(self.answers)

    @invariant()
    def the_gauges_are_right(self) -> None:
        executed = {each.request.id for each in self.executed()}
        unsettled = [each for each in self.taken if not each.completed]
        out = (
            [each for host in self.hosts for each in host.out or ()] + self.prefetched() + self.kept
        )
        left = [each for each in out if each.request.id in self.left_prefetched]
        assert self.scheduler.inflight() == len(unsettled) + len(left)
        begun = executed.union(each.request.id for each in self.kept)
        waiting = [each for each in unsettled if each.request.id not in begun]
        assert self.statistics.pending == len(waiting)

    @invariant()
    def no_request_runs_twice_or_after_it_left_and_batches_fit(self) -> None:
        executed = [each.request.id for each in self.executed()]
        assert len(executed) == len(set(executed))
        assert not self.left_queue.intersection(executed)
        for batch in self.log:
            assert sum(inference.batch_size for inference in batch) <= MAX_ROWS
            assert len(batch) == 1 or self.batching is not None

    @invariant()
    def a_busy_instance_has_its_resources(self) -> None:
        if self.resources is None or self.most_busy is None:
            return
        assert not self.prefetched()
        busy = [host.name for host in self.hosts if host.out is not None]
        assert sorted(self.resources.names()) == busy
        assert len(busy) + self.resources.available == self.most_busy

    @invariant()
    def requests_in_time_keep_their_order_inside_a_level(self) -> None:
        place = {each.request.id: number for number, each in enumerate(self.taken)}
        delays = (
            self.batching is not None
            and self.batching.default_queue_policy.timeout_action is TimeoutAction.DELAY
        )
        for level in (0, 1, 2):
            ran = [
                place[each.request.id]
                for each in self.executed()
                if each.priority_level == level and not (delays and each.deadline_ns)
            ]
            assert ran == sorted(ran)

    @invariant()
    def responses_keep_the_order_with_preserve_ordering(self) -> None:
        if self.batching is not None and self.batching.preserve_ordering:
            executed = [each.request.id for each in self.executed() if each.request.id not in self.left_prefetched]  # fmt: skip
            answered = [answer for answer in self.answers if answer in set(executed)]
            assert answered == executed[: len(answered)]

    @override
    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        stopping = self.stopping or self.loop.create_task(self.scheduler.stop())
        while not stopping.done():
            for host in self.hosts:
                if host.out is not None:
                    host.finish()
            self.loop.run_until_complete(asyncio.sleep(0.001))
        self.every_request_has_one_final_response()
        assert all(each.completed for each in self.taken)
        assert (self.statistics.pending, self.scheduler.inflight()) == (0, 0)
        assert self.statistics.success_count + self.statistics.fail_count == len(self.taken)
        assert all(host.closed for host in self.hosts)
        if self.resources is not None:
            assert (self.resources.users, self.resources.waiting) == ([], [])
        self.loop.close()


TestAnyOrderOfEvents = Scheduling.TestCase
TestAnyOrderOfEvents.settings = hypothesis.settings(stateful_step_count=40)
