"""What an Ingress or a route claims at its entry: two services that claim the same share it."""

import collections.abc
import typing

from naiad_operator.api.manifests.unvalidated import entries, part, texts

Claim = tuple[str, ...]
"""The kind, the entry (an Ingress class, or a Gateway), and last the host with its path."""

INGRESS = "Ingress"


def claims(manifest: dict[str, typing.Any]) -> collections.abc.Iterator[Claim]:
    """The claims of one object, in the order in which it has them; none of an object of another kind."""
    kind, spec = str(manifest.get("kind")), part(manifest, "spec")
    if kind == INGRESS:
        for rule in entries(spec, "rules"):
            for path in entries(part(rule, "http"), "paths"):
                yield (
                    kind,
                    str(spec.get("ingressClassName")),
                    f"{rule.get('host')}{path.get('path')}",
                )
    elif kind in {"HTTPRoute", "GRPCRoute"}:
        paths = {
            str(part(match, "path").get("value", ""))
            for rule in entries(spec, "rules")
            for match in entries(rule, "matches")
        }
        for parent in entries(spec, "parentRefs"):
            namespace = parent.get("namespace") or part(manifest, "metadata").get("namespace")
            gateway = f"{namespace}/{parent.get('name')}/{parent.get('sectionName')}"
            for host in texts(spec, "hostnames") or ["every host"]:
                for prefix in sorted(paths) or [""]:
                    yield kind, gateway, f"{host}{prefix}"
