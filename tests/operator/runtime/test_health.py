"""What /healthz and /readyz say."""

import asyncio
import typing

import pytest

from naiad_operator.builders import kinds
from naiad_operator.queue import Deleted, Key, Outcome, Queue, QueueConfig
from naiad_operator.reconcile.stores.profile_store import ProfileStore
from naiad_operator.runtime.health import Health
from naiad_operator.runtime.leadership import Leadership
from naiad_operator.runtime.tasks import Tasks
from naiad_operator.runtime.watches import Watches, WatchProblem

pytestmark = pytest.mark.looptime

KEY = Key("prod", "demo")
PROBLEM = WatchProblem(kinds.SCALED_OBJECT, "", "the operator cannot list scaledobjects.keda.sh")


class FakeWatches:
    """Watches in a state that a test sets."""

    def __init__(self) -> None:
        self.problem: list[WatchProblem] = []
        self.blocks = ""

    def all_problems(self) -> list[WatchProblem]:
        return self.problem

    def blocking(self) -> str:
        return self.blocks


class FakeProfiles:
    """NaiadProfiles in a state that a test sets."""

    def __init__(self) -> None:
        self.unreadable = ""
        self.blocks = ""

    def blocking(self) -> str:
        return self.blocks


class Parts:
    """A healthy operator of which a test breaks a part."""

    def __init__(self) -> None:
        self.watches = FakeWatches()
        self.profiles = FakeProfiles()
        self.tasks = Tasks(lambda _: None)
        self.queue = Queue(self._work, QueueConfig())
        self.is_stopping = False
        self.health = Health(
            watches=typing.cast("Watches", self.watches),
            profiles=typing.cast("ProfileStore", self.profiles),
            queue=self.queue,
            tasks=self.tasks,
            leadership=Leadership(None),
            is_stopping=lambda: self.is_stopping,
        )
        self.health.synced = True

    async def _work(self, key: Key) -> Outcome:
        return Deleted()


async def test_all_is_well() -> None:
    health = Parts().health
    assert (health.liveness().ok, health.readiness().ok) == (True, True)
    assert health.readiness().text == "ok"


async def test_an_optional_kind_that_cannot_be_watched_is_named_and_fails_no_probe() -> None:
    parts = Parts()
    parts.watches.problem = [PROBLEM]
    for report in (parts.health.liveness(), parts.health.readiness()):
        assert report.ok
        assert report.text == f"ok\n{PROBLEM.message}"


async def test_not_ready_while_a_required_kind_is_not_listed_but_healthy() -> None:
    parts = Parts()
    parts.health.synced = False
    parts.watches.blocks = "deployments.apps are not listed yet"
    assert parts.health.readiness().text == "deployments.apps are not listed yet"
    assert not parts.health.readiness().ok
    assert parts.health.liveness().ok


async def test_not_ready_while_the_profiles_are_not_listed_and_ready_where_they_cannot_be() -> None:
    parts = Parts()
    parts.profiles.blocks = "naiadprofiles.serving.naiad.dev are not listed yet"
    assert parts.health.readiness().text == parts.profiles.blocks
    parts.profiles.blocks = ""
    parts.profiles.unreadable = "no permission"
    assert parts.health.readiness().ok
    assert parts.health.readiness().text == "ok\nNaiadProfiles cannot be read: no permission"


async def test_not_ready_until_each_service_of_the_start_was_reconciled() -> None:
    parts = Parts()
    parts.health.initial_keys.add(KEY)
    parts.queue.add(KEY)
    assert parts.health.readiness().text.startswith("1 services have not been reconciled")
    parts.health.initial_keys.discard(KEY)
    assert parts.health.readiness().ok


async def test_a_task_that_has_ended_makes_it_unhealthy_unless_it_is_stopping() -> None:
    parts = Parts()

    async def end() -> None:
        return None

    parts.tasks.start("watch pods", end())
    await asyncio.sleep(1)
    assert parts.health.liveness().text == "the task 'watch pods' has ended"
    parts.is_stopping = True
    assert parts.health.liveness().ok


async def test_a_queue_that_makes_no_progress_makes_it_unhealthy() -> None:
    parts = Parts()
    parts.queue.add(KEY)
    await asyncio.sleep(3600)
    assert "no worker was free" in parts.health.liveness().text
    parts.health.synced = False
    assert parts.health.liveness().ok, "a restart does not bring the API server back"


async def test_a_task_that_dies_is_reported_with_its_error() -> None:
    reported: list[str] = []
    tasks = Tasks(reported.append)

    async def die() -> None:
        raise KeyError("x")

    tasks.start("discovery", die())
    await asyncio.sleep(1)
    await tasks.close()
    assert reported == ["the task 'discovery' has died: KeyError('x')"]
