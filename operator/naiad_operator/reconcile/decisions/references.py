"""Which other objects of a service a manifest names: where requests go from it, and what it scales. Pure."""

import collections.abc
import itertools
import typing

from naiad_operator.api.manifests.unvalidated import entries, part, texts

Object = collections.abc.Mapping[str, typing.Any]
Named = tuple[str, str]
"""A kind and a name."""

_PREDICTOR_HOST = "--predictor_host"
"""The argument of a transformer or an explainer that names the Service of the servers."""


def of(manifest: Object) -> collections.abc.Iterator[Named]:
    """The Services that an Ingress or a route leads to or copies requests to, and that a component asks; the object that an autoscaler scales."""
    spec = part(dict(manifest), "spec")
    for rule in entries(spec, "rules"):
        for path in entries(part(rule, "http"), "paths"):
            yield "Service", str(part(path, "backend", "service").get("name"))
        for backend in entries(rule, "backendRefs"):
            yield "Service", str(backend.get("name"))
        for one in entries(rule, "filters"):
            if copied := part(one, "requestMirror", "backendRef"):
                yield "Service", str(copied.get("name"))
    if target := part(spec, "scaleTargetRef"):
        yield str(target.get("kind") or "Deployment"), str(target.get("name"))
    namespace = part(dict(manifest), "metadata").get("namespace")
    for container in entries(part(spec, "template", "spec"), "containers"):
        given = [*texts(container, "command"), *texts(container, "args")]
        for option, value in itertools.pairwise(given):
            name, _, rest = value.partition(".")
            if option == _PREDICTOR_HOST and rest.partition(":")[0] == namespace:
                yield "Service", name
