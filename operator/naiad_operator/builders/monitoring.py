"""The monitors by which the Prometheus operator finds the pods."""

import typing

from naiad_operator.api.service import InferenceService
from naiad_operator.builders import kinds, names, server
from naiad_operator.builders.facts import ClusterFacts


def monitor(service: InferenceService, facts: ClusterFacts) -> names.Manifest | None:
    """The PodMonitor or ServiceMonitor; None when none is asked for or the API server does not know it."""
    wanted = service.spec.monitoring
    if wanted is None or not (wanted.pod_monitor or wanted.service_monitor):
        return None
    kind = kinds.POD_MONITOR if wanted.pod_monitor else kinds.SERVICE_MONITOR
    if kind.key not in facts.apis:
        return None
    endpoint: dict[str, typing.Any] = {
        "port": "metrics",
        "path": server.METRICS_PATH,
        "interval": wanted.interval,
        # The autoscaler asks by pod, people ask by service.
        "relabelings": [
            {
                "action": "replace",
                "sourceLabels": ["__meta_kubernetes_pod_label_app_kubernetes_io_instance"],
                "targetLabel": "inference_service",
            }
        ],
    }
    made = names.child(service, kind.api_version, kind.kind)
    # Whatever a Prometheus selects monitors by; ours stay, since the operator finds its objects by them.
    made["metadata"]["labels"] = {**(wanted.labels or {}), **names.labels(service)}
    endpoints = "podMetricsEndpoints" if wanted.pod_monitor else "endpoints"
    # A ServiceMonitor sees every Service of ours, but only the main one has a metrics port.
    made["spec"] = {"selector": {"matchLabels": names.selector(service)}, endpoints: [endpoint]}
    return made
