"""Polls the model states of each service from `/status` on the metrics port of one of its pods.

This is best effort, independent of the queue: a pod that does not respond delays no reconcile. When the report changes, other than by
evictions, the service is reconciled. While models load, a service is polled every few seconds, with growing intervals while nothing changes; else every 30 seconds;
and one that does not respond with growing intervals. After a few failures in a row, what was reported before no longer counts.

Pods belong to tenants, and the operator reaches what tenants may not. So the requests use a session without credentials, follow no
redirect, and take a limited number of bytes; of the response nothing but the model states, which are limited too, reaches a status.
"""

import asyncio
import collections
import collections.abc
import dataclasses
import logging
import typing

import aiohttp
import msgspec

from naiad_operator import versions
from naiad_operator.builders import server
from naiad_operator.queue import Key
from naiad_operator.status import ModelReport, ModelState
from naiad_operator.status.models import is_settled
from naiad_operator.status.observed import AWAITED, NOT_REPORTED
from naiad_operator.status.pods import Manifest, has_started

MAIN, CANARY = "", "canary"
"""The pods of a service that are polled apart."""

_log = logging.getLogger(__name__)
_MAX_BYTES = 1 << 20
"""The largest accepted response in bytes; a thousand models are about 100 KB."""
_CHUNK_BYTES = 1 << 16
_OK = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PollConfig:
    """The intervals of polling, the timeout of a request (all in seconds), and the number of concurrent requests.

    Attributes:
        forget_after: failures in a row after which the last report no longer counts.
    """

    ready: float = 30.0
    loading: float = 3.0
    max_unresponsive: float = 120.0
    timeout: float = 1.0
    concurrency: int = 16
    forget_after: int = 3


@dataclasses.dataclass(frozen=True, slots=True)
class PodAddress:
    """A pod to poll.

    Attributes:
        pod: its name.
        url: of its `/status`.
        has_started: whether its server has loaded, or failed to load, what it loads at the start.
    """

    pod: str
    url: str
    has_started: bool


@dataclasses.dataclass(slots=True)
class _Target:
    """The polling state of one service.

    Attributes:
        addresses: the pods to poll; the second one only if the first one does not respond.
        due: when to poll next, in the loop's time.
        failures: requests in a row without a valid response.
        unchanged: responses in a row with the same states.
    """

    addresses: tuple[PodAddress, ...]
    due: float
    report: ModelReport = AWAITED
    failures: int = 0
    unchanged: int = 0
    in_flight: bool = False


_Name = typing.Annotated[str, msgspec.Meta(max_length=1024)]
_Word = typing.Annotated[str, msgspec.Meta(max_length=64)]


class _Model(msgspec.Struct):
    """One model version; the version is null if the model's config cannot be used."""

    name: _Name
    version: _Word | None = None
    state: _Word = ""
    reason: str | None = None


class _Load(msgspec.Struct):
    """One load in progress."""

    name: _Name
    phase: _Word = ""


class _StatusBody(msgspec.Struct):
    """The body of a response of `/status`."""

    models: list[_Model]
    loads: list[_Load] = []
    version: _Word = ""


_decode = msgspec.json.Decoder(_StatusBody).decode


class _PollError(Exception):
    """A pod's response cannot be used; the message says why, as the end of a sentence about the pod."""


def open_session() -> aiohttp.ClientSession:
    """A session for requests to pods: without credentials, cookies and decompression, which could turn a small response into a large one."""
    return aiohttp.ClientSession(
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
    )


