"""Which instances stay when a config has others, and how the new ones begin to serve (row 7.24)."""

import asyncio
import collections.abc
import pathlib

import msgspec
import pytest

from naiad.backends.backend import instance_specs
from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import (
    InstanceGroup,
    InstanceKind,
    ModelConfig,
    RateLimiterResource,
)
from naiad.engine.instances.factory import ModelInstances, Specs
from naiad.engine.instances.update import change
from naiad.engine.model import Model
from naiad.errors import InferenceError, invalid
from naiad.hosts.host import HostedInstance
from naiad.repository.plan import VersionPlan
from naiad.scheduling.instances.resources import Resources, UnlimitedResources
from naiad.scheduling.rate_limiter.keys import ResourceKey
from naiad.scheduling.rate_limiter.limiter import RateLimiter
from tests.support.hosts import ScriptedHost, hosted
from tests.support.inferences import make_config
from tests.support.scheduled import ScheduledModel, turn

CPU, GPU = InstanceKind.CPU, InstanceKind.GPU


def config(*groups: InstanceGroup) -> ModelConfig:
    return msgspec.structs.replace(make_config(), instance_groups=groups)


def group(count: int, *gpus: int, name: str = "g") -> InstanceGroup:
    return InstanceGroup(name=name, kind=GPU if gpus else CPU, count=count, gpus=gpus)


def with_priority(priority: int) -> InstanceGroup:
    return msgspec.structs.replace(group(1), priority=priority)


Names = list[tuple[str, int]]


@pytest.mark.parametrize(
    ("before", "after", "kept", "added", "removed"),
    [
        (group(1), group(3), [("g_0", 0)], [("g_1", 0), ("g_2", 0)], []),
        (group(3), group(1), [("g_0", 0)], [], [("g_1", 0), ("g_2", 0)]),
        (group(2), group(2, name="h"), [("g_0", 0), ("g_1", 0)], [], []),
        (group(2), group(1, 0), [], [("g_0", 0)], [("g_0", 0), ("g_1", 0)]),
        (
            group(2, 0, 1), group(1, 0, 1),
            [("g_0", 0), ("g_0", 1)], [], [("g_1", 0), ("g_1", 1)],
        ),
        (group(1), with_priority(2), [], [("g_0", 0)], [("g_0", 0)]),
        (with_priority(2), with_priority(2), [("g_0", 0)], [], []),
    ],
    ids=["more", "fewer", "renamed", "moved to a GPU", "fewer on each GPU", "another priority", "the same priority"],
)  # fmt: skip
def test_instances_stay_where_the_config_still_wants_one(
    before: InstanceGroup, after: InstanceGroup, kept: Names, added: Names, removed: Names
) -> None:
    decided = change(instance_specs(config(before)), config(after))
    parts = [
        [(spec.name, spec.device_id) for spec in part]
        for part in (decided.kept, decided.added, decided.removed)
    ]
    assert parts == [kept, added, removed]


def test_names_stay_unique_after_many_changes() -> None:
    running = instance_specs(config(group(3)))
    for count in (1, 4, 2, 5):
        decided = change(running, config(group(count)))
        running = decided.kept + decided.added
        assert len({spec.name for spec in running}) == count


class Served:
    """A model with scripted hosts, as many as its config says."""

    def __init__(self, count: int, resources: Resources | None = None) -> None:
        self.scheduled = ScheduledModel(instances=count, name="g")
        self.made: list[ScriptedHost] = []
        self.refuse = False
        self.model = Model(
            config=config(group(count, name="g_0")),
            version=1,
            scheduler=self.scheduled.scheduler,
            instances=ModelInstances(hosted(self.scheduled.hosts), self._more),
            resources=resources or UnlimitedResources(),
            clock=self.scheduled.clock,
        )

    async def _more(self, plan: VersionPlan, specs: Specs) -> list[HostedInstance]:
        if self.refuse:
            raise invalid("no memory")
        made = [self._host(spec) for spec in specs]
        self.made += made
        return list(map(HostedInstance, specs, made))

    def _host(self, spec: InstanceSpec) -> ScriptedHost:
        loop = asyncio.get_running_loop()
        return ScriptedHost(clock=self.scheduled.clock, loop=loop, name=spec.name)

    def plan(self, count: int) -> VersionPlan:
        return VersionPlan(
            config=config(group(count, name="g_0")), version=1, model_dir=pathlib.Path("m")
        )

    def busy(self) -> collections.abc.Sequence[str]:
        return [name for name, batch in self.model.occupancy().executions if batch is not None]


