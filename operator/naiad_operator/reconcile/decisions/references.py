"""Which other objects of a service a manifest names: where its requests go, and what it scales. Pure."""

import collections.abc
import typing

from naiad_operator.api.manifests.unvalidated import entries, part

Object = collections.abc.Mapping[str, typing.Any]
Named = tuple[str, str]
"""A kind and a name."""


def of(manifest: Object) -> collections.abc.Iterator[Named]:
    """The Services that an Ingress or a route leads to, and the object that an autoscaler scales."""
    spec = part(dict(manifest), "spec")
    for rule in entries(spec, "rules"):
        for path in entries(part(rule, "http"), "paths"):
            yield "Service", str(part(path, "backend", "service").get("name"))
        for backend in entries(rule, "backendRefs"):
            yield "Service", str(backend.get("name"))
    if target := part(spec, "scaleTargetRef"):
        yield str(target.get("kind") or "Deployment"), str(target.get("name"))
