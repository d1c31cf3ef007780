"""The query that starts the first pod of a service without pods, and that ends the last one: the requests that an ingress controller has counted.

Both controllers also count the requests that they refuse while the service has no pod: ingress-nginx answers them with 503. So does Traefik, if it
keeps routes to services without endpoints (`allowEmptyServices`), and it counts them only by route (`addRoutersLabels`), since its counters of services
belong to their pods.
"""

import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.scaling import Activation
from naiad_operator.builders import components

Source = typing.Literal["nginx", "traefik"]

WINDOW = "2m"

_PRESENT = {
    "nginx": "nginx_ingress_controller_build_info",
    "traefik": "traefik_config_reloads_total",
}
"""By controller, a metric that it always has: without it the controller is not scraped, and a missing count of requests does not mean none."""

_STARTUP_SECONDS = 300
_NO_ACTIVATION = Activation()


def query(service: InferenceService) -> str:
    """The PromQL query, above 0 while there are requests; "" for a service that keeps a pod, or that has triggers of its own instead."""
    scaling = service.spec.predictor.autoscaling
    if scaling is None or scaling.effective_min_replicas > 0:
        return ""
    wanted = scaling.activation or _NO_ACTIVATION
    if wanted.query is not None:
        return wanted.query
    if wanted.source is not None:
        return requests(service, wanted.source)
    source = None if scaling.triggers else _controller(service)
    return "" if source is None else requests(service, source)


def idle_seconds(service: InferenceService) -> int:
    """The seconds without requests after which the last pod ends. A pod must have had the time to load its models by then."""
    predictor = service.spec.predictor
    assert predictor.autoscaling is not None
    wanted = (predictor.autoscaling.activation or _NO_ACTIVATION).idle_seconds
    return wanted or max(_STARTUP_SECONDS, predictor.probes.startup.seconds())


def _controller(service: InferenceService) -> Source | None:
    """The controller of the service's Ingress, if it is one whose metrics are known."""
    ingress = service.spec.ingress
    if ingress is None or not ingress.enabled:
        return None
    match ingress.class_name:
        case "nginx" | "traefik" as known:
            return known
        case _:
            return None


def requests(service: InferenceService, source: Source) -> str:
    """The requests of the last minutes that a controller has counted for a service: their rate, and those in counters that are new.

    A counter begins with its first request, and a rate needs two values. Where Prometheus has labels of its own called namespace and service,
    those of the metric have the prefix `exported_`.
    """
    namespace, name = service.namespace, service.name
    beside = [one for one in components.NAMES if components.field_of(service.spec, one) is not None]
    if source == "nginx":
        metric, labels = (
            "nginx_ingress_controller_requests",
            {
                "namespace": f'="{namespace}"',
                "service": f'=~"{name}(-{"|-".join(("grpc", *beside))})?"',
            },
        )
    else:
        found = [f"{name}-http", f"{name}-grpc-grpc", *(f"{name}-{one}-http" for one in beside)]
        routes = "|".join(f"{namespace}-{one}" for one in found)
        metric, labels = "traefik_router_requests_total", {"service": f'=~"({routes})@kubernetes"'}
    series = [
        f"{metric}{{{','.join(f'{prefix}{label}{value}' for label, value in labels.items())}}}"
        for prefix in ("exported_", "")
    ]
    rates = " or ".join(f"rate({one}[{WINDOW}])" for one in series)
    now, before = " or ".join(series), " or ".join(f"{one} offset {WINDOW}" for one in series)
    return f"((sum({rates}) or vector(0)) + (sum(({now}) unless ({before})) or vector(0))) and on() count({_PRESENT[source]})"
