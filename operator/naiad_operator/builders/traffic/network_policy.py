"""Builds the NetworkPolicy: which pods may open connections to the service's pods.

The kubelet needs no rule: a pod's own node always has access. Egress stays open, because pods fetch models.
"""

import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import kinds, names
from naiad_operator.builders.facts import ClusterFacts

_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_OPERATOR_NAME = "naiad-operator"


def policy(service: InferenceService, facts: ClusterFacts) -> names.Manifest | None:
    """The NetworkPolicy; None unless it is enabled."""
    wanted = service.spec.network_policy
    if wanted is None or not wanted.enabled:
        return None
    defaults = facts.defaults
    ports = service.spec.predictor.ports
    clients = [
        *_from_namespace(defaults.ingress_namespace),
        {"podSelector": {}},
        *(dict(peer) for peer in wanted.ingress_from or ()),
    ]
    scrapers = _from_namespace(defaults.prometheus_namespace)
    if scrapers and defaults.operator_namespace:
        operator = _in_namespace(defaults.operator_namespace)
        operator["podSelector"] = {"matchLabels": {names.NAME_LABEL: _OPERATOR_NAME}}
        scrapers.append(operator)
    manifest = names.child(service, kinds.NETWORK_POLICY.api_version, kinds.NETWORK_POLICY.kind)
    manifest["spec"] = {
        "podSelector": {"matchLabels": names.selector(service)},
        "policyTypes": ["Ingress"],
        "ingress": [
            {
                # No peer stands for every address: an ipBlock of 0.0.0.0/0 leaves nodes out in some networks.
                **({} if wanted.allow_external else {"from": clients}),
                "ports": _ports(ports.http, ports.grpc),
            },
            # Without a configured namespace, the metrics port is open to all: it exposes no secrets and changes nothing.
            {**({"from": scrapers} if scrapers else {}), "ports": _ports(ports.metrics)},
        ],
    }
    if service.component:  # an HTTP port, and nothing else
        manifest["spec"]["ingress"] = [
            {**({} if wanted.allow_external else {"from": clients}), "ports": _ports(ports.http)}
        ]
    return manifest


def _in_namespace(name: str) -> dict[str, typing.Any]:
    return {"namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: name}}}


def _from_namespace(name: str) -> list[dict[str, typing.Any]]:
    return [_in_namespace(name)] if name else []


def _ports(*numbers: int) -> list[dict[str, typing.Any]]:
    return [{"port": number, "protocol": "TCP"} for number in numbers]
