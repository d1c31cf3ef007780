"""Reads what a report collects from the API server. What cannot be read is noted, and the rest goes on."""

import asyncio
import collections.abc
import dataclasses
import typing

import msgspec

from naiad_operator.api import names
from naiad_operator.builders.kinds import Kind
from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.report import selection
from naiad_operator.report.masking import Masker
from naiad_operator.report.selection import CLUSTER, OPERATOR, Log, Object, Page, Snapshot

Say = collections.abc.Callable[[str], None]

_AT_ONCE = 8
_PAGE_BYTES = 1 << 20
_DEFINITIONS = (names.CRD_NAME, f"{names.PROFILE_PLURAL}.{names.GROUP}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a report is about.

    Attributes:
        namespace: the namespace of the services; "" means all.
        service: only this one; "" means all.
        operator_namespace: where the operator is looked for if Deployments cannot be listed in all namespaces.
        log_lines: the last lines of each log.
        log_bytes: of each log.
        pods: how many pods' logs and pages are read, those that are not ready first.
    """

    namespace: str = ""
    service: str = ""
    operator_namespace: str = "naiad-system"
    log_lines: int = 1000
    log_bytes: int = 1 << 19
    pods: int = 100


@dataclasses.dataclass(slots=True)
class Collected:
    """A report before it is written.

    Attributes:
        kubernetes: the version of the API server.
        snapshot: the objects, masked.
        files: logs and pages, masked, by their name in the archive.
        missing: what could not be read and why, each a sentence.
        unserved: the kinds that the API server does not serve.
    """

    kubernetes: str = ""
    snapshot: Snapshot = dataclasses.field(default_factory=dict)
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    missing: list[str] = dataclasses.field(default_factory=list)
    unserved: set[str] = dataclasses.field(default_factory=set)


async def collect(api: Client, request: Request, say: Say) -> Collected:
    """Reads everything.

    Args:
        api: the client; its timeouts are those of each request.
        request: what to read.
        say: is called with the progress.

    Raises:
        Unauthorized: the API server does not accept the credentials.
        Unreachable: the API server did not respond to the first request.
    """
    collector = _Collector(api, request, say)
    await collector.read_version()
    await collector.read_objects()
    masker = Masker()
    collected = collector.collected
    raw = collected.snapshot
    collected.snapshot = {
        key: [masker.manifest(item) for item in items] for key, items in raw.items()
    }
    await collector.read_pods(raw, masker)
    # Not before everything is masked that a manifest announces.
    collected.snapshot = {
        key: [masker.again(item) for item in items] for key, items in collected.snapshot.items()
    }
    collected.missing = [masker.text(line) for line in dict.fromkeys(collected.missing)]
    return collected


class _Collector:
    """Reads into `collected`."""

    def __init__(self, api: Client, request: Request, say: Say) -> None:
        self._api = api
        self._request = request
        self._say = say
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._served: frozenset[str] | None = None
        self.collected = Collected()

    async def read_version(self) -> None:
        try:
            version = msgspec.json.decode(await self._api.get_text("/version"))
            self.collected.kubernetes = str(version.get("gitVersion") or "")
        except (errors.Unauthorized, errors.Unreachable):
            raise
        except (errors.ApiError, msgspec.DecodeError) as error:
            self._miss(str(error))
        try:
            self._served = await self._api.kinds()
        except errors.ApiError as error:
            self._miss(str(error))

    async def read_objects(self) -> None:
        """Reads the services first: in their namespaces is everything else."""
        request = self._request
        scope = request.namespace
        self._say(f"services of {scope or 'all namespaces'}")
        services = await self._list(selection.SERVICES, scope)
        if request.service:
            services = [one for one in services if one["metadata"]["name"] == request.service]
        self._keep(selection.SERVICES, services)
        namespaces = sorted({one["metadata"]["namespace"] for one in services} | {scope} - {""})
        if not services:
            called = f" named {request.service}" if request.service else ""
            where = f"namespace {scope}" if scope else "any namespace"
            self._miss(f"there is no InferenceService{called} in {where}, or it cannot be read")
        self._say(f"{len(services)} services; their objects")
        await self._together(self._read_selected(kind) for kind in selection.SELECTED)
        await self._together(self._read_namespace(namespace) for namespace in namespaces)
        self._say("operator, nodes, profiles, definitions")
        await self._together((self._read_operator(), self._read_cluster()))

    async def _read_selected(self, kind: Kind) -> None:
        labels = selection.selector_of(self._request.service)
        self._keep(kind, await self._list(kind, self._request.namespace, labels=labels))

    async def _read_namespace(self, namespace: str) -> None:
        folder = selection.folder_of(namespace)
        ref = ResourceRef("v1", "namespaces", name=namespace)
        try:
            self.collected.snapshot[folder, "namespace"] = [await self._api.get(ref)]
        except errors.ApiError as error:
            self._miss(str(error))
        for kind in selection.FILTERED:
            self.collected.snapshot[folder, kind.plural] = await self._about(
                kind, namespace, folder
            )

    async def _read_operator(self) -> None:
        labels = selection.OPERATOR_SELECTOR
        scope = ""
        for kind in selection.OF_OPERATOR:
            try:
                items = await self._pages(kind, scope, labels)
            except errors.Forbidden:
                scope = self._request.operator_namespace
                items = await self._list(kind, scope, labels=labels)
            except errors.ApiError as error:
                self._miss(str(error))
                continue
            self.collected.snapshot[OPERATOR, kind.plural] = items
        found = [
            one for kind in selection.OF_OPERATOR for one in self.collected.snapshot.get((OPERATOR, kind.plural), ())
        ]  # fmt: skip
        if not found:
            where = f"namespace {scope}" if scope else "any namespace"
            self._miss(f"there is no operator with the label {labels} in {where}: name its namespace with --operator-namespace")  # fmt: skip
        events = [
            event
            for namespace in sorted({one["metadata"]["namespace"] for one in found})
            for event in await self._about(selection.EVENTS, namespace, OPERATOR)
        ]
        self.collected.snapshot[OPERATOR, selection.EVENTS.plural] = events

    async def _read_cluster(self) -> None:
        snapshot = self.collected.snapshot
        nodes = await self._list(selection.NODES)
        snapshot[CLUSTER, selection.NODES.plural] = [selection.of_node(node) for node in nodes]
        snapshot[CLUSTER, selection.PROFILES.plural] = await self._list(selection.PROFILES)
        definitions = []
        for name in _DEFINITIONS:
            kind = selection.DEFINITIONS
            try:
                found = await self._api.get(ResourceRef(kind.api_version, kind.plural, name=name))
                definitions.append(selection.of_definition(found))
            except errors.ApiError as error:
                self._miss(str(error))
        snapshot[CLUSTER, selection.DEFINITIONS.plural] = definitions

    async def read_pods(self, snapshot: Snapshot, masker: Masker) -> None:
        """Reads the logs and pages of pods."""
        found = selection.pods_of(snapshot)
        for _, pod in found[self._request.pods :]:
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            self._miss(f"the logs of pod {name}: only those of {self._request.pods} pods are read (--max-pods)")  # fmt: skip
        logs = [log for folder, pod in found[: self._request.pods] for log in selection.logs(folder, pod)]  # fmt: skip
        pages = [page for folder, pod in found[: self._request.pods] for page in selection.pages(folder, pod)]  # fmt: skip
        self._say(f"{len(logs)} logs and {len(pages)} pages of {len(found)} pods")
        await self._together([*(self._read_log(log, masker) for log in logs), *(self._read_page(page, masker) for page in pages)])  # fmt: skip

    async def _read_log(self, log: Log, masker: Masker) -> None:
        query = {
            "container": log.container,
            "previous": str(log.previous).lower(),
            "timestamps": "true",
            "tailLines": str(self._request.log_lines),
        }
        async with self._slots:
            try:
                async with self._api.open(log.path, action=log.action, query=query) as page:
                    text, cut = await _last(page.chunks, self._request.log_bytes)
            except errors.ApiError as error:
                self._miss(str(error))
                return
        note = f"(only the last {self._request.log_bytes} bytes)\n" if cut else ""
        self.collected.files[log.file] = note + masker.text(text)

    async def _read_page(self, wanted: Page, masker: Masker) -> None:
        async with self._slots:
            try:
                async with self._api.open(wanted.path, action=wanted.action) as page:
                    text, cut = await _first(page.chunks, _PAGE_BYTES)
                    code = page.code
            except errors.ApiError as error:
                self._miss(str(error))
                return
        note = f"HTTP {code}{f', only the first {_PAGE_BYTES} bytes' if cut else ''}\n"
        self.collected.files[wanted.file] = note + masker.text(text)

    async def _about(self, kind: Kind, namespace: str, folder: str) -> list[Object]:
        """The objects of a namespace that have to do with those of a folder."""
        items = await self._list(kind, namespace)
        known = selection.known(self.collected.snapshot, folder)
        return [item for item in items if selection.belongs(item, known)]

    async def _list(self, kind: Kind, namespace: str = "", *, labels: str = "") -> list[Object]:
        """The objects of a kind; none, with a note, if they cannot be read."""
        if kind.optional and self._served is not None and kind.key not in self._served:
            self.collected.unserved.add(kind.key)
            return []
        try:
            return await self._pages(kind, namespace, labels)
        except errors.ApiError as error:
            self._miss(str(error))
            return []

    async def _pages(self, kind: Kind, namespace: str, labels: str) -> list[Object]:
        ref = ResourceRef(kind.api_version, kind.plural, namespace)
        found: list[Object] = []
        async with self._slots:
            async for items, _ in self._api.pages(ref, labels=labels):
                # Items of a list do not say what they are.
                found += [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in items]  # fmt: skip
        return found

    def _keep(self, kind: Kind, items: list[Object]) -> None:
        """Puts objects into the folders of their namespaces."""
        for item in items:
            key = selection.folder_of(item["metadata"]["namespace"]), kind.plural
            self.collected.snapshot.setdefault(key, []).append(item)

    async def _together(self, tasks: collections.abc.Iterable[collections.abc.Coroutine[typing.Any, typing.Any, None]]) -> None:  # fmt: skip
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(task)

    def _miss(self, sentence: str) -> None:
        self.collected.missing.append(sentence)


async def _first(chunks: collections.abc.AsyncIterator[bytes], limit: int) -> tuple[str, bool]:
    """The first bytes of a response as text, and whether there are more."""
    text = b""
    async for chunk in chunks:
        text += chunk
        if len(text) > limit:
            break
    return text[:limit].decode(errors="replace"), len(text) > limit


async def _last(chunks: collections.abc.AsyncIterator[bytes], limit: int) -> tuple[str, bool]:
    """The last bytes of a response as text, from the start of a line, and whether there were more."""
    text, cut = b"", False
    async for chunk in chunks:
        text += chunk
        if len(text) > 2 * limit:
            text, cut = text[-limit:], True
    if len(text) > limit:
        text, cut = text[-limit:], True
    if cut:
        text = text.partition(b"\n")[2] or text
    return text.decode(errors="replace"), cut
