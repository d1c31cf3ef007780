"""Checks services beside each other: children of one name, and hosts that two of them claim. What other files and the cluster have, it cannot know."""

import collections.abc
import typing

from naiad_operator.api.manifests.unvalidated import entries, part, texts
from naiad_operator.check.finding import Finding, Findings, warning

Object = dict[str, typing.Any]
_Claim = tuple[str, ...]


class Together:
    """What the services of the files claim, in the order in which they come."""

    def __init__(self) -> None:
        self._claims: dict[_Claim, tuple[str, str]] = {}

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


_Said = collections.abc.Callable[[str], Findings]


def _claims(child: Object) -> collections.abc.Iterator[tuple[_Claim, _Said]]:
    """What no other service can have, and what to say when one has."""
    kind, metadata, spec = str(child.get("kind")), part(child, "metadata"), part(child, "spec")
    name = str(metadata.get("name"))
    yield (kind, str(metadata.get("namespace")), name), lambda owner: _same_name(kind, name, owner)
    if kind == "Ingress":
        for rule in entries(spec, "rules"):
            host = str(rule.get("host"))
            for path in entries(part(rule, "http"), "paths"):
                where = str(path.get("path"))
                claim = ("host", str(spec.get("ingressClassName")), host, where)
                yield claim, _of_host("spec.ingress", f"{host}{where}")
    elif kind in {"HTTPRoute", "GRPCRoute"}:
        paths = {
            str(part(match, "path").get("value", ""))
            for rule in entries(spec, "rules")
            for match in entries(rule, "matches")
        }
        for parent in entries(spec, "parentRefs"):
            space = parent.get("namespace") or metadata.get("namespace")
            gateway = (kind, str(space), str(parent.get("name")), str(parent.get("sectionName")))
            for host in texts(spec, "hostnames") or [""]:
                for prefix in sorted(paths) or [""]:
                    shown = f"{host or 'every host'}{prefix}"
                    yield (*gateway, host, prefix), _of_host("spec.gateway", shown)


def _same_name(kind: str, name: str, owner: str) -> Findings:
    message = f"its {kind} {name} is one of the service {owner} as well, and only one of them can have it: rename one of the services"
    yield warning("metadata.name", message)


def _of_host(field: str, host: str) -> _Said:
    def said(owner: str) -> Findings:
        message = f"{host} is claimed by the service {owner} as well: which of them gets a request is up to the controller: write another host or pathPrefix into one of them"
        yield warning(field, message)

    return said
