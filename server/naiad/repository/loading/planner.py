"""Makes the plan of a model: checks the model out of its store and reads its config."""

import asyncio
import collections.abc
import logging
import pathlib

import msgspec

from naiad.errors import ErrorCode, InferenceError
from naiad.repository.loading.progress import LoadTable, Phase, enter
from naiad.repository.plan import ModelPlan
from naiad.repository.reading import LocalCopy, RepositoryReader
from naiad.repository.requests.overrides import Value
from naiad.repository.store import StoredModel

log = logging.getLogger("naiad.repository")

Resolve = collections.abc.Callable[
    [pathlib.Path, Value | None], collections.abc.Awaitable[ModelPlan]
]
"""Makes a plan of a model folder, with the config of the load request in place of its own if there is one."""


class Planner:
    """Makes plans.

    Args:
        slots: bounds the models that are read or loaded at the same time.
        loads: records the phases of each load.
    """

    def __init__(
        self,
        *,
        reader: RepositoryReader,
        resolve: Resolve,
        slots: asyncio.Semaphore,
        loads: LoadTable,
    ) -> None:
        self._reader = reader
        self._resolve = resolve
        self._slots = slots
        self._loads = loads

    async def plan(
        self, model: StoredModel, config: Value | None = None
    ) -> tuple[ModelPlan, LocalCopy | None]:
        """Check a model out and read its config, if none is given. A plan with versions comes with the copy; the caller releases it."""
        copy: LocalCopy | None = None
        load = self._loads.begin(model.name)
        async with self._slots:
            try:
                enter(Phase.FETCHING)
                copy = await self._reader.checkout(model, load.on_bytes)
                enter(Phase.READING_CONFIG)
                plan = await self._resolve(copy.folder, config)
                copy.agents = plan.agents
            except InferenceError as error:
                may_pass = copy is None and error.code is ErrorCode.UNAVAILABLE
                plan = ModelPlan(name=model.name, reason=error.message, may_pass=may_pass)
            except Exception as error:
                log.exception("reading the model %s failed", model.location)
                plan = ModelPlan(name=model.name, reason=f"{type(error).__name__}: {error}")
        if copy is not None and plan.reason:
            plan = msgspec.structs.replace(
                plan, reason=copy.for_people(plan.reason), details=copy.for_people(plan.details)
            )
            copy.release()
            copy = None
        return plan, copy
