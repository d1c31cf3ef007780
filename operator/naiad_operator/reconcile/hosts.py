"""The hosts that services claim, so that the conditions of two that claim the same one say so.

Which of them gets a request is up to the Ingress controller or the Gateway. A service of another namespace is not named.
"""

import collections.abc
import itertools
import typing

from naiad_operator.builders.traffic.claims import Claim, claims
from naiad_operator.queue import Key


def claimed(manifests: collections.abc.Iterable[dict[str, typing.Any]]) -> frozenset[Claim]:
    """What the Ingresses and routes of a service claim."""
    return frozenset(itertools.chain.from_iterable(map(claims, manifests)))


class Hosts:
    """What each service claims.

    Args:
        wake: called with a service that shares a host from now on, or no longer.
    """

    def __init__(self, wake: collections.abc.Callable[[Key], None]) -> None:
        self._wake = wake
        self._claims: dict[Key, frozenset[Claim]] = {}
        self._owners: dict[Claim, set[Key]] = {}

    def claim(self, key: Key, new: frozenset[Claim]) -> None:
        """Takes in what a service claims now; nothing for one that is gone."""
        old = self._claims.get(key, frozenset())
        if old == new:
            return
        for claim in old - new:
            self._owners[claim].discard(key)
            if not self._owners[claim]:
                del self._owners[claim]
        for claim in new - old:
            self._owners.setdefault(claim, set()).add(key)
        self._claims[key] = new
        if not new:
            del self._claims[key]
        for other in sorted(
            {one for claim in old ^ new for one in self._owners.get(claim, ())} - {key}
        ):
            self._wake(other)

    def shared(self, key: Key) -> tuple[str, ...]:
        """Sentences about the hosts of a service that another one claims as well."""
        found = []
        for claim in sorted(self._claims.get(key, ())):
            others = self._owners[claim] - {key}
            near = sorted(other.name for other in others if other.namespace == key.namespace)
            if others:
                by = f"InferenceService {near[0]}" if near else "a service of another namespace"
                found.append(
                    f"{claim[-1]} is claimed by {by} as well: which of them gets a request is up to the controller"
                )
        return tuple(found)
