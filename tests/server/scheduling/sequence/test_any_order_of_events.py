"""Random sequences, timeouts, cancels, deaths and resizes: no request is lost, repeated, overtaken inside its sequence, or moved to another slot."""

import logging
import random

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.server.scheduling.sequence.world import World, batchings, step

STEPS = 1_000 * hypothesis.settings().max_examples
"""30,000, and in `make test-full` a million."""


@hypothesis.given(seed=st.integers(0, 2**32), steps=st.integers(1, 120))
@hypothesis.settings(max_examples=hypothesis.settings().max_examples * 2)
def test_any_order_of_events(seed: int, steps: int) -> None:
    chance = random.Random(seed)
    world = World(
        rows=chance.randint(1, 4), instances=chance.randint(1, 3), batching=batchings(chance)
    )
    for _ in range(steps):
        step(world, chance)
    world.end()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_tens_of_thousands_of_steps_leave_nothing_behind(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)  # sequences that start twice are warned of
    chance = random.Random(seed)
    batching = batchings(chance)
    world = World(rows=4, instances=2, batching=batching, is_long=True)
    for _ in range(STEPS // 4):
        step(world, chance)
    world.end()
    assert world.accepted > STEPS // 16
