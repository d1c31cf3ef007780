"""Polls the model states of each service from `/status` on the metrics port of one of its pods.

This is best effort, independent of the queue: a pod that does not respond delays no reconcile. The last response is kept; when it
changes, the service is reconciled. A service whose models are all ready is polled every 30 seconds, one that still loads every few
seconds, and one that does not respond with growing intervals.

The requests use a session without credentials: a pod must never receive the operator's token.
"""

import asyncio
import collections.abc
import dataclasses
import logging
import typing

import aiohttp
import msgspec

from naiad_operator.builders import server
from naiad_operator.queue import Key
from naiad_operator.status import ModelState

_log = logging.getLogger(__name__)
_MAX_BYTES = 1 << 20
"""The largest accepted response in bytes; a thousand models are about 100 KB."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PollConfig:
    """The intervals of polling, the timeout of a request (all in seconds), and the number of concurrent requests."""

    ready: float = 30.0
    loading: float = 3.0
    max_unresponsive: float = 120.0
    timeout: float = 1.0
    concurrency: int = 16


@dataclasses.dataclass(slots=True)
class _Target:
    """The polling state of one service.

    Attributes:
        url: the address to poll.
        models: the last response; None before the first.
        due: when to poll next.
        failures: requests in a row without a valid response.
    """

    url: str
    due: float
    models: tuple[ModelState, ...] | None = None
    failures: int = 0
    in_flight: bool = False


class _StatusBody(msgspec.Struct):
    """The body of a response of `/status`."""

    class Model(msgspec.Struct):
        """One model version."""

        name: str
        version: str = ""
        state: str = ""
        reason: str = ""

    models: list[Model]


_decode = msgspec.json.Decoder(_StatusBody).decode


class ModelPoller:
    """Polls pods for the states of their models.

    Args:
        session: a session without credentials.
        on_change: called with the key of a service whose model states have changed.
        config: the intervals and limits.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        on_change: collections.abc.Callable[[Key], None],
        config: PollConfig,
    ) -> None:
        self._session = session
        self._on_change = on_change
        self._config = config
        self._services: dict[Key, _Target] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(config.concurrency)

    def states(self, key: Key) -> tuple[ModelState, ...] | None:
        """The model states in the last response; None before the first."""
        target = self._services.get(key)
        return target.models if target is not None else None

    def poll(self, key: Key, url: str) -> None:
        """Polls this address from now on; "" stops polling."""
        if not url:
            self._services.pop(key, None)
            return
        target = self._services.get(key)
        if target is None or target.url != url:
            known = target.models if target is not None else None
            self._services[key] = _Target(url=url, due=self._now(), models=known)

    async def run(self) -> typing.NoReturn:
        """Polls every service that is due, until it is cancelled."""
        try:
            while True:
                self._poll_due()
                await asyncio.sleep(min(1.0, self._config.loading / 3))
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _poll_due(self) -> None:
        now = self._now()
        for key, target in self._services.items():
            if target.due <= now and not target.in_flight:
                target.in_flight = True
                task = asyncio.create_task(self._poll_one(key, target), name=f"models of {key}")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _poll_one(self, key: Key, target: _Target) -> None:
        try:
            async with self._slots:
                states = await self._fetch(target.url)
        finally:
            target.in_flight = False
        config = self._config
        if states is None:
            target.failures += 1
            wait = min(config.max_unresponsive, config.loading * 2 ** min(target.failures, 10))
        else:
            target.failures = 0
            wait = (
                config.ready
                if all(m.state == "READY" for m in states) and states
                else config.loading
            )
        target.due = self._now() + wait
        if states is not None and states != target.models:
            target.models = states
            if self._services.get(key) is target:
                self._on_change(key)

    async def _fetch(self, url: str) -> tuple[ModelState, ...] | None:
        try:
            async with asyncio.timeout(self._config.timeout), self._session.get(url) as response:
                if response.status != _OK:
                    return None
                body = await response.content.read(_MAX_BYTES)
                while more := await response.content.read(_MAX_BYTES):
                    body += more
                    if len(body) > _MAX_BYTES:
                        return None
            models = _decode(body).models
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.MsgspecError) as error:
            _log.debug("%s did not say what it has loaded: %r", url, error)
            return None
        return tuple(
            ModelState(name=m.name, version=m.version, state=m.state, reason=m.reason)
            for m in models
        )

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


_OK = 200


def status_url(
    pods: collections.abc.Iterable[collections.abc.Mapping[str, typing.Any]], port: int
) -> str:
    """The address to poll: of the first ready pod, else of a running one (which reports what it loads); "" if none exists."""
    running = ""
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        status = pod.get("status") or {}
        ip = status.get("podIP")
        if not ip or status.get("phase") != "Running" or "deletionTimestamp" in pod["metadata"]:
            continue
        url = f"http://{f'[{ip}]' if ':' in ip else ip}:{port}{server.STATUS_PATH}"
        for condition in status.get("conditions") or ():
            if condition["type"] == "Ready" and condition["status"] == "True":
                return url
        running = running or url
    return running
