"""Agents that hang while a model is loaded: the models without them, and with others, are loaded meanwhile."""

import asyncio
import pathlib
import threading
import typing

import pytest

from naiad.config.document import Document
from naiad.config.pbtxt import parser as pbtxt
from naiad.repository.agents.actions import AgentEvent
from naiad.repository.agents.resolver import AgentResolver
from naiad.repository.loading.slots import LoadSlots
from naiad.repository.plan import ModelPlan
from naiad.repository.requests.overrides import Value
from tests.support.waiting import until

_AGENT = """
from naiad.repository.agents.agent import RepositoryAgent
from tests.server.repository.agents import test_resolver

class Agent(RepositoryAgent):
    def load(self, model):
        test_resolver.began.append(model.name)
        if "{name}" == "hangs":
            assert test_resolver.may_end.wait(60)
"""

began: list[str] = []
may_end = threading.Event()


@pytest.fixture
def directory(tmp_path: pathlib.Path) -> typing.Iterator[pathlib.Path]:
    """Has an agent that hangs until the end of the test, and one that does not."""
    for name in ("hangs", "works"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.py").write_text(_AGENT.format(name=name))
    began.clear()
    may_end.clear()
    yield tmp_path
    may_end.set()


async def test_agents_that_hang_delay_only_models_with_the_same_agents(
    directory: pathlib.Path,
) -> None:
    slots = LoadSlots(1)

    async def read(folder: pathlib.Path, _: Value | None) -> Document:
        agent = folder.name.rstrip("0123456789")
        text = f'model_repository_agents {{ agents {{ name: "{agent}" }} }}'
        return pbtxt.parse(text if agent != "plain" else "", path=folder / "config.pbtxt")

    async def plan(folder: pathlib.Path, _: Document) -> ModelPlan:
        return ModelPlan(name=folder.name)

    resolver = AgentResolver(directory, read=read, plan=plan, slots=slots, at_once=2)

    async def resolve(name: str) -> ModelPlan:
        async with slots:
            return await resolver.resolve(pathlib.Path("/models", name))

    hanging = [asyncio.create_task(resolve(f"hangs{number}")) for number in range(3)]
    await until(lambda: len(began) == 2)
    for name in ("plain", "works1"):
        made = await resolve(name)
        assert made.name == name
        if made.agents is not None:
            await made.agents.apply(AgentEvent.END)
    assert sorted(began) == ["hangs0", "hangs1", "works1"]
    may_end.set()
    for made in await asyncio.gather(*hanging):
        assert made.agents is not None
        await made.agents.apply(AgentEvent.END)
    assert slots._value == 1
    await resolver.join()
