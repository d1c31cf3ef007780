"""Writes Events about services."""

import collections.abc
import logging
import secrets
import typing

from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.reconcile.decisions import events

_log = logging.getLogger(__name__)


class EventRecorder:
    """Writes Events.

    Args:
        api: the client of the API server.
        now: the time as Kubernetes writes it.
    """

    def __init__(self, api: Client, now: collections.abc.Callable[[], str]) -> None:
        self._api = api
        self._now = now

    async def record(
        self, manifest: collections.abc.Mapping[str, typing.Any], event: events.Event
    ) -> None:
        """Writes an Event about a service; a failure is only logged, so that it does not affect the reconcile."""
        metadata = manifest["metadata"]
        name = f"{metadata['name']}.{secrets.token_hex(8)}"
        body = events.manifest(event, manifest, name=name, now=self._now())
        try:
            await self._api.create(ResourceRef("v1", "events", metadata["namespace"]), body)
        except errors.ApiError as error:
            _log.warning("%s; the Event was: %s", error, event.message)
