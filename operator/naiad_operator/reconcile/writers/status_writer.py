"""Writes the statuses of services, and Events for their transitions."""

import collections.abc
import sys
import typing

from naiad_operator.api.parsing.service import status_of
from naiad_operator.cluster.client import Client
from naiad_operator.queue import Key
from naiad_operator.reconcile.decisions import events, merge
from naiad_operator.reconcile.stores import service_store
from naiad_operator.reconcile.writers.event_recorder import EventRecorder

Conditions = tuple[tuple[str, str, str], ...]


class StatusWriter:
    """Writes statuses.

    Args:
        api: the client of the API server.
        services: gets the versions that are written.
        recorder: writes the Events.

    Attributes:
        conditions: by service, the type, status and reason of each of its conditions, for the metrics.
    """

    def __init__(
        self, api: Client, services: service_store.ServiceStore, recorder: EventRecorder
    ) -> None:
        self._api = api
        self._services = services
        self._recorder = recorder
        self.conditions: dict[Key, Conditions] = {}

    async def write(
        self,
        key: Key,
        manifest: collections.abc.Mapping[str, typing.Any],
        status: dict[str, typing.Any],
    ) -> None:
        """Writes the status if it has changed, and Events for its transitions.

        Raises:
            ApiError: the API server refused or failed; Conflict if the version is outdated.
        """
        before = status_of(manifest)
        new_events: list[events.Event] = []
        version = manifest["metadata"]["resourceVersion"]
        patch = merge.patch(before, status)
        if patch:
            body = {"metadata": {"resourceVersion": version}, "status": patch}
            response = await self._api.merge(service_store.ref(key), body, subresource="status")
            self._services.put(key, response)
            version = response["metadata"]["resourceVersion"]
            new_events = events.of_transition(before, status)
        self._services.mark_seen(key, version)
        self.conditions[key] = tuple(
            # A few dozen words, for thousands of services.
            (
                sys.intern(condition["type"]),
                sys.intern(condition["status"]),
                sys.intern(condition["reason"]),
            )
            for condition in status["conditions"]
        )
        for event in new_events:
            await self._recorder.record(manifest, event)

    def forget(self, key: Key) -> None:
        """Removes the conditions of a service that no longer exists."""
        self.conditions.pop(key, None)
