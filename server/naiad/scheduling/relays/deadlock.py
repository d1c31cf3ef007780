"""Detects calls between models that wait for each other for ever, and selects the one to abort. Pure.

A call in the queue of a model waits for any of that model's instances; a call in execution waits for that execution. An execution waits
for calls that its model made. Calls are stuck if all that they wait for is stuck: the largest set in which no call can continue
before another one of the set.

An execution whose own thread waits for a call continues with that call only. One that made calls in another way (coroutines, threads)
is taken to continue with any of them, and may not wait at all; so a cycle over such calls is broken only once it is half a second old.
"""

import collections.abc
from typing import Any

import msgspec

from naiad.core.cycles import cycle_through

UNSURE_NS = 500_000_000
"""How long a cycle must last in which a caller perhaps does not wait."""

Execution = collections.abc.Hashable
"""A batch that an instance executes."""

Pool = collections.abc.Hashable
"""The instances of one model version."""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A call without a response.

    Attributes:
        number: in the order of the calls.
        caller: the execution that made the call; None if unknown.
        blocks: whether the caller's own thread waits for the response.
        queued_at: the instances that it waits for; None if it is not in a queue.
        executed_in: the execution that it is part of; None if not in execution.
        since_ns: time of the call, monotonic nanoseconds.
    """

    number: int
    caller: Execution | None
    blocks: bool
    queued_at: Pool | None
    executed_in: Execution | None
    since_ns: int


Pools = collections.abc.Mapping[Any, collections.abc.Sequence[Execution | None]]
"""The execution of each instance of a model; None for a free instance."""


def find_cycle(waits: collections.abc.Sequence[Wait], pools: Pools, now: int) -> tuple[Wait, ...]:
    """The calls of a cycle, each waiting for the next and the last for the first; the youngest, which is to be aborted, comes first.

    Args:
        waits: every call without a response.
        pools: the instances of every model at which a call is queued.
        now: monotonic nanoseconds.

    Returns:
        Empty if no call waits for ever, or if that is not certain yet.
    """
    stuck = _stuck(waits, pools)
    made_by = _by_caller(stuck)

    def waits_for(wait: Wait) -> collections.abc.Iterator[Wait]:
        for execution in _needs(wait, pools):
            if execution is not None:
                yield from made_by.get(execution, ())

    for wait in sorted(stuck, key=lambda wait: wait.number, reverse=True):
        cycle = cycle_through(wait, waits_for)
        if not cycle:
            continue
        youngest = max(range(len(cycle)), key=lambda index: cycle[index].number)
        cycle = cycle[youngest:] + cycle[:youngest]
        certain = all(call.blocks for call in cycle)
        if certain or now - cycle[0].since_ns >= UNSURE_NS:
            return tuple(cycle)
    return ()


def _stuck(waits: collections.abc.Sequence[Wait], pools: Pools) -> list[Wait]:
    """Remove the calls that can continue until none is left that can."""
    all_made_by = _by_caller(waits)
    stuck = list(waits)
    while True:
        made_by = _by_caller(stuck)
        can_continue = {
            execution
            for execution, made in all_made_by.items()
            if not made_by.get(execution) or _continues(made, made_by[execution])
        }
        remaining = [
            wait
            for wait in stuck
            if not any(
                execution not in all_made_by or execution in can_continue
                for execution in _needs(wait, pools)
            )
        ]
        if len(remaining) == len(stuck):
            return stuck
        stuck = remaining


def _continues(made: list[Wait], stuck: list[Wait]) -> bool:
    """Whether an execution continues some of whose calls are stuck: with any other call, unless its thread waits for a stuck one."""
    return len(stuck) < len(made) and not any(wait.blocks for wait in stuck)


def _needs(wait: Wait, pools: Pools) -> collections.abc.Sequence[Execution | None]:
    """The executions any of which a call waits for; None stands for one that waits for nothing."""
    if wait.queued_at is not None:
        return pools[wait.queued_at]
    return (wait.executed_in,)


def _by_caller(waits: collections.abc.Iterable[Wait]) -> dict[Execution, list[Wait]]:
    by_caller: dict[Execution, list[Wait]] = {}
    for wait in waits:
        if wait.caller is not None:
            by_caller.setdefault(wait.caller, []).append(wait)
    return by_caller
