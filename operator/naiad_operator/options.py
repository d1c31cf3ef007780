"""The options of `naiad-operator run`, from flags and environment variables (a flag takes precedence).

Each flag such as `--watch-namespaces` is also read from a variable such as `NAIAD_WATCH_NAMESPACES`, so that a chart can set
either.
"""

import argparse
import collections.abc
import dataclasses
import re
import typing

from naiad_operator.api.parsing import profiles
from naiad_operator.api.parsing.service import Profile
from naiad_operator.builders.facts import Defaults, Policy
from naiad_operator.builders.workload import requests
from naiad_operator.errors import InvalidSpec

DEFAULT_IMAGE = "naiad-server:latest"
DEFAULT_REQUESTS = "cpu=100m,memory=256Mi"
"""What a server with a small model takes; it has 90 MB at its start."""

_PREFIX = "NAIAD_"
_OBJECT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Upgrades:
    """Which services get new pods because of a new operator, and when; namespaces, with "*" for all others.

    Attributes:
        order: the namespaces in the order in which their services are upgraded.
        pause: those whose services wait.
        skip: those whose services keep their pods.
        time_limit_seconds: how long others wait for a service that does not become ready.
    """

    order: tuple[str, ...] = ()
    pause: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    time_limit_seconds: float = 1800.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The operator's configuration.

    Attributes:
        defaults: the defaults of fields that a service does not set.
        default_profile: the profile of services that get no other.
        profiles: whether to read NaiadProfiles.
        namespaces: the namespaces to watch; empty means all.
        inspect_nodes: whether to read nodes when a pod cannot be scheduled, to report which devices they offer.
        kubeconfig: a kubeconfig file; "" means the pod's service account, or the default locations.
        context: a context of the kubeconfig; "" means its current one.
        http_host: the address of /healthz, /readyz and /metrics.
        http_port: their port; 0 chooses a free one and logs it.
        workers: services reconciled at once.
        resync_seconds: seconds between two reconciles of a service without events.
        discovery_seconds: seconds between two discoveries of the served kinds.
        leader_election: whether to hold a Lease before writing anything.
        lease_namespace: the namespace of the Lease; "" means the operator's own.
        lease_name: the name of the Lease. Operators with the same Lease elect one leader, so different installations need
            different names.
        max_concurrent_restarts: how many services replace their pods at a time because of a new operator or of its defaults.
        upgrades: which of them, and in which order.
        allow_downgrade: whether to replace the pod templates of newer operators.
        drain_seconds: how long running reconciles may take to end after SIGTERM.
        log_level: debug, info, warning or error.
        log_text: whether log lines are plain text and not JSON.
    """

    defaults: Defaults
    default_profile: Profile | None = None
    profiles: bool = True
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
    max_concurrent_restarts: int = 1
    upgrades: Upgrades = dataclasses.field(default_factory=Upgrades)
    allow_downgrade: bool = False
    drain_seconds: float = 20.0
    log_level: str = "info"
    log_text: bool = False


class _Flag(typing.NamedTuple):
    """One command-line option."""

    name: str
    default: str
    help: str
    choices: tuple[str, ...] = ()


_FLAGS = (
    _Flag("default-image", DEFAULT_IMAGE, "server image of services that do not set one"),
    _Flag("default-requests", DEFAULT_REQUESTS, "what new pods request of a resource of which neither the service nor its profile says a request or a limit; empty for nothing"),
    _Flag("default-profile", "", "a file with the spec of a NaiadProfile, for services that get no other"),
    _Flag("pod-template", "Allow", "whether services may patch their pods: Restricted as far as Kubernetes' Pod Security Standards go, Refuse not at all", ("Allow", "Restricted", "Refuse")),
    _Flag("triggers", "Allow", "whether services may have KEDA triggers of their own, and the cluster's credentials for a Prometheus of their own", ("Allow", "Refuse")),
    _Flag("profiles", "true", "read NaiadProfiles; false where the operator may not", ("true", "false")),
    _Flag("watch-namespaces", "", "namespaces to watch, separated by commas; empty means all"),
    _Flag("prometheus-address", "", "the Prometheus that KEDA queries when a service does not set one"),
    _Flag("operator-namespace", "", "the operator's own namespace: NetworkPolicies allow its pods, and the Lease is there"),
    _Flag("prometheus-namespace", "", "NetworkPolicies allow only this namespace on the metrics port"),
    _Flag("ingress-namespace", "", "NetworkPolicies allow only this namespace on the HTTP and gRPC ports"),
    _Flag("inspect-nodes", "true", "read nodes when a pod cannot be scheduled, to report in its condition which devices they offer", ("true", "false")),
    _Flag("node-wait-seconds", "600", "how long a pod without a node only waits for one, which an autoscaler may be adding; then that is a failure"),
    _Flag("kubeconfig", "", "a kubeconfig file; else the pod's service account, $KUBECONFIG or ~/.kube/config"),
    _Flag("context", "", "a context of the kubeconfig; else its current one"),
    _Flag("http-host", "0.0.0.0", "address of /healthz, /readyz and /metrics"),  # noqa: S104 - see Options
    _Flag("http-port", "8080", "their port; 0 chooses a free one and logs it"),
    _Flag("workers", "16", "services reconciled at once"),
    _Flag("resync-seconds", "600", "seconds between two reconciles of a service without events"),
    _Flag("discovery-seconds", "30", "seconds between two discoveries of the kinds that the API server serves"),
    _Flag("max-concurrent-restarts", "1", "services that replace their pods at a time because of a new operator or of its defaults; 0 replaces none"),
    _Flag("upgrade-order", "", "the namespaces in the order in which their services get new pods, separated by commas, * for all others; by default in that of their names"),
    _Flag("upgrade-pause", "", "namespaces whose services wait with new pods, * for all"),
    _Flag("upgrade-skip", "", "namespaces whose services keep their pods until they are edited, * for all"),
    _Flag("upgrade-time-limit-seconds", "1800", "how long other services wait for one whose new pods do not become ready"),
    _Flag("allow-downgrade", "false", "also replace the pod templates of newer operators, for a rollback of the operator", ("true", "false")),
    _Flag("leader-election", "false", "hold a Lease before writing anything, for two replicas", ("true", "false")),
    _Flag("lease-name", "naiad-operator", "name of the Lease; operators with the same Lease elect one leader"),
    _Flag("drain-seconds", "20", "how long running reconciles may take to end after SIGTERM"),
    _Flag("log-level", "info", "the lowest level that is logged", ("debug", "info", "warning", "error")),
    _Flag("log-format", "json", "json for machines, text for people", ("json", "text")),
)  # fmt: skip


def add_to(parser: argparse.ArgumentParser, environ: collections.abc.Mapping[str, str]) -> None:
    """Adds the options to a parser, with the environment variables as defaults."""
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
    """The options as a Markdown table for the documentation."""
    lines = ["| option | value | default | |", "|---|---|---|---|"]
    for flag in _FLAGS:
        value = ", ".join(f"`{choice}`" for choice in flag.choices)
        lines.append(f"| `--{flag.name}` | {value} | {flag.default} | {flag.help} |")
    return "\n".join(lines) + "\n"


def read(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> Options:
    """Validates the arguments; exits with an error message when one is not valid."""
    for flag in _FLAGS:
        value = getattr(arguments, flag.name.replace("-", "_"))
        if flag.choices and value not in flag.choices:
            variable = _PREFIX + flag.name.upper().replace("-", "_")
            parser.error(f"{variable}: {value!r} is not one of {', '.join(flag.choices)}")
    requested = (namespace.strip() for namespace in arguments.watch_namespaces.split(","))
    namespaces = tuple(dict.fromkeys(namespace for namespace in requested if namespace))
    if arguments.watch_namespaces and not namespaces:
        # A mistake in a template must not extend the watch to all namespaces.
        parser.error(
            f"--watch-namespaces: {arguments.watch_namespaces!r} names no namespace; leave it empty to watch all namespaces"
        )
    for namespace in namespaces:
        if not _NAMESPACE.fullmatch(namespace):
            # The API server responds for an invalid namespace as for an empty one.
            parser.error(f"--watch-namespaces: {namespace!r} is not a valid namespace name")
    defaults = Defaults(
        image=arguments.default_image,
        requests=_requests(parser, arguments.default_requests),
        prometheus_address=arguments.prometheus_address,
        operator_namespace=arguments.operator_namespace,
        prometheus_namespace=arguments.prometheus_namespace,
        ingress_namespace=arguments.ingress_namespace,
        policy=Policy(pod_template=arguments.pod_template, triggers=arguments.triggers),
        node_wait_seconds=_number(
            parser, "node-wait-seconds", arguments.node_wait_seconds, minimum=0, maximum=86400
        ),
    )
    return Options(
        defaults=defaults,
        default_profile=_profile(parser, arguments.default_profile),
        profiles=arguments.profiles == "true",
        namespaces=namespaces,
        inspect_nodes=arguments.inspect_nodes == "true",
        kubeconfig=arguments.kubeconfig,
        context=arguments.context,
        http_host=arguments.http_host,
        http_port=_integer(parser, "http-port", arguments.http_port, minimum=0, maximum=65535),
        workers=_integer(parser, "workers", arguments.workers, minimum=1, maximum=256),
        resync_seconds=_number(
            parser, "resync-seconds", arguments.resync_seconds, minimum=1, maximum=86400
        ),
        discovery_seconds=_number(
            parser, "discovery-seconds", arguments.discovery_seconds, minimum=1, maximum=3600
        ),
        max_concurrent_restarts=_integer(
            parser,
            "max-concurrent-restarts",
            arguments.max_concurrent_restarts,
            minimum=0,
            maximum=10_000,
        ),
        upgrades=Upgrades(
            order=_namespaces(parser, "upgrade-order", arguments.upgrade_order),
            pause=_namespaces(parser, "upgrade-pause", arguments.upgrade_pause),
            skip=_namespaces(parser, "upgrade-skip", arguments.upgrade_skip),
            time_limit_seconds=_number(
                parser,
                "upgrade-time-limit-seconds",
                arguments.upgrade_time_limit_seconds,
                minimum=0,
                maximum=604_800,
            ),
        ),
        allow_downgrade=arguments.allow_downgrade == "true",
        leader_election=arguments.leader_election == "true",
        lease_namespace=arguments.operator_namespace,
        lease_name=_name(parser, "lease-name", arguments.lease_name),
        drain_seconds=_number(
            parser, "drain-seconds", arguments.drain_seconds, minimum=0, maximum=3600
        ),
        log_level=arguments.log_level,
        log_text=arguments.log_format == "text",
    )


def _namespaces(parser: argparse.ArgumentParser, name: str, text: str) -> tuple[str, ...]:
    """A list of namespaces in which * stands for all others."""
    given = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
    for one in given:
        if one != "*" and not _NAMESPACE.fullmatch(one):
            parser.error(f"--{name}: {one!r} is not a valid namespace name, or * for all others")
    return given


def _name(parser: argparse.ArgumentParser, name: str, text: str) -> str:
    if not _OBJECT.fullmatch(text):
        parser.error(f"--{name}: {text!r} is not a valid object name")
    return text


def _requests(parser: argparse.ArgumentParser, text: str) -> requests.Requests:
    try:
        return requests.read(text)
    except ValueError as error:
        parser.error(f"--default-requests: {error}")


def _profile(parser: argparse.ArgumentParser, path: str) -> Profile | None:
    try:
        return profiles.from_file(path) if path else None
    except InvalidSpec as error:
        parser.error(f"--default-profile: {path}: {error}")


def _integer(
    parser: argparse.ArgumentParser, name: str, text: str, *, minimum: int, maximum: int
) -> int:
    if not text.strip().isdecimal():
        parser.error(f"--{name}: {text!r} is not an integer from {minimum} to {maximum}")
    return int(_number(parser, name, text, minimum=minimum, maximum=maximum))


def _number(
    parser: argparse.ArgumentParser, name: str, text: str, *, minimum: float, maximum: float
) -> float:
    try:
        value = float(text)
    except ValueError:
        value = minimum - 1
    if not minimum <= value <= maximum:
        parser.error(f"--{name}: {text!r} is not a number from {minimum:g} to {maximum:g}")
    return value
