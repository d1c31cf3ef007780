"""A model with sequences under any events, held to simple rules: what was sent, what ran where, and who was answered."""

import asyncio
import collections
import dataclasses
import random

import looptime
from typing_extensions import override

from naiad.config.sequence_batching import DirectStrategy, OldestStrategy, SequenceBatching
from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.host import OnOutcome
from naiad.metrics.statistics import ModelStatistics
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.instances.resources import UnlimitedResources
from naiad.scheduling.sequence.scheduler import SequenceScheduler
from tests.server.scheduling.sequence.requests import request_of
from tests.support.clock import LoopClock
from tests.support.hosts import ScriptedHost, hosted
from tests.support.inferences import make_config, make_response
from tests.support.scheduled import no_submit

IDLE_MS = 20
KEYS: tuple[int | str, ...] = (1, 2, 3, 4, "1", "a")
BROKEN = InferenceError(ErrorCode.INTERNAL, "broken", reason=FailureReason.BACKEND)
DIED = InferenceError(ErrorCode.UNAVAILABLE, "died", reason=FailureReason.BACKEND)


@dataclasses.dataclass(eq=False)
class Sent:
    """A request: its sequence, its position there, and how often it was executed."""

    inference: Inference
    sequence: int
    position: int
    executions: int = 0
    is_running: bool = False
    answers: int = 0


