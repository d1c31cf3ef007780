"""The hosts that services claim, so that the conditions of two that claim the same one say so.

Which of them gets a request is up to the Ingress controller or the Gateway. A service of another namespace is not named.
"""

import collections.abc
import typing

from naiad_operator.api.manifests.unvalidated import entries, part
from naiad_operator.queue import Key

Claim = tuple[str, ...]
"""The entry (an Ingress class, or a Gateway), and last the host with its path."""


def claims(manifests: collections.abc.Collection[dict[str, typing.Any]]) -> frozenset[Claim]:
    """What the Ingresses of a service claim: class, host and path."""
    return frozenset(
        ("Ingress", str(spec.get("ingressClassName")), f"{rule.get('host')}{path.get('path')}")
        for manifest in manifests
        if manifest["kind"] == "Ingress"
        for spec in (part(manifest, "spec"),)
        for rule in entries(spec, "rules")
        for path in entries(part(rule, "http"), "paths")
    ) | frozenset(
        (
            str(manifest["kind"]),
            f"{parent.get('namespace') or manifest['metadata']['namespace']}/{parent.get('name')}/{parent.get('sectionName')}",
            f"{host}{_path(part(manifest, 'spec'))}",
        )
        for manifest in manifests
        if manifest["kind"] in {"HTTPRoute", "GRPCRoute"}
        for parent in entries(part(manifest, "spec"), "parentRefs")
        for host in part(manifest, "spec").get("hostnames") or ("every host",)
    )


def _path(spec: dict[str, typing.Any]) -> str:
    for rule in entries(spec, "rules"):
        for match in entries(rule, "matches"):
            return str(part(match, "path").get("value", ""))
    return ""


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
