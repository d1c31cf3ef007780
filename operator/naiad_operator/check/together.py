"""Checks services beside each other: children of one name, hosts that two of them claim, and what one names of another. What other files and the cluster have, it cannot know."""

import collections.abc
import typing

from naiad_operator.api.manifests.unvalidated import part
from naiad_operator.api.parsing import profiles
from naiad_operator.builders.traffic.claims import INGRESS, Claim, claims
from naiad_operator.check.finding import Finding, Findings, warning

Object = dict[str, typing.Any]


class Together:
    """What the services of the files claim, in the order in which they come.

    Args:
        services: all of the files, as they are written.
    """

    def __init__(self, services: collections.abc.Iterable[Object] = ()) -> None:
        self._claims: dict[Claim, tuple[str, str]] = {}
        self._services = {_key(each): each for each in services}

    def named_by(self, manifest: Object) -> Findings:
        """What a service names of another one of the files that does not have it: a transformer to copy requests to."""
        spec = part(manifest, "spec")
        named = part(spec, "mirror").get("service")
        other = self._services.get((_key(manifest)[0], str(named)))
        if other is None or not part(spec, "transformer"):
            return
        if not part(other, "spec", "transformer"):
            message = f"is {named}, which has no transformer: requests would be copied to a Service {named}-transformer, for the servers would misread what the transformer takes: write spec.transformer there, or name a service that has one"
            yield warning("spec.mirror.service", message)

    def add(self, name: str, children: collections.abc.Iterable[Object]) -> list[Finding]:
        """Takes in the children of a service, and returns warnings about those that an earlier one has as well."""
        found: dict[Finding, None] = {}
        for child in children:
            namespace = str(part(child, "metadata").get("namespace"))
            for claim, finding in _claims(child):
                owner = self._claims.setdefault(claim, (namespace, name))
                if owner != (namespace, name):
                    shown = owner[1] if owner[0] == namespace else "/".join(owner)
                    found.update(dict.fromkeys(finding(shown)))
        return list(found)


def _key(manifest: Object) -> tuple[str, str]:
    """Its namespace and its name."""
    metadata = part(manifest, "metadata")
    return profiles.namespace_of(manifest), str(metadata.get("name"))


_Said = collections.abc.Callable[[str], Findings]


def _claims(child: Object) -> collections.abc.Iterator[tuple[Claim, _Said]]:
    """What no other service can have, and what to say when one has."""
    kind, metadata = str(child.get("kind")), part(child, "metadata")
    name = str(metadata.get("name"))
    yield (
        ("name", kind, str(metadata.get("namespace")), name),
        lambda owner: _same_name(kind, name, owner),
    )
    for claim in claims(child):
        field = "spec.ingress" if kind == INGRESS else "spec.gateway"
        yield claim, _of_host(field, claim[-1])


def _same_name(kind: str, name: str, owner: str) -> Findings:
    message = f"its {kind} {name} is one of the service {owner} as well, and only one of them can have it: rename one of the services"
    yield warning("metadata.name", message)


def _of_host(field: str, host: str) -> _Said:
    def said(owner: str) -> Findings:
        message = f"{host} is claimed by the service {owner} as well: which of them gets a request is up to the controller: write another host or pathPrefix into one of them"
        yield warning(field, message)

    return said
