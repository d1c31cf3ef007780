"""What the instances of a scheduler execute and which requests wait, for the detection of deadlocks."""

import pytest

from naiad.config.model_config import DynamicBatching
from tests.support.scheduled import ScheduledModel, turn

pytestmark = pytest.mark.looptime


async def test_instances_show_their_batch_and_the_queue_its_requests() -> None:
    model = ScheduledModel(instances=2)
    one, two, three = model.send(), model.send(), model.send()
    await turn()
    seen = model.scheduler.occupancy()
    assert list(seen.executions) == [("m_0_0", [one]), ("m_0_1", [two])]
    assert [seen.waits(each) for each in (one, two, three)] == [False, False, True]
    model.hosts[0].finish()
    await turn()
    seen = model.scheduler.occupancy()
    assert list(seen.executions) == [("m_0_0", [three]), ("m_0_1", [two])]
    assert not seen.waits(three)
    for host in model.hosts:
        host.finish()
    await turn()
    assert [batch for _, batch in model.scheduler.occupancy().executions] == [None, None]
    model.nothing_left()


async def test_a_batch_that_is_kept_back_shows_the_one_it_waits_for() -> None:
    batching = DynamicBatching(preserve_ordering=True)
    model = ScheduledModel(batching, instances=2, max_batch_size=1)
    slow, fast = model.send(), model.send()
    await turn()
    assert list(model.scheduler.occupancy().kept) == []
    model.hosts[1].finish()
    await turn()
    assert list(model.scheduler.occupancy().kept) == [([fast], [slow])]
    model.hosts[0].finish()
    await turn()
    assert list(model.scheduler.occupancy().kept) == []
    model.nothing_left()
