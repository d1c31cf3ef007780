"""The only instance of a model waits for the next requests of the clients that it has just answered, where that saves a batch, and nowhere else."""

import asyncio
import collections.abc
import random
import typing

import pytest
from typing_extensions import override

from naiad.config.model_config import DynamicBatching, QueuePolicy
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.hosts.host import OnOutcome
from naiad.scheduling.follow_ups import Durations, FollowUps
from tests.support.hosts import ScriptedHost
from tests.support.inferences import make_inference, make_spec
from tests.support.scheduled import ScheduledModel

MS = 1_000_000
FIXED_S = 0.004
Cost = collections.abc.Callable[[int], float]


def fixed(_rows: int) -> float:
    return FIXED_S


def per_row(rows: int) -> float:
    return 0.000_25 * rows


def half_fixed(rows: int) -> float:
    return 0.002 + 0.000_1 * rows


class Costly(ScriptedHost):
    """A batch takes as long as its rows cost."""

    cost: Cost

    @override
    def begin(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        self.takes_s = self.cost(sum(each.batch_size for each in batch))
        super().begin(batch, on_outcome)


class Clients:
    """Clients of one model that each send a request, and the next one a while after its response.

    Attributes:
        model: as given.
        answered: how many responses came.
        stopped: how many clients send nothing any more.
    """

    def __init__(
        self, model: ScheduledModel, count: int, *, cost: Cost, takes_us: int = 500
    ) -> None:
        for host in model.hosts:
            host.__class__ = Costly
            typing.cast("Costly", host).cost = cost
        self.model = model
        self.answered = self.stopped = 0
        self._loop = asyncio.get_running_loop()
        self._random = random.Random(7)
        self._takes_us = takes_us
        for _ in range(count):
            self._later()

    def without_waiting(self) -> "Clients":
        vars(self.model.scheduler)["_follow_ups"] = None
        return self

    async def rate(self, seconds: float = 0.3) -> float:
        """Responses per second, after some warm-up."""
        await asyncio.sleep(0.2)
        before = self.answered
        await asyncio.sleep(seconds)
        return (self.answered - before) / seconds

    def rows(self) -> float:
        """Of the last hundred batches, on average."""
        batches = [batch for host in self.model.hosts for batch in host.batches[-100:]]
        return sum(len(batch) for batch in batches) / len(batches)

    def _later(self) -> None:
        # A few different times: each one costs the virtual loop many iterations.
        after_us = self._takes_us * self._random.randrange(3, 11) / 10
        self._loop.call_later(after_us / 1e6, self._send)

    def _send(self) -> None:
        self.model.scheduler.submit(make_inference(on_response=self._on_response))

    def _on_response(self, response: InferResponse) -> None:
        self.answered += response.error is None
        if self.stopped:
            self.stopped -= 1
        else:
            self._later()


def model_of(batching: DynamicBatching | None = None, **settings: typing.Any) -> ScheduledModel:
    return ScheduledModel(batching or DynamicBatching(), max_batch_size=32, **settings)


@pytest.mark.looptime
async def test_clients_of_one_instance_share_a_batch_that_costs_no_more_than_half_of_them() -> None:
    alone = await Clients(model_of(), 32, cost=fixed).without_waiting().rate()
    clients = Clients(model_of(), 32, cost=fixed)
    assert await clients.rate() > 1.6 * alone
    assert clients.rows() > 29


@pytest.mark.looptime
async def test_without_the_wait_they_split_into_halves() -> None:
    clients = Clients(model_of(), 32, cost=fixed).without_waiting()
    await clients.rate()
    assert 15 < clients.rows() < 18


@pytest.mark.looptime
@pytest.mark.parametrize("cost", [fixed, per_row])
@pytest.mark.parametrize(
    ("count", "prefetches"),
    [(1, False), (2, True), (16, False), (24, False), (40, True), (64, True)],
)
async def test_no_number_of_clients_gets_fewer_responses_than_without_the_wait(
    count: int,
    prefetches: bool,  # noqa: FBT001  a parameter of the test
    cost: Cost,
) -> None:
    alone = Clients(model_of(prefetches=prefetches), count, cost=cost).without_waiting()
    clients = Clients(model_of(prefetches=prefetches), count, cost=cost)
    with_it, without_it = await asyncio.gather(clients.rate(), alone.rate())
    assert with_it > 0.97 * without_it


@pytest.mark.looptime
@pytest.mark.parametrize("inputs", [(make_spec(),), (make_spec("x", -1),)])
async def test_models_with_a_variable_dimension_gain_as_well(
    inputs: tuple[typing.Any, ...],
) -> None:
    clients = Clients(model_of(inputs=inputs), 16, cost=half_fixed)
    await clients.rate()
    assert clients.rows() > 14


@pytest.mark.looptime
async def test_a_model_whose_batches_cost_as_much_as_their_rows_waits_almost_never() -> None:
    clients = Clients(model_of(), 16, cost=per_row)
    await clients.rate()
    assert clients.rows() < 9


@pytest.mark.looptime
async def test_clients_that_take_long_for_their_next_request_are_not_waited_for() -> None:
    alone = Clients(model_of(), 16, cost=fixed, takes_us=20_000).without_waiting()
    clients = Clients(model_of(), 16, cost=fixed, takes_us=20_000)
    with_it, without_it = await asyncio.gather(clients.rate(), alone.rate())
    assert with_it > 0.97 * without_it


@pytest.mark.looptime
async def test_clients_that_go_cost_the_others_one_wait_and_not_more() -> None:
    clients = Clients(model_of(), 32, cost=fixed)
    await clients.rate()
    clients.stopped = 24
    assert await clients.rate() > 8 / (2 * FIXED_S)
    clients.stopped = 7
    assert await clients.rate() > 0.95 / (FIXED_S + 0.000_5)


@pytest.mark.looptime
async def test_requests_that_come_at_their_own_pace_wait_no_longer() -> None:
    loop = asyncio.get_running_loop()
    model = model_of()
    for host in model.hosts:
        host.takes_s = 0.001
    waited: list[float] = []

    def send() -> None:
        sent = loop.time()
        model.scheduler.submit(
            make_inference(on_response=lambda _: waited.append(loop.time() - sent))
        )

    for number in range(200):
        loop.call_later(number * 0.0031, send)
    await asyncio.sleep(1)
    assert len(waited) == 200
    assert max(waited) < 0.0011


@pytest.mark.looptime
@pytest.mark.parametrize(
    "batching",
    [DynamicBatching(max_queue_delay_us=1), DynamicBatching(preferred_batch_sizes=(16,))],
)
async def test_a_config_that_says_when_a_batch_waits_is_obeyed(batching: DynamicBatching) -> None:
    clients = Clients(model_of(batching), 30, cost=fixed)
    await clients.rate()
    assert clients.rows() < 17


@pytest.mark.looptime
async def test_of_several_instances_none_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(FollowUps, "wait", lambda *_: asked.append(1))
    await Clients(model_of(instances=2), 32, cost=fixed).rate()
    assert asked == []
    await Clients(model_of(), 32, cost=fixed).rate()
    assert asked


async def until_it_waits(model: ScheduledModel) -> None:
    for _ in range(10_000):
        if model.host.out is None and model.statistics.pending:
            return
        await asyncio.sleep(0.000_01)
    raise AssertionError("it never waits")


async def waiting() -> ScheduledModel:
    """A model that waits for follow-ups of its last batch; its clients send no more."""
    model = model_of()
    clients = Clients(model, 16, cost=fixed)
    await clients.rate()
    await until_it_waits(model)
    clients.stopped = 1_000
    return model


@pytest.mark.looptime
async def test_a_stop_ends_the_wait() -> None:
    model = await waiting()
    started = model.clock.monotonic_ns()
    await model.scheduler.stop()
    assert model.clock.monotonic_ns() - started <= FIXED_S * 1e9 + MS // 100
    model.nothing_left()


@pytest.mark.looptime
async def test_the_loss_of_the_instance_ends_the_wait_with_errors() -> None:
    model = await waiting()
    model.host.usable(False)
    model.nothing_left()


@pytest.mark.looptime
async def test_requests_that_are_cancelled_during_the_wait_leave_nothing_behind() -> None:
    model = await waiting()
    for inference in list(vars(model.scheduler)["_queue"]):
        inference.cancel()
    model.nothing_left()
    await asyncio.sleep(1)
    request = model.send()
    await asyncio.sleep(0.1)
    assert request.completed


@pytest.mark.looptime
async def test_a_request_whose_timeout_would_pass_meanwhile_is_not_kept_waiting() -> None:
    policy = QueuePolicy(default_timeout_us=1_000_000, allow_timeout_override=True)
    model = model_of(DynamicBatching(default_queue_policy=policy))
    clients = Clients(model, 16, cost=fixed)
    await clients.rate()
    await until_it_waits(model)
    urgent = model.send(timeout_us=5)
    await asyncio.sleep(0.1)
    assert urgent.completed
    assert model.error(urgent) is None


@pytest.mark.looptime
async def test_for_a_client_alone_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []
    monkeypatch.setattr(Durations, "add", lambda *_: measured.append(1))
    assert await Clients(model_of(), 1, cost=fixed).rate() > 200
    assert measured == []


def test_the_fixed_part_of_durations_is_found_through_noise_and_outliers() -> None:
    numbers, durations = random.Random(1), Durations()
    for count in range(400):
        rows = numbers.choice([12, 16, 20])
        noise = numbers.uniform(0.9, 1.1) if count % 40 else 20
        durations.add(rows, round((3 * MS + rows * MS / 10) * noise))
    assert 2.2 * MS < durations.fixed_ns < 3.8 * MS


def test_durations_that_grow_with_the_rows_have_no_fixed_part() -> None:
    numbers, durations = random.Random(1), Durations()
    for _ in range(400):
        rows = numbers.choice([12, 16, 20])
        durations.add(rows, round(rows * MS / 4 * numbers.uniform(0.9, 1.1)))
    assert durations.fixed_ns < 0.6 * MS


def test_batches_of_one_size_tell_of_no_fixed_part() -> None:
    durations = Durations()
    assert durations.fixed_ns == 0
    for _ in range(100):
        durations.add(16, 4 * MS)
    assert durations.fixed_ns == 0
    assert durations.mean_ns == 4 * MS


def test_the_first_batches_and_batches_without_rows_do_not_count() -> None:
    durations = Durations()
    for _ in range(8):
        durations.add(1, 500 * MS)
    for _ in range(20):
        durations.add(0, 0)
    durations.add(8, 4 * MS)
    assert durations.mean_ns == 4 * MS


@pytest.mark.looptime
async def test_batches_that_are_too_short_for_a_wait_are_not_measured_until_they_are_long_again() -> (
    None
):
    cost = {"seconds": 0.000_05}
    model = model_of()
    clients = Clients(model, 32, cost=lambda _rows: cost["seconds"])
    await asyncio.sleep(0.1)  # two thousand batches
    follow_ups = vars(model.scheduler)["_follow_ups"]
    assert not follow_ups.is_active
    assert 0 < follow_ups.durations.mean_ns < 200_000
    cost["seconds"] = FIXED_S
    await clients.rate()
    assert follow_ups.is_active
    assert clients.rows() > 24
