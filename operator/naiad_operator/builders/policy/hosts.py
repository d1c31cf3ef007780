"""The hosts and Gateways outside its namespace that a service may use where its profile lists them."""

import collections.abc

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.spec import Spec
from naiad_operator.errors import Problem

Problems = collections.abc.Iterator[Problem]

NAMESPACE = "{namespace}"
"""What stands for the name of the service's namespace in a pattern."""

_CLAIMS = (
    "/server-alias", "/server-alias-regex", "/host-aliases", "/from-to-www-redirect", "-snippet", "-snippets", "/router.rule", "/hostname", "/internal-hostname",
)  # fmt: skip
"""The ends of annotations with which ingress controllers and DNS controllers give an object more hosts."""


def of_spec(service: InferenceService) -> Problems:
    """The hosts and Gateways of a service that its profile does not list."""
    profile = service.profile
    policy = profile.spec.policy if profile is not None else None
    if profile is None or policy is None:
        return
    own = service.own_spec
    if policy.hosts is not None:
        allowed = [one.replace(NAMESPACE, service.namespace) for one in policy.hosts]
        words = f"the {profile.title} allows {', '.join(allowed) or 'no host'} here: write one of these"  # fmt: skip
        for path, host in _hosts(own):
            if not any(matches(host, pattern) for pattern in allowed):
                yield Problem(path, f"{host or 'every host of the Gateway'} is refused, because {words}")  # fmt: skip
        for path in _claims(own):
            yield Problem(path, f"may give the service other hosts, and {words} in its fields, and leave this out")  # fmt: skip
    if policy.gateways is not None and own.gateway is not None:
        listed = [one.replace(NAMESPACE, service.namespace) for one in policy.gateways]
        for index, parent in enumerate(own.gateway.parent_refs):
            namespace = parent.namespace or service.namespace
            wanted = {f"{namespace}/{parent.name}", f"{namespace}/*"}
            if namespace != service.namespace and not wanted & set(listed):
                message = (
                    f"the Gateway {namespace}/{parent.name} is refused, because the {profile.title} allows {', '.join(listed) or 'none'} of other "
                    "namespaces: name one of these, or one of the service's own namespace"
                )
                yield Problem(f"spec.gateway.parentRefs[{index}]", message)


def matches(host: str, pattern: str) -> bool:
    """Whether a host is one that a pattern allows: itself, or any name below *.domain, also with several labels; * is every host."""
    if pattern in {"*", host}:
        return True
    return pattern.startswith("*.") and host.endswith(pattern[1:]) and host != pattern[1:]


def _hosts(own: Spec) -> collections.abc.Iterator[tuple[str, str]]:
    """Every host with its field; "" stands for all hosts of a Gateway's listener."""
    if own.ingress is not None:
        for field, host in (("host", own.ingress.host), ("grpcHost", own.ingress.grpc_host)):
            if host is not None:
                yield f"spec.ingress.{field}", host
    if own.gateway is not None:
        given = {"hostnames": own.gateway.hostnames, "grpcHostnames": own.gateway.grpc_hostnames}
        for field, hosts in given.items():
            yield from ((f"spec.gateway.{field}[{index}]", one) for index, one in enumerate(hosts or ()))  # fmt: skip
        if not any(given.values()):
            yield "spec.gateway.hostnames", ""


def _claims(own: Spec) -> collections.abc.Iterator[str]:
    ingress = own.ingress
    places = (
        ("spec.annotations", own.annotations),
        ("spec.service.annotations", own.service.annotations),
        ("spec.ingress.annotations", ingress.annotations if ingress is not None else None),
        ("spec.ingress.grpcAnnotations", ingress.grpc_annotations if ingress is not None else None),
    )
    for where, given in places:
        for key in given or ():
            if key.endswith(_CLAIMS):
                yield f"{where}[{key}]"