class ModelPoller:
    """Polls pods for the states of their models.

    Args:
        session: from `open_session`.
        on_change: called with the key of a service whose report has changed.
        config: the intervals and limits.

    Attributes:
        results: polls by result: "ok", "unreachable", "invalid".
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
        self._services: dict[tuple[Key, str], _Target] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(config.concurrency)
        self.results: collections.Counter[str] = collections.Counter()

    def report(self, key: Key, of: str = MAIN) -> ModelReport:
        """The last report of a service's models."""
        target = self._services.get((key, of))
        return target.report if target is not None else NOT_REPORTED

    def poll(self, key: Key, addresses: tuple[PodAddress, ...], of: str = MAIN) -> None:
        """Polls these pods from now on, at once if they are others or have started; () stops polling."""
        if not addresses:
            self._services.pop((key, of), None)
            return
        target = self._services.get((key, of))
        if target is None:
            self._services[key, of] = _Target(addresses, due=self._now())
        elif target.addresses != addresses:
            target.addresses, target.due = addresses, self._now()
            target.failures = target.unchanged = 0

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
        for (key, of), target in self._services.items():
            if target.due <= now and not target.in_flight:
                target.in_flight = True
                task = asyncio.create_task(self._poll_one(key, of, target), name=f"models of {key}")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _poll_one(self, key: Key, of: str, target: _Target) -> None:
        addresses = target.addresses
        try:
            async with self._slots:
                report = await self._fetch_first(addresses)
        finally:
            target.in_flight = False
        if target.addresses is not addresses:
            return  # due already
        target.failures = target.failures + 1 if report.problem and not report.is_starting else 0
        if 0 < target.failures < self._config.forget_after:
            report = target.report
        has_changed = _without_evictions(report) != _without_evictions(target.report)
        target.unchanged = 0 if has_changed else target.unchanged + 1
        target.report = report
        target.due = self._now() + interval(report, target.failures, target.unchanged, self._config)
        if has_changed and self._services.get((key, of)) is target:
            self._on_change(key)

    async def _fetch_first(self, addresses: tuple[PodAddress, ...]) -> ModelReport:
        """The report of the first pod that responds; without models if none does."""
        problem = ""
        for address in addresses:
            try:
                body = await self._fetch(address.url)
            except _PollError as error:
                _log.debug("pod %s (%s) %s", address.pod, address.url, error)
                problem = problem or f"pod {address.pod} {error} ({address.url})"
            else:
                return _to_report(body, address)
        return ModelReport(problem=problem)

    async def _fetch(self, url: str) -> _StatusBody:
        """One response.

        Raises:
            _PollError: it cannot be used, or there is none.
        """
        try:
            async with (
                asyncio.timeout(self._config.timeout),
                self._session.get(url, allow_redirects=False) as response,
            ):
                body = await _read(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.results["unreachable"] += 1
            timed_out = isinstance(error, TimeoutError)
            why = f"within {self._config.timeout:g} s" if timed_out else "to a request"
            raise _PollError(f"does not respond {why}") from error
        except _PollError:
            self.results["invalid"] += 1
            raise
        try:
            decoded = _decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.results["invalid"] += 1
            raise _PollError("responds with something else than model states") from error
        self.results["ok"] += 1
        return decoded

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The body of a response, up to the limit.

    Raises:
        _PollError: the status is not 200, or the body is too large.
    """
    if response.status != _OK:
        raise _PollError(f"responds with HTTP status {response.status}")
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > _MAX_BYTES:
            response.close()
            raise _PollError(f"responds with more than {_MAX_BYTES} bytes")
    return bytes(body)


def _to_report(body: _StatusBody, address: PodAddress) -> ModelReport:
    """The report of a response. A model whose files are being fetched or whose config is being read has no version yet, only a load."""
    models = [
        ModelState(
            name=model.name,
            version=model.version or "",
            state=model.state,
            reason=model.reason or "",
        )
        for model in body.models
    ]
    # A model that serves, or comes and goes with its requests, is not loading because another version of it is.
    listed = {m.name for m in models if m.state in ("READY", "LOADING") or not is_settled(m)}
    listed |= {m.name for m in models if m.reason == "evicted"}
    loads = {load.name: load.phase for load in body.loads if load.name not in listed}
    models += [
        ModelState(name=name, version="", state="LOADING", reason=phase)
        for name, phase in sorted(loads.items())
    ]
    server_version = versions.parse(body.version)
    if not models and not address.has_started:
        problem = f"pod {address.pod} has not listed its models yet"
        return ModelReport(
            pod=address.pod, is_starting=True, problem=problem, server_version=server_version
        )
    return ModelReport(pod=address.pod, models=tuple(models), server_version=server_version)


def _without_evictions(report: ModelReport) -> ModelReport:
    """The same with evicted models as ready ones: under a memory limit models come and go with requests, which is not worth a write each time."""
    if report.models is None:
        return report
    models = tuple(
        dataclasses.replace(model, state="READY", reason="") if model.reason == "evicted" else model
        for model in report.models
    )
    return dataclasses.replace(report, models=models)


def interval(report: ModelReport, failures: int, unchanged: int, config: PollConfig) -> float:
    """The seconds until the next poll."""
    if failures:
        return min(config.max_unresponsive, config.loading * 2.0 ** min(failures, 10))
    if report.models is not None and all(map(is_settled, report.models)):
        return config.ready
    return min(config.ready, config.loading * 2.0 ** min(unchanged, 10))


def addresses(pods: collections.abc.Iterable[Manifest], port: int) -> tuple[PodAddress, ...]:
    """The addresses of pods that can report their models (`status.pods.reporting`)."""
    return tuple(
        PodAddress(
            pod["metadata"]["name"],
            f"http://{_host(pod['status']['podIP'])}:{port}{server.STATUS_PATH}",
            has_started(pod),
        )
        for pod in pods
    )


def _host(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip
