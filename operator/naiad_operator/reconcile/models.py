"""Which models a service's pods have loaded, asked of one pod's `/status` on its metrics port.

Best effort, beside the queue: a pod that does not answer costs a second of a task of its own and nothing of anybody's
reconcile. What was heard last is kept; when it changes, the service is looked at again. A service all of whose models are
ready is asked each half minute, one that still loads every few seconds, one that does not answer ever less often.

Requests go over a session that has no credentials: a pod must never see the operator's token.
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
_LARGEST = 1 << 20
"""Bytes of an answer; a thousand models are about 100 KB."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AskingPace:
    """Seconds between questions, and how long to wait for an answer."""

    ready: float = 30.0
    loading: float = 3.0
    silent_most: float = 120.0
    answer: float = 1.0
    at_once: int = 16


@dataclasses.dataclass(slots=True)
class _Asked:
    """What is known of one service.

    Attributes:
        url: whom to ask.
        models: the last answer; None before the first.
        due: when to ask next.
        silent: questions in a row without an answer.
    """

    url: str
    due: float
    models: tuple[ModelState, ...] | None = None
    silent: int = 0
    asking: bool = False


class _Answer(msgspec.Struct):
    """The body of `/status`."""

    class Model(msgspec.Struct):
        """One model version."""

        name: str
        version: str = ""
        state: str = ""
        reason: str = ""

    models: list[Model]


_decode = msgspec.json.Decoder(_Answer).decode


class Models:
    """Asks pods for their models.

    Args:
        session: without credentials.
        changed: called with the service whose models are different now.
        pace: see there.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        changed: collections.abc.Callable[[Key], None],
        pace: AskingPace,
    ) -> None:
        self._session = session
        self._changed = changed
        self._pace = pace
        self._services: dict[Key, _Asked] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(pace.at_once)

    def of(self, key: Key) -> tuple[ModelState, ...] | None:
        """What was heard last; None when nobody has answered."""
        asked = self._services.get(key)
        return asked.models if asked is not None else None

    def follow(self, key: Key, url: str) -> None:
        """Asks this address from now on; "" means that there is nobody to ask."""
        if not url:
            self._services.pop(key, None)
            return
        asked = self._services.get(key)
        if asked is None or asked.url != url:
            known = asked.models if asked is not None else None
            self._services[key] = _Asked(url=url, due=self._now(), models=known)

    async def run(self) -> typing.NoReturn:
        """Asks whoever is due, until it is cancelled."""
        try:
            while True:
                self._ask_due()
                await asyncio.sleep(min(1.0, self._pace.loading / 3))
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ask_due(self) -> None:
        now = self._now()
        for key, asked in self._services.items():
            if asked.due <= now and not asked.asking:
                asked.asking = True
                task = asyncio.create_task(self._ask(key, asked), name=f"models of {key}")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _ask(self, key: Key, asked: _Asked) -> None:
        try:
            async with self._places:
                heard = await self._heard(asked.url)
        finally:
            asked.asking = False
        pace = self._pace
        if heard is None:
            asked.silent += 1
            wait = min(pace.silent_most, pace.loading * 2 ** min(asked.silent, 10))
        else:
            asked.silent = 0
            wait = pace.ready if all(m.state == "READY" for m in heard) and heard else pace.loading
        asked.due = self._now() + wait
        if heard is not None and heard != asked.models:
            asked.models = heard
            if self._services.get(key) is asked:
                self._changed(key)

    async def _heard(self, url: str) -> tuple[ModelState, ...] | None:
        try:
            async with asyncio.timeout(self._pace.answer), self._session.get(url) as answer:
                if answer.status != _OK:
                    return None
                body = await answer.content.read(_LARGEST)
                while more := await answer.content.read(_LARGEST):
                    body += more
                    if len(body) > _LARGEST:
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


def address(
    pods: collections.abc.Iterable[collections.abc.Mapping[str, typing.Any]], port: int
) -> str:
    """Whom to ask: the first ready pod, else one that runs (it can say what it is loading); "" when there is none."""
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