class CheckedHost(ScriptedHost):
    """Tells the world of every batch that begins."""

    world: "World"
    number = 0
    alive = True

    @override
    def begin(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        self.world.on_begin(self, batch)
        super().begin(batch, on_outcome)


class World:
    """Random events change it; `check` holds after each of them.

    Args:
        rows: `max_batch_size`.
        instances: how many hosts.
        batching: the sequence batcher.
        is_long: forget requests that are over, for runs of many steps.
    """

    def __init__(
        self, *, rows: int, instances: int, batching: SequenceBatching, is_long: bool = False
    ) -> None:
        self.loop = looptime.new_event_loop()
        self.clock: Clock = LoopClock(self.loop)
        self.rows, self.batching, self.is_long = rows, batching, is_long
        self.iterative = batching.iterative
        self.is_direct = isinstance(batching.strategy, DirectStrategy)
        self.hosts = [self.make_host(number) for number in range(instances)]
        self.removed: list[CheckedHost] = []
        self.statistics = ModelStatistics()
        self.sent: dict[str, Sent] = {}
        self.sequence_of: dict[int | str, int] = {}
        self.sizes = collections.Counter[int]()
        self.last_run = dict[int, int]()
        self.place = dict[int, tuple[int, int]]()
        self.accepted = self.answered = self.refused = 0
        self.names = 0
        self.made = instances
        self.stopping: asyncio.Task[None] | None = None
        self.scheduler = self.loop.run_until_complete(self.make_scheduler())

    def make_host(self, number: int) -> CheckedHost:
        host = CheckedHost(clock=self.clock, loop=self.loop, name=f"m_0_{number}")
        host.world, host.number = self, number
        return host

    async def make_scheduler(self) -> SequenceScheduler:
        make = SchedulerFactory(resources=UnlimitedResources(), clock=self.clock)
        scheduler = make(
            make_config(sequences=self.batching, max_batch_size=self.rows),
            version=1,
            instances=hosted(self.hosts),
            submit=no_submit,
            statistics=self.statistics,
        )
        assert isinstance(scheduler, SequenceScheduler)
        return scheduler

    def send(self, key: int | str, flags: str, timeout_us: int = 0) -> None:
        was_open = self.scheduler.has_sequence(key)
        self.names += 1
        inference = request_of(
            key,
            flags,
            name=f"r{self.names}",
            timeout_us=timeout_us,
            now=self.clock.monotonic_ns(),
            on_response=self.on_response,
        )
        # Its response may come before `submit` returns.
        sequence = self.sequence_of.get(key, -1)
        if not was_open:
            sequence = self.names
        sent = self.sent[inference.request.id] = Sent(inference, sequence, self.sizes[sequence])
        self.sizes[sequence] += 1
        refusal: InferenceError | None = None
        try:
            self.scheduler.submit(inference)
        except InferenceError as error:
            refusal = error
        if refusal is not None:
            del self.sent[inference.request.id]
            self.sizes[sequence] -= 1
            self.refused += 1
            self.may_refuse(refusal, flags, was_open=was_open)
            return
        self.accepted += 1
        assert was_open or "s" in flags
        self.sequence_of[key] = sent.sequence
        if "e" in flags:
            assert not self.scheduler.has_sequence(key)

    def may_refuse(self, refusal: InferenceError, flags: str, *, was_open: bool) -> None:
        if refusal.code is ErrorCode.INVALID_ARG:
            assert not was_open
            assert "s" not in flags
            assert "must specify the START flag" in refusal.message
        else:
            assert refusal.code is ErrorCode.UNAVAILABLE
            assert self.stopping is not None or not any(host.alive for host in self.running)

    @property
    def running(self) -> list["CheckedHost"]:
        return [host for host in self.hosts if host not in self.removed]

    def on_begin(self, host: CheckedHost, batch: list[Inference]) -> None:
        real = [each for each in batch if each.request.id]
        assert real
        assert len(batch) <= self.rows
        assert self.is_direct or len(real) == len(batch)
        assert batch[-1].request.id, "a null row at the end"
        for row, inference in enumerate(batch):
            if not inference.request.id:
                assert inference.completed
                continue
            sent = self.sent[inference.request.id]
            assert not sent.is_running
            assert not inference.completed
            assert self.iterative or not sent.executions
            sent.is_running = True
            sent.executions += 1
            others = [
                each
                for each in self.sent.values()
                if each.sequence == sent.sequence and each.is_running and each is not sent
            ]
            assert not others, "two requests of a sequence at once"
            if not self.iterative:
                assert self.last_run.get(sent.sequence, -1) < sent.position, "overtaken"
                self.last_run[sent.sequence] = sent.position
            place = host.number, row if self.is_direct else 0
            assert self.place.setdefault(sent.sequence, place) == place, "moved"

    def on_response(self, response: InferResponse) -> None:
        sent = self.sent[response.id]
        sent.answers += 1
        assert sent.answers == 1, "answered twice"
        self.answered += 1

    def cancel(self, pick: int) -> None:
        live = [each for each in self.sent.values() if not each.inference.completed]
        if not live:
            return
        sent = live[pick % len(live)]
        inference, key = sent.inference, sent.inference.request.correlation_id
        is_current = self.sequence_of[key] == sent.sequence
        inference.cancel()
        assert sent.is_running or inference.completed
        if is_current:
            assert not self.scheduler.has_sequence(key)
        for each in self.sent.values():
            behind = each.position > sent.position and not self.iterative
            if each.sequence == sent.sequence and behind:
                assert each.inference.completed or each.is_running

    def go(self, key: int | str) -> None:
        """The client of a sequence has gone."""
        self.scheduler.end_sequence(key)
        assert not self.scheduler.has_sequence(key)

    def advance(self, ms: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(ms / 1_000))
        if ms > IDLE_MS + 2:
            busy = {
                each.inference.request.correlation_id
                for each in self.sent.values()
                if not each.inference.completed
            }
            for key in KEYS:
                assert key in busy or not self.scheduler.has_sequence(key), "idle for too long"

    def come_back(self, pick: int, how: str) -> None:
        busy = [host for host in self.hosts if host.out is not None]
        if not busy:
            return
        host = busy[pick % len(busy)]
        batch = host.out
        assert batch is not None
        for inference in batch:
            if inference.request.id:
                self.sent[inference.request.id].is_running = False
        if how == "fail":
            host.fail(BROKEN)
        elif how == "die":
            host.alive = False
            host.die(DIED)
        elif how == "again" and self.iterative:
            again = [row for row in range(len(batch)) if row % 2 == 0]
            host.finish_with(
                [None if row in again else make_response(each) for row, each in enumerate(batch)],
                rescheduled=again,
            )
        else:
            host.finish()

    def revive(self) -> None:
        for host in self.running:
            if not host.alive:
                host.alive = True
                host.usable(True)

    def resize(self, pick: int) -> None:
        """Replace an instance by another one."""
        if self.stopping is not None:
            return
        old = self.running[pick % len(self.running)]
        self.made += 1
        new = self.make_host(self.made)
        self.hosts.append(new)
        self.removed.append(old)
        self.scheduler.resize(hosted([new]), hosted([old]))

    def stop(self) -> None:
        self.stopping = self.stopping or self.loop.create_task(self.scheduler.stop())
        self.loop.run_until_complete(asyncio.sleep(0))

    def check(self) -> None:
        live = [each for each in self.sent.values() if not each.inference.completed]
        assert self.accepted - self.answered == len(live)
        assert all(each.answers == int(each.inference.completed) for each in self.sent.values())
        running = sum(each.is_running for each in live)
        assert self.statistics.pending == len(live) - running
        if self.is_long and len(self.sent) > 500:
            for host in self.hosts:
                host.batches.clear()
            self.hosts = [host for host in self.hosts if not host.closed]
            self.removed = [host for host in self.removed if not host.closed]
            kept = {each.sequence for each in live}
            self.sent = {
                name: each for name, each in self.sent.items() if not each.inference.completed
            }
            kept.update(self.sequence_of.values())
            for known in (self.place, self.last_run, self.sizes):
                for sequence in [sequence for sequence in known if sequence not in kept]:
                    del known[sequence]

    def end(self) -> None:
        """Stop: everything ends, and every slot is free."""
        for host in self.hosts:
            if not host.alive and host not in self.removed:
                host.alive = True
                host.usable(True)
        self.stop()
        assert self.stopping is not None
        while not self.stopping.done():
            self.come_back(0, "ok")
            self.loop.run_until_complete(asyncio.sleep(0.001))
        self.check()
        self.nothing_left()
        assert all(host.closed for host in self.hosts)
        self.loop.close()

    def nothing_left(self) -> None:
        assert self.accepted == self.answered
        assert (self.statistics.pending, self.scheduler.inflight()) == (0, 0)
        assert self.statistics.success_count + self.statistics.fail_count == self.accepted
        assert self.statistics.sequences is not None
        counts = self.statistics.sequences()
        assert (counts.open, counts.waiting, counts.used) == (0, 0, 0)


def step(world: World, chance: random.Random) -> None:
    """One random event."""
    number = chance.randrange(1 << 30)
    match chance.choices(
        ("send", "come_back", "advance", "cancel", "go", "revive", "resize"),
        (50, 30, 12, 4, 1, 2, 1 if len(world.hosts) < 12 or world.is_long else 0),
    )[0]:
        case "send":
            key = chance.choice(KEYS)
            flags = "s" * (not world.scheduler.has_sequence(key) or chance.random() < 0.05)
            flags += "e" * (chance.random() < 0.2)
            if chance.random() < 0.05:
                flags = ""
            world.send(key, flags, chance.choice((0, 0, 0, 3_000, 50_000)))
        case "come_back":
            how = chance.choices(("ok", "fail", "die", "again"), (80, 8, 2, 40))[0]
            world.come_back(number, how)
        case "advance":
            world.advance(chance.choice((0, 0, 1, 4, IDLE_MS + 5)))
        case "cancel":
            world.cancel(number)
        case "go":
            world.go(chance.choice(KEYS))
        case "revive":
            world.revive()
        case "resize":
            world.resize(number)
    world.check()


def batchings(chance: random.Random) -> SequenceBatching:
    """A random config."""
    direct = DirectStrategy(
        max_queue_delay_us=chance.choice((0, 5_000)),
        minimum_slot_utilization=chance.choice((0, 0.5, 1)),
    )
    oldest = OldestStrategy(
        max_candidate_sequences=chance.choice((0, 1, 3, 6)),
        preferred_batch_sizes=chance.choice(((), (2,))),
        max_queue_delay_us=chance.choice((0, 5_000)),
    )
    return SequenceBatching(
        strategy=chance.choice((direct, oldest)),
        max_sequence_idle_us=IDLE_MS * 1_000,
        iterative=chance.random() < 0.3,
    )
