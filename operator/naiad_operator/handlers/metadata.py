"""What kopf gets to see of services: the few fields of their metadata that its watch needs.

kopf decodes a list as a whole and a watch line by line with the standard library, which recurses: a service that is nested a thousand
levels deep would end it, and with it the operator. So kopf's requests ask the API server for `PartialObjectMetadata` instead of whole
services, and its responses are read by `cluster.reading`, which no object can break. The reconcile reads the service itself.
"""

import collections.abc
import logging
import typing

import aiohttp
from typing_extensions import override

from naiad_operator.api import names
from naiad_operator.cluster import reading, responses

_log = logging.getLogger(__name__)

_FORM = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
_FIELDS = ("name", "namespace", "uid", "resourceVersion")
_FIRST_ERROR = 300


async def accept_metadata(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """The middleware that asks for the metadata of services alone."""
    if _is_of_services(request.url.path):
        request.headers["Accept"] = _FORM.format("" if "watch" in request.url.query else "List")
    return await handler(request)


class MetadataResponse(aiohttp.ClientResponse):
    """A response to kopf: of services, it has the metadata that kopf's watch needs."""

    @override
    async def start(self, connection: typing.Any) -> aiohttp.ClientResponse:
        """Starts to read the response; the content of a watch is replaced by one with readable lines."""
        await super().start(connection)
        if self._is_of_services() and "watch" in self.url.query:
            self.content = typing.cast("aiohttp.StreamReader", _ReadableLines(self.content))
        return self

    @override
    async def json(self, **arguments: typing.Any) -> typing.Any:
        """The response as JSON; of a list of services, their metadata."""
        if not self._is_of_services():
            return await super().json(**arguments)
        try:
            page = reading.read_metadata_list(await self.read())
        except ValueError as error:
            # kopf tries again after this one, and ends after others.
            raise aiohttp.ClientPayloadError(f"not a list of services: {error}") from error
        metadata = {"resourceVersion": page.version, "continue": page.continue_token}
        return {"metadata": metadata, "items": [_of(item) for item in page.items]}

    def _is_of_services(self) -> bool:
        is_json = self.headers.get("Content-Type", "").startswith("application/json")
        return self.status < _FIRST_ERROR and is_json and _is_of_services(self.url.path)


class _ReadableLines:
    """The content of a watch whose lines have the metadata of services alone.

    Args:
        content: the content as it comes; everything but the lines is taken from it.
    """

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> typing.Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> collections.abc.AsyncIterator[bytes]:
        """One line after the other, whatever the size."""
        async for line in responses.lines(self._content):
            try:
                event = reading.read_event(line)
            except ValueError:
                _log.warning("a line of the watch of services is left out: %r", line[:200])
                continue
            item = event.object if event.type == "ERROR" else _of(event.object)
            yield reading.encode({"type": event.type, "object": item}) + b"\n"


def _is_of_services(path: str) -> bool:
    return path.endswith(f"/{names.PLURAL}")


def _of(item: reading.Object) -> reading.Object:
    """What kopf needs of a service, or of a bookmark."""
    metadata = item.get("metadata") or {}
    kept = {name: metadata[name] for name in _FIELDS if name in metadata}
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": kept}
