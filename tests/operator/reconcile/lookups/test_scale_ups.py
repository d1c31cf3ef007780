"""What autoscalers of nodes say of pods: which of their Events count, and how often they are read."""

import collections.abc
import datetime as dt
import typing

import pytest

from naiad_operator.builders.facts import ScaleUp
from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.reconcile.lookups import scale_ups
from naiad_operator.reconcile.lookups.scale_ups import ScaleUps, of_events

Object = dict[str, typing.Any]


def event(
    reason: str, message: str, *, at: int = 0, source: str = "cluster-autoscaler", **more: object
) -> Object:
    """As client-go writes it, at a minute after noon."""
    moment = f"2026-01-31T12:{at:02d}:00Z"
    component = {"source": {"component": source}}
    return {"reason": reason, "message": message, "lastTimestamp": moment, **component, **more}


TRIGGERED = event("TriggeredScaleUp", "pod triggered scale-up: [{gpus 1->2 (max: 5)}]")
SCHEDULER = event("FailedScheduling", "0/3 nodes are available", at=9, source="default-scheduler")


@pytest.mark.parametrize(
    ("events", "coming", "autoscaler", "message"),
    [
        ([TRIGGERED, SCHEDULER], True, "cluster-autoscaler", "[{gpus 1->2 (max: 5)}]"),
        (
            [event("NotTriggerScaleUp", "pod didn't trigger scale-up: 2 node(s) had untolerated taint(s), 1 max node group size reached")],
            False, "cluster-autoscaler", "1 max node group size reached, 2 node(s) had untolerated taint(s)",
        ),
        ([event("FailedScaleUp", "node scale-up failed: quota exceeded")], False, "cluster-autoscaler", "node scale-up failed: quota exceeded"),
        (
            [event("Nominated", "Pod should schedule on: nodeclaim/gpu-1", source="eks-auto-mode/compute")],
            True, "eks-auto-mode/compute", "Pod should schedule on: nodeclaim/gpu-1",
        ),
        (
            [event("FailedScheduling", 'Failed to schedule pod, incompatible with nodepool "gpu"', source="karpenter")],
            False, "karpenter", 'incompatible with nodepool "gpu"',
        ),
        ([TRIGGERED, event("FailedScaleUp", "no quota", at=2)], False, "cluster-autoscaler", "no quota"),
        ([event("FailedScaleUp", "no quota"), {**TRIGGERED, "series": {"lastObservedTime": "2026-01-31T12:03:00.000000Z"}}], True, "cluster-autoscaler", "[{gpus 1->2 (max: 5)}]"),
    ],
)  # fmt: skip
def test_the_last_word_of_an_autoscaler_counts(
    events: list[Object],
    coming: bool,  # noqa: FBT001 - a parameter of the table
    autoscaler: str,
    message: str,
) -> None:
    said = of_events(events)
    assert said is not None
    assert (said.is_coming, said.autoscaler, said.message) == (coming, autoscaler, message)


@pytest.mark.parametrize("moment", ["0000-01-01T00:00:00Z", "", "9999-12-31T23:59:59Z"])
def test_an_event_without_a_time_that_can_be_compared_is_read(moment: str) -> None:
    said = of_events([event("FailedScaleUp", "no quota") | {"lastTimestamp": moment}, TRIGGERED])
    assert said is not None
    assert said.is_coming == (moment < "2026")


async def test_a_flood_of_events_is_read_up_to_a_bound() -> None:
    api, _, reader = made()
    api.pages_of = 10**6
    api.events = [event("FailedScaleUp", "no quota")] * 100
    assert await reader.of("team", "demo-1") is not None
    assert api.yielded == 10


def test_events_of_others_say_nothing_of_nodes() -> None:
    assert of_events([SCHEDULER, event("Pulled", "image pulled", source="kubelet")]) is None


class Api:
    """Counts reads, and may refuse them."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.events: list[Object] = []
        self.error: errors.ApiError | None = None
        self.pages_of = 1
        self.yielded = 0

    async def pages(
        self, ref: ResourceRef, *, fields: str
    ) -> collections.abc.AsyncIterator[tuple[list[Object], str]]:
        self.reads.append(f"{ref.namespace} {fields}")
        if self.error is not None:
            raise self.error
        for _ in range(self.pages_of):
            self.yielded += 1
            yield self.events, "1"


class Clock:
    """Time that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def made() -> tuple[Api, Clock, ScaleUps]:
    api, clock = Api(), Clock()
    return api, clock, ScaleUps(typing.cast("Client", api), clock)


async def test_a_pod_is_asked_about_again_soon_until_an_autoscaler_has_spoken() -> None:
    api, clock, looked = made()
    for _ in range(3):
        assert await looked.of("models", "demo-1") is None
    assert api.reads == ["models involvedObject.name=demo-1"]
    assert looked.until_next("models", "demo-1") == scale_ups.FIRST_KEPT_S
    clock.now += scale_ups.FIRST_KEPT_S
    api.events = [TRIGGERED]
    noon = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
    expected = ScaleUp(
        is_coming=True,
        autoscaler="cluster-autoscaler",
        message="[{gpus 1->2 (max: 5)}]",
        time=noon,
    )
    for _ in range(3):
        assert await looked.of("models", "demo-1") == expected
    assert looked.until_next("models", "demo-1") == scale_ups.KEPT_S
    assert len(api.reads) == 2
    clock.now += scale_ups.KEPT_S
    api.error = errors.ServerTrouble("list events", code=500)
    assert await looked.of("models", "demo-1") == expected, "an outage is not news"


async def test_without_the_permission_events_are_rarely_asked_for() -> None:
    api, clock, looked = made()
    api.error = errors.Forbidden("list events", code=403)
    for name in ("demo-1", "demo-2"):
        assert await looked.of("models", name) is None
    assert len(api.reads) == 1
    assert looked.until_next("models", "demo-2") == scale_ups.RETRY_S
    clock.now += scale_ups.RETRY_S
    api.error = None
    api.events = [TRIGGERED]
    assert await looked.of("models", "demo-1") is not None
