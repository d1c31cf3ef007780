"""Writes Events about services."""

import collections.abc
import logging
import secrets
import typing

from naiad_operator.api import names
from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.reconcile.events import Event

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
        self, manifest: collections.abc.Mapping[str, typing.Any], event: Event
    ) -> None:
        """Writes an Event about a service; a failure is only logged, so that it does not affect the reconcile."""
        now = self._now()
        metadata = manifest["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{secrets.token_hex(8)}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "name": name,
                "namespace": namespace,
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": names.FIELD_MANAGER},
            "reportingComponent": names.FIELD_MANAGER,
            "reportingInstance": names.FIELD_MANAGER,
        }
        try:
            await self._api.create(ResourceRef("v1", "events", namespace), body)
        except errors.ApiError as error:
            _log.warning("%s; the Event was: %s", error, event.message)
