"""Random requests, cancellations, failures and lost instances of two models that share resources: every wait ends."""

import asyncio
import collections.abc
import contextlib

import hypothesis
import looptime
from hypothesis import strategies as st

from naiad.config.model_config import DynamicBatching
from naiad.core.inference import Inference
from naiad.errors import InferenceError
from tests.support.hosts import ScriptedHost
from tests.support.resources import CountedResources
from tests.support.scheduled import BACKEND_FAILED, ScheduledModel

MODELS, INSTANCES = 2, 2

Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "finish", "finish", "fail", "cancel", "lost", "usable", "wait"]),
        st.integers(0, MODELS - 1),
        st.integers(0, 9),
    ),
    max_size=60,
)  # fmt: skip


class Models:
    """Two models that share resources: one with batches, one without."""

    def __init__(self, available: int) -> None:
        self.resources = CountedResources(available)
        self.available = available
        self.models = [
            ScheduledModel(batching, instances=INSTANCES, name=name, resources=self.resources)
            for name, batching in (("batched", DynamicBatching()), ("single", None))
        ]
        self.sent: list[Inference] = []

    async def step(self, what: str, model: int, number: int) -> None:
        scheduled = self.models[model]
        host = scheduled.hosts[number % INSTANCES]
        match what:
            case "send":
                with contextlib.suppress(InferenceError):  # no usable instance
                    self.sent.append(scheduled.send())
            case "finish" if host.out is not None:
                host.finish()
            case "fail" if host.out is not None:
                host.fail(BACKEND_FAILED)
            case "cancel" if self.sent:
                self.sent[number % len(self.sent)].cancel()
            case "lost":
                host.usable(False)
            case "usable":
                host.usable(True)
            case "wait":
                await asyncio.sleep(0.001)
            case _:
                pass

    def check(self) -> None:
        """A busy instance has one resource; nothing waits while there is one for it."""
        busy = [host.name for host in self.hosts() if host.out is not None]
        assert sorted(self.resources.names()) == sorted(busy)
        assert len(busy) + self.resources.available == self.available
        assert not (self.resources.waiting and self.resources.available)

    async def end(self) -> None:
        """Finish every batch; then nothing is left."""
        for host in self.hosts():
            host.usable(True)
        for _ in range(len(self.sent) + 1):
            await asyncio.sleep(0.001)
            for host in self.hosts():
                if host.out is not None:
                    host.finish()
            self.check()
        assert all(inference.completed for inference in self.sent)
        for model in self.models:
            await asyncio.wait_for(model.scheduler.stop(), 1)
        assert (self.resources.available, self.resources.waiting) == (self.available, [])
        for model in self.models:
            model.nothing_left()

    def hosts(self) -> "collections.abc.Iterator[ScriptedHost]":
        return (host for model in self.models for host in model.hosts)


@hypothesis.given(available=st.integers(1, 3), steps=STEPS)
def test_no_request_waits_for_ever(available: int, steps: list[Step]) -> None:
    async def run() -> None:
        models = Models(available)
        for step in steps:
            await models.step(*step)
            models.check()
        await models.end()

    loop = looptime.new_event_loop()
    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
