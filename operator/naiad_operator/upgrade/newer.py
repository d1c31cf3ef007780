"""What an operator does about a service that a newer one has written: it leaves an edit to the newer one for a while, which may still run."""

import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.queue import Key

EDIT_DELAY_S = 10.0
"""How long an edit is left to the newer operator; after that it is assumed to be gone, as after a rollback."""
STATUS_INTERVAL_S = 60.0
"""The time between two statuses: two operators that see a service differently would overwrite each other's without end."""


class NewerOperators:
    """Remembers when this operator first saw an edit, and last wrote a status, of services of a newer one. Times are in seconds."""

    def __init__(self) -> None:
        self._edits: dict[Key, tuple[int, float]] = {}
        self._statuses: dict[Key, float] = {}

    def edit_delay(self, key: Key, service: InferenceService, now: float) -> float:
        """How long to leave the service's last edit to the newer operator; 0 when that has applied it, or this operator may."""
        if service.is_observed:
            return 0.0
        generation = service.generation
        seen, since = self._edits.get(key, (0, now))
        if seen != generation:
            since = now
        self._edits[key] = (generation, since)
        return max(0.0, since + EDIT_DELAY_S - now)

    def status_delay(
        self, key: Key, service: InferenceService, status: dict[str, typing.Any], now: float
    ) -> float:
        """How long to wait before writing a status; 0 when it may be written, which this counts as done, or has not changed."""
        if all(service.status.get(field) == value for field, value in status.items()):
            return 0.0
        last = self._statuses.get(key)
        delay = 0.0 if last is None else max(0.0, last + STATUS_INTERVAL_S - now)
        if not delay:
            self._statuses[key] = now
        return delay

    def forget(self, key: Key) -> None:
        """Forgets a service that is gone, or that this operator has taken over."""
        self._edits.pop(key, None)
        self._statuses.pop(key, None)
