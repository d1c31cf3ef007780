"""The response cache of a server: its store, and the schedulers that use it."""

import itertools

from naiad.config.model_config import ModelConfig
from naiad.core.clock import Clock
from naiad.response_cache.key import KeyMaker
from naiad.response_cache.local import LocalStore
from naiad.response_cache.redis.store import RedisStore
from naiad.response_cache.scheduler import CachingScheduler
from naiad.response_cache.settings import CacheSettings, LocalSettings
from naiad.response_cache.store import ResponseStore
from naiad.scheduling.scheduler import Scheduler


class ResponseCache:
    """Makes schedulers with a cache in front of them.

    Args:
        store: has the entries of all models.
        full_key: see `KeyMaker`.
        clock: gives the time.

    Attributes:
        store: the same.
    """

    def __init__(self, store: ResponseStore, *, full_key: bool, clock: Clock) -> None:
        self.store = store
        self._full_key = full_key
        self._clock = clock
        self._loads = itertools.count()

    def in_front_of(
        self, scheduler: Scheduler, *, config: ModelConfig, version: int, identity: bytes
    ) -> CachingScheduler:
        """A scheduler that looks into the cache first, of a model version that was just loaded.

        Args:
            scheduler: executes the rest.
            config: the model's.
            version: the version.
            identity: of the files that it was loaded from; not read if the store is this server's own.
        """
        load = next(self._loads)
        name = f"{config.name}\0{version}"
        own = identity if self.store.shared else str(load).encode()
        batching = config.dynamic_batching
        return CachingScheduler(
            scheduler,
            model=config.name,
            version=version,
            owner=f"{name}\0{load}",
            store=self.store,
            make_key=KeyMaker(name.encode() + b"\0" + own, full=self._full_key),
            statistics=scheduler.statistics,
            preserve_ordering=batching is not None and batching.preserve_ordering,
            clock=self._clock,
        )


def make_cache(settings: CacheSettings, *, clock: Clock) -> ResponseCache:
    """The cache of a server; on its event loop."""
    store: ResponseStore
    if isinstance(settings, LocalSettings):
        store = LocalStore(settings.size)
    else:
        store = RedisStore(settings, clock=clock)
    return ResponseCache(store, full_key=settings.full_key, clock=clock)
