"""Requests to the API server over one aiohttp session: read, server-side apply, delete, patch, create, list.

Thin on purpose. The package `kubernetes` costs 21 MB and a thread for each request under asyncio; aiohttp is there anyway,
because kopf stands on it. JSON goes through msgspec, which is several times faster than the standard library's. What this
file knows is HTTP: no cache, no retry (the queue retries a whole key), no kind of object. Every failure leaves here as an
`errors.ApiError`.
"""

import asyncio
import collections.abc
import contextlib
import dataclasses
import time
import typing

import aiohttp
import msgspec

from naiad_operator.cluster import credentials, errors
from naiad_operator.cluster.place import Place

Object = dict[str, typing.Any]
Manifest = collections.abc.Mapping[str, typing.Any]

_PAGE = 250
"""Objects a list request: a page of Deployments is about 2 MB, which is what a list needs at its peak."""
_MERGE_PATCH = "application/merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML, and parses faster
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long to wait, in seconds.

    Attributes:
        connect: for a connection.
        request: for a whole answer. Longer than the API server's own limit for what it does while answering.
    """

    connect: float = 5.0
    request: float = 30.0


class Client:
    """One connection pool to one API server.

    Args:
        session: whose requests go there with the right credentials; see `open_session`.
        server: the address that paths are put behind.
        manager: the field manager of applies.
        timeouts: see there.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        server: str,
        manager: str,
        timeouts: Timeouts,
    ) -> None:
        self._session = session
        self._server = server
        self.manager = manager
        self._timeouts = timeouts

    async def close(self) -> None:
        """Closes the connections; a request after that fails."""
        await self._session.close()

    async def get(self, place: Place) -> Object:
        """One object."""
        return await self._json("GET", place.url(), doing=f"read {place}")

    async def get_text(self, path: str, *, accept: str = "") -> bytes:
        """The bytes of any path of the API server."""
        headers = {"Accept": accept} if accept else {}
        return await self._request("GET", path, doing=f"read {path}", headers=headers)

    async def apply(
        self,
        place: Place,
        manifest: Manifest,
        *,
        manager: str = "",
        force: bool = True,
    ) -> Object:
        """Server-side apply: the fields of `manifest` become ours, and what we had before and left out goes.

        Args:
            place: the object.
            manifest: only the fields that we mean to own. With `metadata.uid` it is refused when the object is another
                one by now.
            manager: another field manager than the client's.
            force: take fields that others own; without it the answer is a Conflict.
        """
        query = {"fieldManager": manager or self.manager, "force": str(force).lower()}
        return await self._json(
            "PATCH",
            place.url(),
            doing=f"apply {place}",
            query=query,
            body=msgspec.json.encode(manifest),
            headers={"Content-Type": _APPLY_PATCH},
        )

    async def merge(self, place: Place, patch: Manifest, *, subresource: str = "") -> Object:
        """A JSON merge patch."""
        return await self._json(
            "PATCH",
            place.url(subresource),
            doing=f"patch {f'{subresource} of ' if subresource else ''}{place}",
            query={"fieldManager": self.manager},
            body=msgspec.json.encode(patch),
            headers={"Content-Type": _MERGE_PATCH},
        )

    async def create(self, place: Place, manifest: Manifest) -> Object:
        """Creates an object in a collection."""
        return await self._json(
            "POST",
            place.url(),
            doing=f"create {place}",
            query={"fieldManager": self.manager},
            body=msgspec.json.encode(manifest),
        )

    async def replace(self, place: Place, manifest: Manifest) -> Object:
        """Puts an object in the place of the version that it names."""
        return await self._json(
            "PUT",
            place.url(),
            doing=f"replace {place}",
            query={"fieldManager": self.manager},
            body=msgspec.json.encode(manifest),
        )

    async def delete(self, place: Place, *, uid: str) -> None:
        """Deletes the one object that has this uid; its children follow in the background.

        One that is gone, or is another one by now, is no error: it is not ours to delete any more.
        """
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        }
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            body = msgspec.json.encode(options)
            await self._request("DELETE", place.url(), doing=f"delete {place}", body=body)

    async def pages(
        self, place: Place, *, labels: str = ""
    ) -> collections.abc.AsyncIterator[tuple[list[Object], str]]:
        """Lists a collection, page by page, each with the version that a watch goes on from."""
        onward = ""
        while True:
            query = {"limit": str(_PAGE)}
            query |= {"labelSelector": labels} if labels else {}
            query |= {"continue": onward} if onward else {}
            page = await self._json("GET", place.url(), doing=f"list {place}", query=query)
            metadata = page.get("metadata") or {}
            yield page.get("items") or [], metadata.get("resourceVersion") or ""
            onward = metadata.get("continue") or ""
            if not onward:
                return

    async def kinds(self) -> frozenset[str]:
        """Every kind that the API server serves now, as "group/version/Kind" ("v1/Service" for the core group)."""
        found: set[str] = set()
        for path in ("/api", "/apis"):
            text = await self.get_text(path, accept=_DISCOVERY)
            for group in msgspec.json.decode(text).get("items") or []:
                name = (group.get("metadata") or {}).get("name") or ""
                for version in group.get("versions") or []:
                    prefix = f"{name}/{version['version']}" if name else version["version"]
                    kinds = [r.get("responseKind") or {} for r in version.get("resources") or []]
                    found.update(f"{prefix}/{kind['kind']}" for kind in kinds if kind.get("kind"))
        return frozenset(found)

    @contextlib.asynccontextmanager
    async def watch(
        self, place: Place, *, labels: str, since: str, seconds: float, silence: float
    ) -> collections.abc.AsyncIterator[collections.abc.AsyncIterator[bytes]]:
        """Opens a watch, and gives its lines.

        Args:
            place: the collection.
            labels: a label selector.
            since: the version to go on from.
            seconds: after which the API server ends it.
            silence: how long nothing may come (bookmarks come each minute) before the watch counts as broken.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": labels,
            "resourceVersion": since,
            "timeoutSeconds": str(int(seconds)),
        }
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=self._timeouts.connect, sock_read=silence
        )
        doing = f"watch {place}"
        with _translated(doing):
            async with self._session.get(
                self._server + place.url(),
                params=query,
                timeout=limits,
            ) as answer:
                await _raise_for(answer, doing)
                yield _lines(answer.content)

    async def _json(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Object:
        text = await self._request(
            method, path, doing=doing, query=query, body=body, headers=headers
        )
        try:
            answer: Object = msgspec.json.decode(text)
        except msgspec.DecodeError:
            raise errors.ServerTrouble(
                doing, message=f"no JSON in the answer: {text[:200]!r}"
            ) from None
        return answer

    async def _request(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> bytes:
        limits = aiohttp.ClientTimeout(
            total=self._timeouts.request, sock_connect=self._timeouts.connect
        )
        sent = {"Content-Type": "application/json", **(headers or {})}
        with _translated(doing):
            async with self._session.request(
                method,
                self._server + path,
                params=query,
                data=body,
                headers=sent,
                timeout=limits,
            ) as answer:
                await _raise_for(answer, doing)
                return await answer.read()


def open_session(
    endpoint: credentials.Endpoint, *, agent: str, clock: credentials.Clock = time.monotonic
) -> aiohttp.ClientSession:
    """A session whose requests carry the endpoint's credentials, renewed as they age and once more after a 401."""
    tokens = credentials.Tokens(endpoint, clock=clock)

    async def authorize(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        request.headers.update(await tokens.header())
        if endpoint.server_name:
            request.server_hostname = endpoint.server_name
        answer = await handler(request)
        if answer.status == _UNAUTHORIZED:
            tokens.forget()
        return answer

    secure = endpoint.server.startswith("https:")
    # No limit on connections: each watch holds one, and the queue's workers bound the rest.
    connector = aiohttp.TCPConnector(limit=0, ssl=endpoint.ssl() if secure else False)
    return aiohttp.ClientSession(
        connector=connector,
        headers={"User-Agent": agent},
        middlewares=(authorize,),
        proxy=endpoint.proxy or None,
    )


_UNAUTHORIZED = 401


@contextlib.contextmanager
def _translated(doing: str) -> collections.abc.Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError, OSError) as error:
        said = str(error) or type(error).__name__
        raise errors.Unreachable(doing, message=f"no answer from the API server: {said}") from error
    except credentials.CredentialsError as error:
        raise errors.Unauthorized(doing, message=str(error)) from error


async def _raise_for(answer: aiohttp.ClientResponse, doing: str) -> None:
    if answer.status < _FIRST_ERROR:
        return
    text = await answer.read()
    try:
        status = msgspec.json.decode(text)
    except msgspec.DecodeError:
        status = {"message": text[:500].decode(errors="replace")}
    if not isinstance(status, dict):
        status = {"message": str(status)}
    raise errors.from_answer(
        doing, code=answer.status, status=status, retry_after=answer.headers.get("Retry-After")
    )


_FIRST_ERROR = 400


async def _lines(content: aiohttp.StreamReader) -> collections.abc.AsyncIterator[bytes]:
    """Whole lines of any length; the stream's own `readline` refuses one over 64 KB, and a Deployment can be longer."""
    rest = b""
    async for chunk in content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line
