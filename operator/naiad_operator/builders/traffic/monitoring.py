"""Builds the PodMonitor or ServiceMonitor, by which the Prometheus operator finds the pods."""

import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import kinds, names, server
from naiad_operator.builders.facts import ClusterFacts


def monitor(service: InferenceService, facts: ClusterFacts) -> names.Manifest | None:
    """The PodMonitor or ServiceMonitor; None when the spec has none or the API server does not serve the kind."""
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
        # The autoscaler queries by pod, dashboards by service.
        "relabelings": [
            {
                "action": "replace",
                "sourceLabels": ["__meta_kubernetes_pod_label_app_kubernetes_io_instance"],
                "targetLabel": "inference_service",
            }
        ],
    }
    manifest = names.child(service, kind.api_version, kind.kind)
    if service.canary_of:
        component = {
            "action": "replace",
            "sourceLabels": ["__meta_kubernetes_pod_label_app_kubernetes_io_component"],
            "targetLabel": "component",
        }
        endpoint["relabelings"].append(component)
    # Any labels by which a Prometheus selects monitors; the operator's own take precedence, because it finds its objects by them.
    manifest["metadata"]["labels"] = {
        **(service.spec.labels or {}),
        **(wanted.labels or {}),
        **names.own_labels(service),
    }
    endpoints = "podMetricsEndpoints" if wanted.pod_monitor else "endpoints"
    # A ServiceMonitor selects all Services of the InferenceService, but only the main one has a metrics port.
    manifest["spec"] = {"selector": {"matchLabels": names.selector(service)}, endpoints: [endpoint]}
    return manifest
