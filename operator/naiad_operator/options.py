"""What `naiad-operator run` can be told, by flags and by environment (a flag wins).

Each flag `--watch-namespaces` is also read from `NAIAD_WATCH_NAMESPACES`, so that a chart can set either.
"""

import argparse
import collections.abc
import dataclasses
import re
import typing

from naiad_operator.builders.facts import Defaults

DEFAULT_IMAGE = "naiad-server:latest"
_PREFIX = "NAIAD_"
_OBJECT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the operator runs.

    Attributes:
        defaults: what services get that name nothing themselves.
        namespaces: where to look for services; empty means everywhere.
        inspect_nodes: whether to read nodes, to say what they offer.
        kubeconfig: a file; "" means the pod's service account, or the usual places.
        context: of the kubeconfig; "" means its current one.
        http_host: where /healthz, /readyz and /metrics are.
        http_port: their port; 0 takes a free one and logs it.
        workers: services reconciled at once.
        resync_seconds: between looks at a service when nothing happens.
        discovery_seconds: between looks at which kinds the API server serves and what nodes offer.
        leader_election: whether to hold a Lease before writing anything.
        lease_namespace: where the Lease is; "" means where the operator runs.
        lease_name: the Lease's name. Operators that share it take turns, so those of different installations must not.
        drain_seconds: how long what is being reconciled may take to end after SIGTERM.
        log_level: debug, info, warning or error.
        log_text: lines for people in place of JSON.
    """

    defaults: Defaults
    namespaces: tuple[str, ...] = ()
    inspect_nodes: bool = True
    kubeconfig: str = ""
    context: str = ""
    http_host: str = "0.0.0.0"  # noqa: S104 - in a pod, the kubelet and Prometheus come from outside
    http_port: int = 8080
    workers: int = 16
    resync_seconds: float = 600.0
    discovery_seconds: float = 30.0
    leader_election: bool = False
    lease_namespace: str = ""
    lease_name: str = "naiad-operator"
    drain_seconds: float = 20.0
    log_level: str = "info"
    log_text: bool = False


class _Flag(typing.NamedTuple):
    """One option of the command line."""

    name: str
    default: str
    help: str
    choices: tuple[str, ...] = ()


_FLAGS = (
    _Flag("default-image", DEFAULT_IMAGE, "server image of services that name none"),
    _Flag("watch-namespaces", "", "where to look for services, separated by commas; empty means everywhere"),
    _Flag("prometheus-address", "", "where KEDA asks for metrics when a service names no address"),
    _Flag("operator-namespace", "", "where the operator runs; NetworkPolicies let its pods in, and the Lease is there"),
    _Flag("prometheus-namespace", "", "NetworkPolicies let only this namespace in to the metrics port"),
    _Flag("ingress-namespace", "", "NetworkPolicies let only this namespace in to the HTTP and gRPC ports"),
    _Flag("inspect-nodes", "true", "read nodes, to say in conditions what devices they offer", ("true", "false")),
    _Flag("kubeconfig", "", "a kubeconfig file; else the pod's service account, $KUBECONFIG or ~/.kube/config"),
    _Flag("context", "", "a context of the kubeconfig; else its current one"),
    _Flag("http-host", "0.0.0.0", "address of /healthz, /readyz and /metrics"),  # noqa: S104 - see Options
    _Flag("http-port", "8080", "their port; 0 takes a free one and logs it"),
    _Flag("workers", "16", "services reconciled at once"),
    _Flag("resync-seconds", "600", "between looks at a service when nothing happens"),
    _Flag("discovery-seconds", "30", "between looks at which kinds the API server serves and what nodes offer"),
    _Flag("leader-election", "false", "hold a Lease before writing anything, for two replicas", ("true", "false")),
    _Flag("lease-name", "naiad-operator", "the Lease's name; operators that share it take turns"),
    _Flag("drain-seconds", "20", "how long a reconcile may take to end after SIGTERM"),
    _Flag("log-level", "info", "how much is logged", ("debug", "info", "warning", "error")),
    _Flag("log-format", "json", "json for machines, text for people", ("json", "text")),
)  # fmt: skip


def add_to(parser: argparse.ArgumentParser, environ: collections.abc.Mapping[str, str]) -> None:
    """Adds the options to a parser, with what the environment says as defaults."""
    for flag in _FLAGS:
        variable = _PREFIX + flag.name.upper().replace("-", "_")
        parser.add_argument(
            f"--{flag.name}",
            default=environ.get(variable, flag.default),
            choices=flag.choices or None,
            metavar=None if flag.choices else flag.name.rpartition("-")[2].upper(),
            help=f"{flag.help} [{variable}; default {flag.default or 'empty'}]",
        )


def table() -> str:
    """The options as a table for the documentation, in Markdown."""
    lines = ["| option | value | default | |", "|---|---|---|---|"]
    for flag in _FLAGS:
        value = ", ".join(f"`{choice}`" for choice in flag.choices)
        lines.append(f"| `--{flag.name}` | {value} | {flag.default} | {flag.help} |")
    return "\n".join(lines) + "\n"


def read(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Options:
    """The options, checked; ends the program with a sentence where one cannot be."""
    for flag in _FLAGS:
        value = getattr(given, flag.name.replace("-", "_"))
        if flag.choices and value not in flag.choices:
            variable = _PREFIX + flag.name.upper().replace("-", "_")
            parser.error(f"{variable}: {value!r} is none of {', '.join(flag.choices)}")
    named = (each.strip() for each in given.watch_namespaces.split(","))
    namespaces = tuple(dict.fromkeys(each for each in named if each))
    if given.watch_namespaces and not namespaces:
        # A mistake in a template must not widen what is watched to everything.
        parser.error(
            f"--watch-namespaces: {given.watch_namespaces!r} names no namespace; leave it empty for all of them"
        )
    for each in namespaces:
        if not _NAMESPACE.fullmatch(each):
            # An API server answers for a namespace that cannot be as for an empty one.
            parser.error(f"--watch-namespaces: {each!r} is no namespace's name")
    defaults = Defaults(
        image=given.default_image,
        prometheus_address=given.prometheus_address,
        operator_namespace=given.operator_namespace,
        prometheus_namespace=given.prometheus_namespace,
        ingress_namespace=given.ingress_namespace,
    )
    return Options(
        defaults=defaults,
        namespaces=namespaces,
        inspect_nodes=given.inspect_nodes == "true",
        kubeconfig=given.kubeconfig,
        context=given.context,
        http_host=given.http_host,
        http_port=_whole(parser, "http-port", given.http_port, least=0, most=65535),
        workers=_whole(parser, "workers", given.workers, least=1, most=256),
        resync_seconds=_number(parser, "resync-seconds", given.resync_seconds, least=1, most=86400),
        discovery_seconds=_number(
            parser, "discovery-seconds", given.discovery_seconds, least=1, most=3600
        ),
        leader_election=given.leader_election == "true",
        lease_namespace=given.operator_namespace,
        lease_name=_name(parser, "lease-name", given.lease_name),
        drain_seconds=_number(parser, "drain-seconds", given.drain_seconds, least=0, most=3600),
        log_level=given.log_level,
        log_text=given.log_format == "text",
    )


def _name(parser: argparse.ArgumentParser, name: str, text: str) -> str:
    if not _OBJECT.fullmatch(text):
        parser.error(f"--{name}: {text!r} is no object's name")
    return text


def _whole(parser: argparse.ArgumentParser, name: str, text: str, *, least: int, most: int) -> int:
    if not text.strip().isdecimal():
        parser.error(f"--{name}: {text!r} is no whole number from {least} to {most}")
    return int(_number(parser, name, text, least=least, most=most))


def _number(
    parser: argparse.ArgumentParser, name: str, text: str, *, least: float, most: float
) -> float:
    try:
        value = float(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        parser.error(f"--{name}: {text!r} is no number from {least:g} to {most:g}")
    return value
