"""Makes the repositories of a server, one or one for each namespace, and what polls them."""

import asyncio
import collections
import collections.abc
import logging

import msgspec

from naiad.core.clock import Clock
from naiad.engine.loader import Loader
from naiad.engine.memory.pool import Load, MemoryPool
from naiad.engine.memory.sizes import HOST
from naiad.engine.model import Model
from naiad.errors import InferenceError
from naiad.log_text import Lines
from naiad.metrics.exposition import Sample, Series
from naiad.metrics.families import EVICTIONS
from naiad.options.options import Options
from naiad.repository.agents.resolver import AgentResolver
from naiad.repository.lifecycle import State
from naiad.repository.manager import Repository, VersionState
from naiad.repository.plan import VersionPlan
from naiad.repository.polling.poller import Poller
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.namespaces import NamespacedListener, Namespaces
from naiad.repository.store import Store
from naiad.repository.unloads import GpuMemory, Memory
from naiad.repository.version import LoadListener

log = logging.getLogger("naiad.serve")

_QUIET_SECONDS = 5.0
"""The default of `--repository-quiet-secs`, unless polls follow each other faster."""


class Pollers:
    """What polls the repositories; nothing in another mode than poll (row 7.30)."""

    def __init__(self, pollers: collections.abc.Sequence[Poller]) -> None:
        self._pollers = pollers

    def start(self) -> None:
        """See `Poller`."""
        for poller in self._pollers:
            poller.start()

    async def aclose(self) -> None:
        """See `Poller`."""
        await asyncio.gather(*(poller.aclose() for poller in self._pollers))

    def series(self) -> list[Series]:
        """The number of polls, over all repositories; empty if none is polled."""
        if not self._pollers:
            return []
        series = [poller.series() for poller in self._pollers]
        counts = collections.Counter[tuple[tuple[str, str], ...]]()
        for one in series:
            for sample in one.samples:
                counts[sample.labels] += int(sample.value)
        samples = tuple(Sample(labels, count) for labels, count in counts.items())
        return [msgspec.structs.replace(series[0], samples=samples)]


def eviction_series(repository: Repository[Model] | Namespaces[Model]) -> list[Series]:
    """The number of evictions."""
    count = (
        repository.evictions_count
        if isinstance(repository, Namespaces)
        else repository.evictions.count
    )
    return [Series(EVICTIONS, (Sample((), count),))]


class UnusedOverrides:
    """`--model-config-override` for models that no repository has: a state for `/status` and the log, for it may be a misspelled name.

    The server is ready nevertheless, for the model may have been removed from the repository, or may come later.

    Args:
        overrides: by the model's name.
        repository: where the models are.
    """

    def __init__(
        self,
        overrides: collections.abc.Mapping[str, str],
        repository: Repository[Model] | Namespaces[Model],
    ) -> None:
        self._overrides = overrides
        self._repository = repository
        self._unknown: list[str] = []

    async def find(self) -> None:
        """Look which models there are, once those of the start are loaded."""
        if not self._overrides:
            return
        try:
            known = {
                name for _, names in await self._repository.listings(names=True) for name in names
            }
        except InferenceError:
            return  # the start has reported it, or the repository is away for a moment
        self._unknown = sorted(self._overrides.keys() - known)
        for state in self.states():
            log.error("%s", Lines(state.reason))

    def states(self) -> list[VersionState]:
        """Those that are still unknown."""
        if not self._unknown:
            return []
        known = {state.name for state in self._repository.states()}
        return [
            VersionState(
                name=name,
                version=None,
                state=State.UNAVAILABLE,
                reason=f"--model-config-override={name}: no model repository has this model: correct its name, or leave the override out",
            )
            for name in self._unknown
            if name not in known
        ]


class RepositoryFactory:
    """Makes the repositories.

    Args:
        loader: of all of them, as are the agents and the coordination.
        progress: gets every change of state.
        clock: measures load durations.
        memory: see `Unloads`, as for `gpu_memory`.
    """

    def __init__(
        self,
        options: Options,
        *,
        loader: Loader,
        agents: AgentResolver,
        coordination: Coordination,
        progress: LoadListener,
        clock: Clock,
        memory: Memory | None,
        gpu_memory: GpuMemory | None = None,
    ) -> None:
        self._options = options
        self._loader = loader
        self._agents = agents
        self._progress = progress
        self._clock = clock
        self._coordination = coordination
        self._memory = memory
        self._gpu_memory = gpu_memory
        self._pollers: list[Poller] = []
        self._pool: MemoryPool | None = None
        if options.model_memory_limit:
            limits = {
                HOST if device < 0 else ("GPU", device): size
                for device, size in options.model_memory_limit.items()
            }
            self._pool = MemoryPool(
                limits=limits,
                progress=progress,
                slots=coordination.slots,
                clock=clock,
                in_thread=loader.in_thread,
            )

    def make(
        self, stores: collections.abc.Sequence[Store]
    ) -> tuple[Repository[Model] | Namespaces[Model], Pollers]:
        """The repository of the stores, or the one of each namespace (row 7.37), and what polls them."""
        if not self._options.model_namespacing:
            return self._repository(stores), Pollers(self._pollers)
        repositories = {
            store.location: self._repository([store], namespace=store.location)
            for store in sorted(stores, key=lambda store: store.location)
        }
        own = self._repository([])
        namespaces = Namespaces(repositories, own, coordination=self._coordination)
        return namespaces, Pollers(self._pollers)

    def _load_in(self, namespace: str) -> Load:
        async def load(plan: VersionPlan) -> Model:
            model = await self._loader.load(plan)
            model.namespace = namespace
            return model

        return load

    def _repository(
        self, stores: collections.abc.Sequence[Store], *, namespace: str = ""
    ) -> Repository[Model]:
        """A repository whose models stay within `--model-memory-limit`."""
        pool, progress = self._pool, self._progress
        load = self._load_in(namespace) if namespace else self._loader.load
        if pool is not None:
            load, progress = pool.waits(load, namespace=namespace), pool
        if namespace:
            progress = NamespacedListener(progress, namespace)
        reader = RepositoryReader(stores)
        repository = Repository(
            reader=reader,
            resolve=self._agents.resolve,
            load=load,
            coordination=self._coordination,
            retry_count=self._options.model_load_retry_count,
            progress=progress,
            clock=self._clock,
            namespace=namespace,
            memory=self._memory,
            gpu_memory=self._gpu_memory,
        )
        if pool is not None:
            pool.open(repository, namespace=namespace)
        if stores:
            self._poll(reader, repository)
        return repository

    def _poll(self, reader: RepositoryReader, repository: Repository[Model]) -> None:
        options = self._options
        interval, quiet = options.repository_poll_secs, options.repository_quiet_secs
        if not options.model_control_mode.polls or not interval:
            return
        self._pollers.append(
            Poller(
                reader=reader,
                models=repository,
                interval_seconds=interval,
                quiet_seconds=min(interval, _QUIET_SECONDS) if quiet is None else quiet,
                clock=self._clock,
            )
        )
