"""The agents of one load of a model, from LOAD to UNLOAD_COMPLETE or LOAD_FAIL (row 14.35). All state belongs to the event loop."""

import asyncio
import collections.abc
import functools
import logging
import pathlib

import msgspec

from naiad.errors import InferenceError
from naiad.repository.agents.actions import AFTER, Action, AgentEvent, Phase
from naiad.repository.agents.agent import AgentModel, RepositoryAgent
from naiad.repository.agents.registry import AbandonedCallError, AgentRegistry

log = logging.getLogger("naiad.repository.agents")


class AgentSpec(msgspec.Struct, frozen=True):
    """An agent of a model's config."""

    name: str
    parameters: collections.abc.Mapping[str, str]


class _Call(msgspec.Struct):
    """An agent and what it knows of this load; `hangs`: a call has not returned, and no further one is made."""

    name: str
    agent: RepositoryAgent
    model: AgentModel
    hangs: bool = False


class AgentSession:
    """The agents of one load, called one after the other.

    Cancelling a caller does not cancel what the agents do; `end` follows in any case.

    Args:
        name: the model.
        folder: its files.
        specs: the agents, in the order of the config.
        registry: runs them.

    Attributes:
        folder: the model's files as the agents that were called so far left them.
    """

    def __init__(
        self,
        name: str,
        folder: pathlib.Path,
        specs: collections.abc.Sequence[AgentSpec],
        registry: AgentRegistry,
    ) -> None:
        self.folder = folder
        self._name = name
        self._specs = specs
        self._registry = registry
        self._calls: list[_Call] = []
        self._phase = Phase.LOADING
        self._last: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Call every agent for LOAD, until one fails.

        Raises:
            InferenceError: one cannot be found, raised, or did not return in time.
        """
        assert self._last is None, "called once, first"
        self._last = asyncio.ensure_future(self._load())
        await asyncio.shield(self._last)

    async def apply(self, event: AgentEvent) -> None:
        """Call the agents for what happened; failures are logged. With END, the temporary folders are removed and the agents released."""
        self._phase, actions = AFTER[self._phase, event]
        self._last = asyncio.ensure_future(
            self._notify(self._last, actions, ended=event is AgentEvent.END)
        )
        await asyncio.shield(self._last)

    async def _load(self) -> None:
        for spec in self._specs:
            agent = await self._registry.acquire(spec.name)
            model = AgentModel(name=self._name, folder=self.folder, parameters=spec.parameters)
            call = _Call(spec.name, agent, model)
            self._calls.append(call)
            await self._run(call, Action.LOAD)
            self.folder = model.relocated or self.folder

    async def _notify(
        self,
        previous: asyncio.Task[None] | None,
        actions: collections.abc.Sequence[Action],
        *,
        ended: bool,
    ) -> None:
        if previous is not None:
            await asyncio.gather(previous, return_exceptions=True)
        for action in actions:
            for call in reversed(self._calls) if action.is_completion else self._calls:
                if not call.hangs:
                    try:
                        await self._run(call, action)
                    except InferenceError as error:
                        log.error("model '%s': %s", self._name, error.message)  # noqa: TRY400 - the message says all
        if ended:
            for call in reversed(self._calls):
                await asyncio.to_thread(call.model.remove_files)
                self._registry.release(call.name)

    async def _run(self, call: _Call, action: Action) -> None:
        method = getattr(call.agent, action.value)
        try:
            await self._registry.call(
                call.name,
                f"{action.value} of model '{self._name}'",
                functools.partial(method, call.model),
                load_seconds=call.agent.timeout_seconds if action is Action.LOAD else None,
                returned=call.model.remove_files,
            )
        except AbandonedCallError:
            call.hangs = True
            raise
