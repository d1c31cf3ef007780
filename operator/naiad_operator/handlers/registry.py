"""What kopf calls: a login, and one function for everything that happens to a resource.

`on.event` writes nothing to a resource: no finalizer, no annotation, no last-seen copy. It gives no retry either, and needs none:
the queue has its own.
"""

import collections.abc
import itertools
import typing

import kopf
from typing_extensions import override

from naiad_operator.api import names
from naiad_operator.cluster import client
from naiad_operator.runtime import Runtime

_CHUNK = 250


class _NoDiff(kopf.DiffBaseStorage):
    """Keeps no last-seen copy of a resource.

    Nobody here asks what changed, and the copies that kopf makes to find out would be a third of the operator's work.
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
    """How long to wait before a request is tried again: longer and longer up to ten seconds, and without an end.

    kopf gives up where the numbers end, by its own after a minute, and the process with it. A new process could only wait as well, while
    this one still knows the cluster. No length either: kopf counts tries where there is one.
    """

    def __iter__(self) -> collections.abc.Iterator[float]:
        yield from (1.0, 1.0, 2.0, 3.0, 5.0, 8.0)
        yield from itertools.repeat(10.0)


def settings() -> kopf.OperatorSettings:
    """Kopf's settings: no Events of its own, no look at CRDs and namespaces, no request without an end, and no end of trying."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.scanning.disabled = True
    chosen.persistence.diffbase_storage = _NoDiff()
    chosen.networking.connect_timeout = 5
    chosen.networking.request_timeout = 30
    chosen.networking.error_backoffs = _Backoffs()
    chosen.watching.connect_timeout = 5
    chosen.watching.server_timeout = 300
    chosen.watching.client_timeout = 330
    chosen.watching.chunk_size = _CHUNK
    return chosen


def registry(runtime: Runtime) -> kopf.OperatorRegistry:
    """The handlers, bound to a runtime."""
    made = kopf.OperatorRegistry()

    @kopf.on.login(registry=made)
    async def login(**_: typing.Any) -> kopf.AiohttpSession:
        session = client.open_session(runtime.endpoint, agent="naiad-operator/kopf")
        return kopf.AiohttpSession(
            server=runtime.endpoint.server,
            aiohttp_session=session,
            default_namespace=runtime.endpoint.namespace,
        )

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=made)
    async def heard(event: kopf.RawEvent, **_: typing.Any) -> None:
        kind = event["type"]
        runtime.heard(event["object"], listed=kind is None, gone=kind == "DELETED")

    return made
