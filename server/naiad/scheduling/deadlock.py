"""Whether calls between models wait for each other for ever, and which of them to give up.

Pure. A call is either in the queue of a model, then it waits for any one of that model's instances, or with an instance, then
it waits for what that instance executes. An execution waits for calls that its model made. So calls are stuck when every way on
leads back to them: the largest set of which nobody can go on alone.

An execution whose own thread waits for a call goes on with that call only. One that made calls in another way (coroutines, threads)
is taken to go on with any of them, and may even not wait at all; so a circle over such calls is given up only once it is
half a second old.
"""

import collections.abc
from typing import Any

import msgspec

UNSURE_NS = 500_000_000
"""How long a circle must last in which somebody perhaps does not wait."""

Execution = collections.abc.Hashable
"""A batch that some instance's model works on."""

Pool = collections.abc.Hashable
"""The instances of one model version."""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A call without its answer.

    Attributes:
        number: calls are numbered in the order in which they were made.
        caller: the execution that made it; None when nobody knows.
        blocks: the caller's own thread waits for it.
        queued_at: whose instances it waits for; None when it is in no queue.
        executed_in: the execution it is part of; None when it is in none.
        since_ns: when it was made.
    """

    number: int
    caller: Execution | None
    blocks: bool
    queued_at: Pool | None
    executed_in: Execution | None
    since_ns: int


Pools = collections.abc.Mapping[Any, collections.abc.Sequence[Execution | None]]
"""What each instance of a model works on; None for one that is free."""


def find_circle(waits: collections.abc.Sequence[Wait], pools: Pools, now: int) -> tuple[Wait, ...]:
    """The calls of one circle, each waiting for the next and the last for the first; the youngest, which has to go, comes first.

    Args:
        waits: every call without its answer.
        pools: of every model at which a call is queued.
        now: monotonic nanoseconds.

    Returns:
        Empty when nobody waits for ever, or nobody can be sure yet.
    """
    stuck = _stuck(waits, pools)
    made_by = _by_caller(stuck)
    for wait in sorted(stuck, key=lambda each: each.number, reverse=True):
        circle = _path_back(wait, made_by, pools)
        if not circle:
            continue
        youngest = max(range(len(circle)), key=lambda index: circle[index].number)
        circle = circle[youngest:] + circle[:youngest]
        sure = all(each.blocks for each in circle)
        if sure or now - circle[0].since_ns >= UNSURE_NS:
            return tuple(circle)
    return ()


def _stuck(waits: collections.abc.Sequence[Wait], pools: Pools) -> list[Wait]:
    """Take away who can go on until nobody is left who can."""
    all_made_by = _by_caller(waits)
    stuck = list(waits)
    while True:
        made_by = _by_caller(stuck)
        can_go_on = {
            execution
            for execution, made in all_made_by.items()
            if not made_by.get(execution) or _goes_on(made, made_by[execution])
        }
        left = [
            wait
            for wait in stuck
            if not any(
                execution not in all_made_by or execution in can_go_on
                for execution in _needs(wait, pools)
            )
        ]
        if len(left) == len(stuck):
            return stuck
        stuck = left


def _goes_on(made: list[Wait], stuck: list[Wait]) -> bool:
    """Whether an execution some of whose calls are stuck goes on: with any that is not, unless its thread waits for a stuck one."""
    return len(stuck) < len(made) and not any(wait.blocks for wait in stuck)


def _needs(wait: Wait, pools: Pools) -> collections.abc.Sequence[Execution | None]:
    """The executions any of which gets a call on; None stands for one that nothing holds up."""
    if wait.queued_at is not None:
        return pools[wait.queued_at]
    return (wait.executed_in,)


def _by_caller(waits: collections.abc.Iterable[Wait]) -> dict[Execution, list[Wait]]:
    found: dict[Execution, list[Wait]] = {}
    for wait in waits:
        if wait.caller is not None:
            found.setdefault(wait.caller, []).append(wait)
    return found


def _path_back(start: Wait, made_by: dict[Execution, list[Wait]], pools: Pools) -> list[Wait]:
    """The shortest way from a stuck call back to itself; empty when there is none."""
    came_from: dict[int, Wait] = {}
    line = [start]
    for wait in line:
        for execution in _needs(wait, pools):
            for following in made_by.get(execution, ()):
                if following is start:
                    path = [wait]
                    while path[-1] is not start:
                        path.append(came_from[path[-1].number])
                    return path[::-1]
                if following.number not in came_from:
                    came_from[following.number] = wait
                    line.append(following)
    return []