@pytest.mark.looptime
async def test_new_instances_serve_at_once_and_removed_ones_finish_what_they_have() -> None:
    served = Served(2)
    requests = [served.scheduled.send() for _ in range(4)]
    assert served.busy() == ["g_0_0", "g_0_1"]
    more = await served.model.prepare(served.plan(3))
    assert served.busy() == ["g_0_0", "g_0_1"]
    assert more.commit() == "instances: 1 added, 2 kept"
    assert served.busy() == ["g_0_0", "g_0_1", "g_0_2"]
    fewer = await served.model.prepare(served.plan(1))
    assert fewer.commit() == "instances: 2 removed, 1 kept"
    assert served.model.config.instance_groups[0].count == 1
    removed = [served.scheduled.hosts[1], served.made[0]]
    for host in removed:
        host.finish()
        await turn()
    assert [host.closed for host in removed] == [1, 1]
    # The request in the queue runs on the instance that is left.
    for _ in range(2):
        served.scheduled.host.finish()
    assert [served.scheduled.error(request) for request in requests] == [None] * 4
    await served.model.stop()
    assert [host.closed for host in (*served.scheduled.hosts, *served.made)] == [1, 1, 1]


@pytest.mark.looptime
async def test_instances_that_could_never_have_their_resources_are_refused_and_nothing_changes() -> None:  # fmt: skip
    limiter = RateLimiter({ResourceKey("R", None): 1})
    served = Served(1, limiter)
    needs = msgspec.structs.replace(
        group(2, name="more"), resources=(RateLimiterResource(name="R", count=1),)
    )
    too_much = msgspec.structs.replace(needs, resources=(RateLimiterResource(name="R", count=2),))
    plan = served.plan(1)
    refused = msgspec.structs.replace(plan, config=config(group(1, name="g_0"), too_much))
    with pytest.raises(InferenceError, match='Resource count for "R" is limited to 1'):
        await served.model.prepare(refused)
    assert (served.made, limiter.unused()) == ([], {})
    fits = msgspec.structs.replace(plan, config=config(group(1, name="g_0"), needs))
    served.refuse = True
    with pytest.raises(InferenceError, match="no memory"):
        await served.model.prepare(fits)
    assert limiter.unused() == {}
    served.refuse = False
    discarded = await served.model.prepare(fits)
    assert limiter.unused() == {ResourceKey("R", 0): 1}
    await discarded.discard()
    assert limiter.unused() == {}


@pytest.mark.looptime
async def test_passive_instances_get_no_batches_and_are_closed_when_removed_and_at_the_end() -> (
    None
):
    served = Served(1)
    idle = InstanceGroup(name="idle", kind=CPU, count=2, passive=True)
    plan = msgspec.structs.replace(served.plan(1), config=config(group(1, name="g_0"), idle))
    (await served.model.prepare(plan)).commit()
    first, second = served.scheduled.send(), served.scheduled.send()
    assert served.busy() == ["g_0_0"]
    assert [host.batches for host in served.made] == [[], []]
    one_idle = msgspec.structs.replace(idle, count=1)
    fewer = msgspec.structs.replace(plan, config=config(group(1, name="g_0"), one_idle))
    (await served.model.prepare(fewer)).commit()
    await turn()
    assert sorted(host.closed for host in served.made) == [0, 1]
    for _ in range(2):
        served.scheduled.host.finish()
    assert [served.scheduled.error(each) for each in (first, second)] == [None, None]
    await served.model.stop()
    assert [host.closed for host in served.made] == [1, 1]


@pytest.mark.looptime
async def test_all_instances_are_replaced_while_requests_wait() -> None:
    served = Served(1)
    first, second = served.scheduled.send(), served.scheduled.send()
    plan = msgspec.structs.replace(served.plan(1), config=config(group(1, 0, name="g_0")))
    (await served.model.prepare(plan)).commit()
    served.made[0].finish()
    assert served.scheduled.error(second) is None
    served.scheduled.host.finish()
    assert served.scheduled.error(first) is None
    await turn()
    assert served.busy() == []
    await served.model.stop()
    assert [host.closed for host in (served.scheduled.host, *served.made)] == [1, 1]


@pytest.mark.looptime
async def test_what_is_prepared_can_be_dropped_and_what_cannot_be_made_changes_nothing() -> None:
    served = Served(1)
    await (await served.model.prepare(served.plan(2))).discard()
    assert [host.closed for host in served.made] == [1]
    served.refuse = True
    with pytest.raises(InferenceError, match="no memory"):
        await served.model.prepare(served.plan(2))
    served.scheduled.send()
    assert served.busy() == ["g_0_0"]
    assert served.model.config.instance_groups[0].count == 1
