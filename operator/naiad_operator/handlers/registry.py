"""The kopf handlers: a login, and one function for all events of a service.

`on.event` writes nothing to a resource: no finalizer, no annotation, no last-handled configuration. kopf does not retry it; the
queue does.
"""

import asyncio
import collections.abc
import itertools
import typing

import kopf
from typing_extensions import override

from naiad_operator.api import names
from naiad_operator.cluster import client, session
from naiad_operator.handlers import metadata
from naiad_operator.runtime import Runtime

_IDLE_S = 0.5
"""How long kopf keeps the task and the last event of a service, as Python objects, when no other event comes; by default ten times as long."""

_LOGIN_AGAIN_S = 1.0
"""How long a login after a 401 waits: kopf itself would log in and send the request again without a pause, as long as it is refused."""


class _NoDiffStorage(kopf.DiffBaseStorage):
    """Keeps no last-handled configuration of a resource.

    The operator does not use kopf's diffs, and computing them would take a third of the operator's processor time.
    """

    @override
    def build(
        self, *, body: kopf.Body, extra_fields: typing.Iterable[typing.Any] | None = None
    ) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    @override
    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    @override
    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Stores nothing."""


class _Backoffs:
    """The waits between kopf's retries of a request: growing up to ten seconds, without an end.

    kopf gives up after the last number, by default after a minute, and ends the process. A new process would have to wait as well,
    while this one still has its stores. It has no length, because kopf counts attempts when there is one.
    """

    def __iter__(self) -> collections.abc.Iterator[float]:
        yield from (1.0, 1.0, 2.0, 3.0, 5.0, 8.0)
        yield from itertools.repeat(10.0)


def settings() -> kopf.OperatorSettings:
    """The kopf settings: no Events, no scan of CRDs and namespaces, a timeout for each request, and unlimited retries."""
    configured = kopf.OperatorSettings()
    configured.posting.enabled = False
    configured.scanning.disabled = True
    configured.persistence.diffbase_storage = _NoDiffStorage()
    configured.queueing.idle_timeout = _IDLE_S
    configured.networking.connect_timeout = 5
    configured.networking.request_timeout = 30
    configured.networking.error_backoffs = _Backoffs()
    configured.watching.connect_timeout = 5
    configured.watching.server_timeout = 300
    configured.watching.client_timeout = 330
    configured.watching.chunk_size = client.PAGE
    return configured


def registry(runtime: Runtime) -> kopf.OperatorRegistry:
    """The kopf handlers, bound to a runtime."""
    handlers = kopf.OperatorRegistry()
    pauses = itertools.chain((0.0,), itertools.repeat(_LOGIN_AGAIN_S))

    @kopf.on.login(registry=handlers)
    async def login(**_: typing.Any) -> kopf.AiohttpSession:
        await asyncio.sleep(next(pauses))
        endpoint = runtime.access.endpoint
        return kopf.AiohttpSession(
            server=endpoint.server,
            aiohttp_session=session.open_session(
                runtime.access,
                agent="naiad-operator/kopf",
                middlewares=(metadata.accept_metadata,),
                response_class=metadata.MetadataResponse,
            ),
            default_namespace=endpoint.namespace,
        )

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=handlers)
    async def on_service_event(event: kopf.RawEvent, **_: typing.Any) -> None:
        kind = event["type"]
        item = event["object"]["metadata"]
        runtime.on_service_event(item, listed=kind is None, gone=kind == "DELETED")

    return handlers
