"""The rate limiter in front of instances that a test plays: no resource is exceeded, and shares follow the priorities."""

import collections
import typing

import hypothesis
from hypothesis import strategies as st

from naiad.backends.instance import InstanceSpec
from naiad.scheduling.rate_limiter.keys import ResourceKey
from naiad.scheduling.rate_limiter.limiter import RateLimiter
from tests.support.limited import limited_spec


class User:
    """An instance: it runs for as long as the test wants, and may have more work.

    Attributes:
        wants: whether it has work, and so acquires again when it is called back or has ended.
        executions: how many it has begun.
    """

    def __init__(self, limiter: RateLimiter, spec: InstanceSpec) -> None:
        self.limiter = limiter
        self.spec = spec
        self.batch: typing.Any = None
        self.waits = False
        self.wants = False
        self.executions = 0
        limiter.register([spec])

    def begin(self) -> None:
        self.wants = True
        if self.batch is None and not self.waits:
            self._acquire()

    def retry(self) -> None:
        assert self.waits, "called back without waiting"
        self.waits = False
        if self.wants:
            self._acquire()

    def end(self) -> None:
        assert self.batch is not None
        self.batch = None
        self.limiter.release(self)
        if self.wants:
            self._acquire()
        self.limiter.offer()

    def _acquire(self) -> None:
        if self.limiter.acquire(self):
            self.batch = "b"
            self.executions += 1
        else:
            self.waits = True


def shares(priorities: list[int], executions: int) -> list[int]:
    """How many executions each of some instances has that share one resource and always have work."""
    limiter = RateLimiter({})
    users = [User(limiter, limited_spec(priority=each, R=1)) for each in priorities]
    for user in users:
        user.begin()
    for _ in range(executions):
        (running,) = (user for user in users if user.batch is not None)
        running.end()
    return [user.executions for user in users]


def test_an_instance_of_priority_2_runs_half_as_often_as_one_of_priority_1() -> None:
    assert shares([1, 2], 299) == [200, 100]
    assert shares([1, 2, 4], 699) == [400, 200, 100]
    assert shares([0, 1], 99) == [50, 50]


@hypothesis.given(st.lists(st.integers(1, 20), min_size=2, max_size=6), st.integers(1, 400))
def test_shares_follow_the_priorities_at_every_moment(priorities: list[int], count: int) -> None:
    """No instance is ahead of another one by more than one execution of each."""
    done = shares(priorities, count)
    for one, its in zip(priorities, done, strict=True):
        for other, others in zip(priorities, done, strict=True):
            assert its * one - others * other <= one + other


def test_an_instance_that_had_no_work_saves_no_turns_up() -> None:
    limiter = RateLimiter({})
    busy, idle = (User(limiter, limited_spec(R=1)) for _ in range(2))
    busy.begin()
    for _ in range(1000):
        busy.end()
    idle.begin()
    begun = busy.executions
    for _ in range(10):
        (busy if busy.batch else idle).end()
    assert (busy.executions - begun, idle.executions) == (5, 5)


def test_a_resource_of_another_model_does_not_change_the_shares() -> None:
    limiter = RateLimiter({})
    other = User(limiter, limited_spec(S=1))
    first, second = (User(limiter, limited_spec(priority=each, R=1)) for each in (1, 3))
    for user in (other, first, second):
        user.begin()
    for _ in range(400):
        other.end()
        (first if first.batch else second).end()
    assert abs(first.executions - 3 * second.executions) <= 3


def test_an_instance_that_needs_much_gets_its_share() -> None:
    limiter = RateLimiter({ResourceKey("R", None): 4})
    large = User(limiter, limited_spec(R=4))
    small = [User(limiter, limited_spec(R=1)) for _ in range(4)]
    for user in (*small, large):
        user.begin()
    for _ in range(500):
        next(user for user in (*small, large) if user.batch).end()
    assert large.executions >= min(user.executions for user in small) - 1 > 90


def test_who_has_what_an_instance_waits_for() -> None:
    limiter = RateLimiter({})
    first, second = (User(limiter, limited_spec(R=1)) for _ in range(2))
    first.begin()
    second.begin()
    assert limiter.holders(second) == [first]
    assert limiter.holders(first) == []
    first.end()


def test_an_instance_that_is_gone_holds_and_waits_for_nothing() -> None:
    limiter = RateLimiter({})
    first, second, third = (User(limiter, limited_spec(R=1)) for _ in range(3))
    for user in (first, second, third):
        user.begin()
    limiter.withdraw(second)
    limiter.withdraw(first)
    assert third.batch is not None
    limiter.withdraw(first)
    third.wants = False
    third.end()
    assert limiter.unused() == {ResourceKey("R", 0): 1}
    limiter.unregister([user.spec for user in (first, second, third)])
    assert limiter.unused() == {}


def test_the_one_that_keeps_resources_from_others_goes_away() -> None:
    limiter = RateLimiter({ResourceKey("R", None): 1, ResourceKey("S", None): 1})
    holder = User(limiter, limited_spec(R=1))
    both = User(limiter, limited_spec(R=1, S=1))
    behind = User(limiter, limited_spec(S=1))
    for user in (holder, both, behind):
        user.begin()
    assert behind.waits
    limiter.withdraw(both)
    assert behind.batch is not None


SPECS = st.lists(
    st.builds(
        lambda priority, device, needs: limited_spec(priority=priority, device=device, **needs),
        st.integers(0, 3),
        st.integers(0, 1),
        st.dictionaries(st.sampled_from("RST"), st.integers(1, 3), min_size=1),
    ),
    min_size=1,
    max_size=6,
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["begin", "begin", "stop", "end", "end", "withdraw"]), st.integers(0, 5)),
    max_size=80,
)  # fmt: skip


@hypothesis.given(SPECS, STEPS, st.dictionaries(st.sampled_from("RST"), st.integers(3, 6), min_size=3))  # fmt: skip
def test_no_resource_is_ever_exceeded_and_every_wait_ends(
    specs: list[InstanceSpec], steps: list[tuple[str, int]], amounts: dict[str, int]
) -> None:
    explicit = {ResourceKey(name, None): amount for name, amount in amounts.items()}
    limiter = RateLimiter(explicit)
    users = [User(limiter, spec) for spec in specs]
    for what, number in steps:
        user = users[number % len(users)]
        match what:
            case "begin":
                user.begin()
            case "stop":
                user.wants = False
            case "end" if user.batch is not None:
                user.end()
            case "withdraw" if user.batch is None:
                user.waits = user.wants = False
                limiter.withdraw(user)
            case _:
                pass
        _check_amounts(users, amounts)
    for user in users:
        user.wants = False
    while running := [user for user in users if user.batch is not None]:
        running[0].end()
    assert not any(user.waits for user in users)
    assert all(limiter.unused()[key] == explicit[ResourceKey(key.name, None)] for key in limiter.unused())  # fmt: skip


def _check_amounts(users: list[User], amounts: dict[str, int]) -> None:
    used = collections.Counter[tuple[str, int]]()
    for user in users:
        if user.batch is not None:
            for need in user.spec.resources:
                used[need.name, user.spec.device_id] += need.amount
    assert all(amount <= amounts[name] for (name, _), amount in used.items())
    if not used:
        assert not any(user.waits and user.wants for user in users)
