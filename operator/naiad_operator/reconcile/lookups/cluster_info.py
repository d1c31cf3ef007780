"""Discovers which kinds the API server serves, and which later fields of routes.

It is refreshed periodically, because this changes while the operator runs: KEDA is installed, or a CRD is removed. Only the kinds that
the operator uses and that an API server may lack are kept, so that another project's CRD causes no work.
"""

import asyncio
import collections.abc
import contextlib
import logging
import typing

from naiad_operator.api import names
from naiad_operator.builders import kinds
from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.reconcile.lookups import schemas

_log = logging.getLogger(__name__)
_MIN_INTERVAL_S = 2.0
"""Between two discoveries, also when a watch reports a kind that is missing."""
CONFIRMED_S = 10.0
"""How long discoveries must lack a kind until it counts as removed: an API server that has just started serves its CRDs a moment later."""
_OWN = (names.KIND, names.PROFILE_KIND)
_USED = frozenset(
    (
        *(f"{names.API_VERSION}/{kind}" for kind in _OWN),
        *(kind.key for kind in kinds.KINDS if kind.optional),
    )
)


class ClusterInfo:
    """Discovers the served kinds and keeps the result.

    Args:
        api: the client of the API server.

    Attributes:
        kinds: the optional kinds that the operator uses, and its own, that the API server serves, as "group/version/Kind"; and the later fields of
            routes that it has (`builders.kinds.mirror_percent`).
    """

    def __init__(self, api: Client) -> None:
        self._api = api
        self._requested = asyncio.Event()
        self.kinds: frozenset[str] = frozenset()
        self._missing: dict[str, float] = {}
        """Since when (the loop's time) discoveries lack a kind."""
        self._schemas = schemas.RouteFields(api)

    async def refresh(self) -> bool:
        """Runs one discovery.

        Returns:
            Whether the result has changed.

        Raises:
            ApiError: the API server refused or did not respond.
        """
        self._requested.clear()
        served = await self._api.kinds() & _USED
        served = self._confirmed(served | await self._schemas.present(served))
        has_changed = served != self.kinds
        self.kinds = served
        return has_changed

    def _confirmed(self, served: frozenset[str]) -> frozenset[str]:
        """The kinds of a discovery, and those that it lacks for the first time or not for long enough."""
        now = asyncio.get_running_loop().time()
        self._missing = {kind: self._missing.get(kind, now) for kind in self.kinds - served}
        kept = {kind for kind, since in self._missing.items() if now - since < CONFIRMED_S}
        if kept:
            self.refresh_soon()
        return served | kept

    def refresh_soon(self) -> None:
        """Requests a discovery before the next periodic one."""
        self._requested.set()

    async def refresh_periodically(
        self, interval: float, on_change: collections.abc.Callable[[], None]
    ) -> typing.NoReturn:
        """Runs a discovery every `interval` seconds, and on request, until it is cancelled; calls `on_change` after each change."""
        while True:
            await asyncio.sleep(min(interval, _MIN_INTERVAL_S))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, interval - _MIN_INTERVAL_S)):
                    await self._requested.wait()
            try:
                if await self.refresh():
                    on_change()
            except errors.ApiError as error:
                _log.warning("%s; what was known of the cluster is kept", error)
