"""What autoscalers of nodes say of pods without a node: their Events on these pods, read only while there are such pods.

| autoscaler | Event | meaning |
|---|---|---|
| cluster-autoscaler (also of GKE and AKS) | `TriggeredScaleUp` | a node is coming |
| | `NotTriggerScaleUp`, `FailedScaleUp` | none comes, and why |
| Karpenter (also of EKS Auto Mode and AKS) | `Nominated` | a node is coming, or has room soon |
| | `FailedScheduling` with a message of its own | none comes, and why |
"""

import collections.abc
import logging
import typing

from naiad_operator.builders.facts import ScaleUp
from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.status import pods
from naiad_operator.status.cluster_events import last_seen
from naiad_operator.status.conditions import shortened

_log = logging.getLogger(__name__)

KEPT_S = 60.0
"""How long what was read counts, and how often a service with such a pod is looked at."""
FIRST_KEPT_S = 15.0
"""The same for a pod of which no autoscaler has said anything yet: they look every ten seconds."""
RETRY_S = 600.0
"""How long a missing permission is remembered."""

_COMING = frozenset(("TriggeredScaleUp", "Nominated"))
_NOT_COMING = frozenset(("NotTriggerScaleUp", "FailedScaleUp"))
_KARPENTER_FAILS = "Failed to schedule pod"
_LONGEST = 300
_MOST_EVENTS = 1_000
"""How many Events of one pod are read: a user who may write one may write any number."""

Object = collections.abc.Mapping[str, typing.Any]
Clock = collections.abc.Callable[[], float]


class ScaleUps:
    """Reads the Events of pods.

    Args:
        api: the client of the API server.
        clock: monotonic, in seconds.
    """

    def __init__(self, api: Client, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, ScaleUp | None]] = {}
        """By namespace and pod: until when it counts."""
        self._forbidden_until: dict[str, float] = {}

    async def of(self, namespace: str, pod: str) -> ScaleUp | None:
        """What an autoscaler said of a pod last; None if nothing, or when Events may not be read."""
        now = self._clock()
        valid_until, known = self._known.get((namespace, pod), (0.0, None))
        if now < max(valid_until, self._forbidden_until.get(namespace, 0.0)):
            return known
        try:
            known = of_events(await self._events(namespace, pod))
        except errors.Forbidden as error:
            _log.info("%s; conditions will say what the scheduler says", error)
            self._forbidden_until[namespace] = now + RETRY_S
            return None
        except errors.ApiError as error:
            _log.warning("%s; what was known of it is used", error)
        self._known = {key: entry for key, entry in self._known.items() if entry[0] > now}
        self._known[namespace, pod] = (now + (KEPT_S if known else FIRST_KEPT_S), known)
        return known

    def until_next(self, namespace: str, pod: str) -> float:
        """In how many seconds to look at a pod that waits again."""
        valid_until, _ = self._known.get((namespace, pod), (0.0, None))
        valid_until = max(valid_until, self._forbidden_until.get(namespace, 0.0))
        return max(valid_until - self._clock(), FIRST_KEPT_S)

    async def _events(self, namespace: str, pod: str) -> list[Object]:
        ref = ResourceRef("v1", "events", namespace)
        found: list[Object] = []
        async for items, _ in self._api.pages(ref, fields=f"involvedObject.name={pod}"):
            found += items
            if len(found) >= _MOST_EVENTS:
                break
        return found


def of_events(events: collections.abc.Iterable[Object]) -> ScaleUp | None:
    """The last thing that an autoscaler said; None if it is not among the Events of a pod."""
    said = [
        ScaleUp(
            is_coming=event["reason"] in _COMING,
            autoscaler=_source(event),
            message=_message(event),
            time=pods.time(last_seen(event)),
        )
        for event in events
        if _is_about_nodes(event)
    ]
    return max(said, key=lambda one: one.time, default=None)


def _is_about_nodes(event: Object) -> bool:
    reason, message = event.get("reason") or "", event.get("message") or ""
    return (
        reason in _COMING
        or reason in _NOT_COMING
        or (reason == "FailedScheduling" and message.startswith(_KARPENTER_FAILS))
    )


def _source(event: Object) -> str:
    source = (event.get("source") or {}).get("component") or event.get("reportingComponent")
    return str(source or "an autoscaler")


def _message(event: Object) -> str:
    """The message without its introduction.

    cluster-autoscaler writes its reasons in another order each time, which is not worth a status each time: they are sorted.
    """
    text = " ".join((event.get("message") or "").split())
    if event["reason"] == "NotTriggerScaleUp":
        introduction, colon, reasons = text.partition(": ")
        text = ", ".join(sorted(reasons.split(", "))) if colon else introduction
    else:
        for introduction in ("pod triggered scale-up: ", f"{_KARPENTER_FAILS}, "):
            text = text.removeprefix(introduction)
    return shortened(text, _LONGEST)
