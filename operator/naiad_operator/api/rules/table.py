"""The table of the validation rules, by the part of the resource that `self` is."""

import collections.abc

from naiad_operator.api.manifests import unreadable
from naiad_operator.api.rules import (
    accelerator as accelerator_rules,
    model as model_rules,
    pod as pod_rules,
    policy as policy_rules,
    scaling as scaling_rules,
    spec as spec_rules,
    traffic as traffic_rules,
)
from naiad_operator.api.rules.rule import Rule
from naiad_operator.api.types import (
    accelerator,
    canary,
    component,
    model,
    pod,
    policy,
    profile,
    scaling,
    spec,
    structs,
    traffic,
)

RULES: collections.abc.Mapping[type[structs.Part], tuple[Rule, ...]] = {
    spec.Spec: spec_rules.SPEC,
    spec.Predictor: spec_rules.PREDICTOR,
    model.Model: model_rules.MODEL,
    model.Repository: model_rules.REPOSITORY,
    model.ModelImage: model_rules.IMAGE,
    model.ModelVolume: model_rules.VOLUME,
    model.Storage: model_rules.STORAGE,
    model.Load: model_rules.LOAD,
    model.Cache: model_rules.CACHE,
    profile.ProfileSpec: spec_rules.PROFILE,
    profile.StoreDefaults: model_rules.STORES,
    policy.BoundNamespaces: policy_rules.NAMESPACES,
    policy.Requirement: policy_rules.REQUIREMENT,
    accelerator.Accelerator: accelerator_rules.ACCELERATOR,
    pod.Resources: pod_rules.RESOURCES,
    pod.EnvVar: pod_rules.ENV,
    pod.Toleration: pod_rules.TOLERATION,
    pod.Ports: pod_rules.PORTS,
    pod.Readiness: pod_rules.READINESS,
    scaling.Autoscaling: scaling_rules.AUTOSCALING,
    scaling.Activation: scaling_rules.ACTIVATION,
    scaling.DeploymentStrategy: scaling_rules.STRATEGY,
    traffic.Service: traffic_rules.SERVICE,
    traffic.Ingress: traffic_rules.INGRESS,
    traffic.Gateway: traffic_rules.GATEWAY,
    traffic.NetworkPolicy: traffic_rules.NETWORK_POLICY,
    canary.Canary: spec_rules.CANARY,
    component.Component: spec_rules.COMPONENT,
    component.ComponentScaling: spec_rules.COMPONENT_SCALING,
    traffic.Monitoring: traffic_rules.MONITORING,
}
"""The rules of each part of the resource."""

BOUNDS = unreadable.BOUNDS
"""The rules that the API server cannot have, each with the reason: `check` refuses a file and the operator marks a stored resource in the same words."""
