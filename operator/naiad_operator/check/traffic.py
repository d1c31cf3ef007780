"""Checks hosts and ranges of addresses that look right and that the API server refuses in an Ingress, a route or a Service; and parts that are not switched on."""

import ipaddress
import typing

from naiad_operator.api.manifests.unvalidated import part
from naiad_operator.check.finding import Findings, error, texts, warning

_LONGEST_LABEL = 63


def findings(spec: typing.Any) -> Findings:
    """What is wrong with the entries of a service, as they are written."""
    service = part(spec, "service")
    for index, value in enumerate(texts(service.get("loadBalancerSourceRanges"))):
        if not _is_range(value):
            where = f"spec.service.loadBalancerSourceRanges[{index}]"
            yield error(
                where, f"is {value!r}, which is not a range of addresses: write e.g. 10.0.0.0/8"
            )
    ingress, gateway = part(spec, "ingress"), part(spec, "gateway")
    hosts = {f"spec.ingress.{field}": ingress.get(field) for field in ("host", "grpcHost")}
    for field in ("hostnames", "grpcHostnames"):
        for index, value in enumerate(texts(gateway.get(field))):
            hosts[f"spec.gateway.{field}[{index}]"] = value
    for where, host in hosts.items():
        if isinstance(host, str) and host and not all(_is_label(one) for one in host.split(".")):
            message = f"is {host!r}: the parts between dots have 1 to {_LONGEST_LABEL} characters, and begin and end with a letter or a digit"
            yield error(where, message)


def switched_off(spec: typing.Any) -> Findings:
    """Parts with fields that have no effect, because nothing switches them on or off; `spec` is as written, without defaults."""
    for name, made in (("ingress", "an Ingress"), ("networkPolicy", "a NetworkPolicy")):
        fields = part(spec, name)
        if fields and "enabled" not in fields:
            message = f"has no effect: there is {made} only with enabled: true, and enabled is false when it is not set: write enabled: true, or enabled: false if there is to be none for now"
            yield warning(f"spec.{name}", message)


def _is_range(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _is_label(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_LABEL and not (text[0] == "-" or text[-1] == "-")
