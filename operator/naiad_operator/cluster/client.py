"""The API server client: read, server-side apply, delete, patch, create, list and watch over one aiohttp session.

It follows no redirect: a pod behind the API server's proxy could send it, with its credentials, to another host.

It is thin on purpose. The package `kubernetes` takes one thread per request under asyncio, and is used for credentials alone; aiohttp is
installed anyway, because kopf depends on it. JSON is parsed by msgspec, which is several times faster than the standard library. The
client has no cache, no retry (the queue retries the whole key) and no knowledge of kinds. Every failure is raised as an
`errors.ApiError`.
"""

import collections.abc
import contextlib
import dataclasses
import typing

import aiohttp
import msgspec

from naiad_operator.cluster import errors, reading, responses
from naiad_operator.cluster.resource_ref import ResourceRef

Object = dict[str, typing.Any]
Manifest = collections.abc.Mapping[str, typing.Any]

_FIRST_PAGE = 5
"""Objects in the first request of a list, whose size is not known. Five of the largest that an API server stores are 7.5 MB, and a page is in memory twice."""
PAGE = 50
"""Objects in later requests at most."""
_PAGE_BYTES = 4 << 20
"""How large later pages should be: the peak memory of a list."""
_MERGE_PATCH = "application/merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML, and parses faster
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The timeouts of requests, in seconds.

    Attributes:
        connect: for opening a connection.
        request: for the complete response; longer than the API server's own timeouts for admission webhooks and storage.
    """

    connect: float = 5.0
    request: float = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """A response of any size.

    Attributes:
        code: the HTTP status.
        chunks: its content.
    """

    code: int
    chunks: collections.abc.AsyncIterator[bytes]


class Client:
    """Sends requests to one API server over one connection pool.

    Args:
        session: adds the credentials to each request; see `session.open_session`.
        server: the base URL of the API server.
        manager: the default field manager of writes.
        timeouts: the timeouts of requests.

    Attributes:
        unreadable: the objects that could not be read. In their places, every method returns their marked heads (`reading`).
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        server: str,
        manager: str,
        timeouts: Timeouts,
    ) -> None:
        self.unreadable = reading.Unreadable()
        self._session = session
        self._server = server
        self.manager = manager
        self._timeouts = timeouts

    async def close(self) -> None:
        """Closes the connections; later requests fail."""
        await self._session.close()

    async def get(self, ref: ResourceRef) -> Object:
        """Reads one object."""
        item = await self._json("GET", ref.url(), action=f"read {ref}")
        self.unreadable.note(ref.plural, item)
        return item

    async def get_text(self, path: str, *, accept: str = "") -> bytes:
        """Reads any path of the API server as bytes."""
        headers = {"Accept": accept} if accept else {}
        return await self._request("GET", path, action=f"read {path}", headers=headers)

    @contextlib.asynccontextmanager
    async def open(
        self, path: str, *, action: str, query: dict[str, str] | None = None
    ) -> collections.abc.AsyncIterator[Page]:
        """Opens any path of the API server whose response may be large: a log, or a page of a pod.

        An HTTP status that a pod responded with is not an error.

        Args:
            path: on the API server.
            action: the request in words.
            query: the parameters.
        """
        with responses.translated(action):
            async with self._session.get(
                self._server + path,
                params=query,
                timeout=self._timeout(),
                allow_redirects=False,
            ) as response:
                if response.status < responses.FIRST_ERROR:
                    yield Page(response.status, response.content.iter_any())
                    return
                text = await responses.start_of(response)
                status = responses.status_of(text)
                if status.get("kind") == "Status":
                    raise errors.from_response(action, code=response.status, status=status)
                yield Page(response.status, responses.one(text))

    async def apply(
        self,
        ref: ResourceRef,
        manifest: Manifest,
        *,
        manager: str = "",
        force: bool = True,
    ) -> Object:
        """Server-side apply: the manager owns the fields of `manifest`; fields that it owned before and leaves out are removed.

        Args:
            ref: the object.
            manifest: only the fields that the manager is to own. With `metadata.uid` the API server refuses the apply when
                the object was replaced by another one of the same name.
            manager: a field manager other than the client's default.
            force: take over fields that other managers own; without it the API server responds with a Conflict.
        """
        query = {"fieldManager": manager or self.manager, "force": str(force).lower()}
        return await self._json(
            "PATCH",
            ref.url(),
            action=f"apply {ref}",
            query=query,
            body=msgspec.json.encode(manifest),
            headers={"Content-Type": _APPLY_PATCH},
        )

    async def merge(self, ref: ResourceRef, patch: Manifest, *, subresource: str = "") -> Object:
        """Applies a JSON merge patch to an object or its subresource."""
        return await self._json(
            "PATCH",
            ref.url(subresource),
            action=f"patch {f'{subresource} of ' if subresource else ''}{ref}",
            query={"fieldManager": self.manager},
            body=msgspec.json.encode(patch),
            headers={"Content-Type": _MERGE_PATCH},
        )

    async def create(self, ref: ResourceRef, manifest: Manifest) -> Object:
        """Creates an object in a collection."""
        return await self._json(
            "POST",
            ref.url(),
            action=f"create {ref}",
            query={"fieldManager": self.manager},
            body=msgspec.json.encode(manifest),
        )

    async def replace(self, ref: ResourceRef, manifest: Manifest) -> Object:
        """Replaces an object; Conflict unless the manifest's resourceVersion is the current one."""
        return await self._json(
            "PUT",
            ref.url(),
            action=f"replace {ref}",
            query={"fieldManager": self.manager},
            body=msgspec.json.encode(manifest),
        )

    async def delete(self, ref: ResourceRef, *, uid: str) -> None:
        """Deletes the object if it has this uid; the garbage collector deletes its dependents in the background.

        It is not an error when the object is already gone or has another uid.
        """
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        }
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            body = msgspec.json.encode(options)
            await self._request("DELETE", ref.url(), action=f"delete {ref}", body=body)

    async def pages(
        self, ref: ResourceRef, *, labels: str = "", fields: str = ""
    ) -> collections.abc.AsyncIterator[tuple[collections.abc.Iterable[Object], str]]:
        """Lists a collection: yields the objects of each page, and the resourceVersion from which to watch.

        An object is read when it is taken. The objects of a page that the decoder refuses are requested one by one.
        """
        continue_token = ""
        singles = 0
        limit = _FIRST_PAGE
        while True:
            query = {"limit": "1" if singles else str(limit)}
            query |= {"labelSelector": labels} if labels else {}
            query |= {"fieldSelector": fields} if fields else {}
            query |= {"continue": continue_token} if continue_token else {}
            action = f"list {ref}"
            text = await self._request("GET", ref.url(), action=action, query=query)
            try:
                page = reading.read_single(text) if singles else reading.read_list(text)
            except RecursionError:
                singles = limit
                continue
            except ValueError:
                raise responses.not_json(action, text) from None
            if not singles:
                limit = min(PAGE, max(1, _PAGE_BYTES * limit // len(text)))
            del text
            singles = max(0, singles - 1)
            yield self._noted(ref, page.items), page.version
            continue_token = page.continue_token
            if not continue_token:
                return

    def _noted(
        self, ref: ResourceRef, items: collections.abc.Iterable[Object]
    ) -> collections.abc.Iterator[Object]:
        for item in items:
            self.unreadable.note(ref.plural, item)
            yield item

    async def kinds(self) -> frozenset[str]:
        """Every kind outside the core group that the API server serves now, as "group/version/Kind". Those of the core group are always served."""
        served: set[str] = set()
        text = await self.get_text("/apis", accept=_DISCOVERY)
        try:
            groups = msgspec.json.decode(text).get("items") or []
        except (ValueError, RecursionError, AttributeError):
            raise responses.not_json("read /apis", text) from None
        for group in groups:
            name = group["metadata"]["name"]
            for version in group.get("versions") or []:
                kinds = [r.get("responseKind") or {} for r in version.get("resources") or []]
                served.update(
                    f"{name}/{version['version']}/{kind['kind']}"
                    for kind in kinds
                    if kind.get("kind")
                )
        return frozenset(served)

    @contextlib.asynccontextmanager
    async def watch(
        self, ref: ResourceRef, *, labels: str, since: str, seconds: float, idle_timeout: float
    ) -> collections.abc.AsyncIterator[collections.abc.AsyncIterator[bytes]]:
        """Opens a watch and yields an iterator over its lines.

        Args:
            ref: the collection.
            labels: a label selector.
            since: the resourceVersion to continue from.
            seconds: after this time the API server ends the watch.
            idle_timeout: seconds without a line after which the watch counts as broken; bookmarks arrive about once per minute.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": labels,
            "resourceVersion": since,
            "timeoutSeconds": str(int(seconds)),
        }
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._timeouts.connect, sock_read=idle_timeout
        )
        action = f"watch {ref}"
        with responses.translated(action):
            async with self._session.get(
                self._server + ref.url(),
                params=query,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                await responses.raise_for(response, action)
                yield responses.lines(response.content)

    async def _json(
        self,
        method: str,
        path: str,
        *,
        action: str,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Object:
        text = await self._request(
            method, path, action=action, query=query, body=body, headers=headers
        )
        try:
            return reading.read_object(text)
        except ValueError:
            raise responses.not_json(action, text) from None

    async def _request(
        self,
        method: str,
        path: str,
        *,
        action: str,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> bytes:
        all_headers = {"Content-Type": "application/json", **(headers or {})}
        with responses.translated(action):
            async with self._session.request(
                method,
                self._server + path,
                params=query,
                data=body,
                headers=all_headers,
                timeout=self._timeout(),
                allow_redirects=False,
            ) as response:
                await responses.raise_for(response, action)
                return await response.read()

    def _timeout(self) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(
            total=self._timeouts.request, sock_connect=self._timeouts.connect
        )
