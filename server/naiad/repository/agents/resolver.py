"""Reads a model's config, runs its agents, and makes a plan of the folder that they leave (rows 14.35, 14.36).

The config, and with it the list of agents, is the one of the repository: a config.pbtxt that an agent puts in place is not read, as in Triton.
"""

import asyncio
import collections
import collections.abc
import pathlib

import msgspec

from naiad.config.document import Document
from naiad.repository.agents.actions import AgentEvent
from naiad.repository.agents.catalog import AgentCatalog
from naiad.repository.agents.registry import AgentRegistry
from naiad.repository.agents.session import AgentSession, AgentSpec
from naiad.repository.loading.progress import Phase, enter
from naiad.repository.loading.slots import LoadSlots
from naiad.repository.plan import ModelPlan
from naiad.repository.requests.overrides import Value


class AgentResolver:
    """Makes plans of model folders.

    Args:
        directory: `--repoagent-directory`.
        read: reads the config of a model folder, or the one of a load request in place of it.
        plan: makes a plan of a folder and a config.
        slots: of which each caller of `resolve` holds one; it is released while agents run, so that those that hang delay no other model.
        at_once: models whose agents run at the same time; those with other agents do not count.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        *,
        read: collections.abc.Callable[
            [pathlib.Path, Value | None], collections.abc.Awaitable[Document]
        ],
        plan: collections.abc.Callable[
            [pathlib.Path, Document], collections.abc.Awaitable[ModelPlan]
        ],
        slots: LoadSlots,
        at_once: int,
    ) -> None:
        self._registry = AgentRegistry(AgentCatalog(directory))
        self._read = read
        self._plan = plan
        self._slots = slots
        self._agent_slots = collections.defaultdict[frozenset[str], asyncio.Semaphore](
            lambda: asyncio.Semaphore(at_once)
        )
        self._ends = set[asyncio.Task[None]]()

    async def resolve(self, folder: pathlib.Path, config: Value | None = None) -> ModelPlan:
        """Make a plan. One with agents belongs to the caller, which ends them (`AgentSession.apply`).

        Args:
            folder: the model's.
            config: of the load request, in place of the model's own.

        Raises:
            InferenceError: the config of the request is not one; or an agent cannot be found, raised, or did not return in time; the model fails to load.
        """
        document = await self._read(folder, config)
        specs = _specs(document)
        if not specs or document.problems:
            return await self._plan(folder, document)
        session = AgentSession(folder.name, folder, specs, self._registry)
        planned = False
        try:
            enter(Phase.WAITING)
            async with (
                self._slots.released(),
                self._agent_slots[frozenset(spec.name for spec in specs)],
            ):
                enter(Phase.AGENTS)
                await session.load()
            enter(Phase.READING_CONFIG)
            plan = await self._plan(session.folder, document)
            planned = not plan.reason
        finally:
            if not planned:
                end = asyncio.ensure_future(session.apply(AgentEvent.END))
                self._ends.add(end)
                end.add_done_callback(self._ends.discard)
        return msgspec.structs.replace(plan, agents=session) if planned else plan

    def interrupt(self) -> None:
        """The server stops: see `AgentRegistry.interrupt`."""
        self._registry.interrupt()

    async def join(self) -> None:
        """Wait until no agent runs: after the last unload."""
        while self._ends:
            await asyncio.wait(self._ends)
        await self._registry.join()


def _specs(document: Document) -> list[AgentSpec]:
    agents = document.message.model_repository_agents.agents
    return [AgentSpec(agent.name, dict(agent.parameters)) for agent in agents]
