"""What a platform refuses to a service, as problems with their fields: pods that podTemplate makes, and scalers that act with KEDA's rights."""

import collections.abc
import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders.facts import Policy
from naiad_operator.builders.policy import enforced, hosts, restricted
from naiad_operator.errors import InvalidSpec, Problem

Object = dict[str, typing.Any]

_WITHOUT_A_CONNECTION = ("cpu", "memory", "cron")
"""The types of triggers for which KEDA connects to nothing and needs no credentials."""

_SYSTEM = "system-"
"""The beginning of the names of Kubernetes' own priority classes: pods that have one evict every other pod."""


def policy_of(service: InferenceService, defaults: Policy) -> Policy:
    """What a service may have: what its profile says, which binds its namespace then, else what the operator was installed with."""
    profile = service.profile
    held = profile.spec.policy if profile is not None else None
    if profile is None or held is None:
        return defaults
    if held.pod_template is None and held.triggers is None:
        return defaults
    origin = f"the {profile.title}"
    return Policy(
        pod_template=held.pod_template or defaults.pod_template,
        triggers=held.triggers or defaults.triggers,
        pod_template_origin=origin if held.pod_template else defaults.pod_template_origin,
        triggers_origin=origin if held.triggers else defaults.triggers_origin,
    )


def of_spec(service: InferenceService, policy: Policy) -> None:
    """Refuses fields of a service that its platform does not allow.

    Raises:
        InvalidSpec: with every such field.
    """
    problems = [
        *_of_scaling(service, policy),
        *_of_pods(service, policy),
        *enforced.of_spec(service),
        *hosts.of_spec(service),
    ]
    if problems:
        raise InvalidSpec(problems)


def of_pod(
    service: InferenceService, policy: Policy, patch: Object, before: Object, after: Object
) -> None:
    """Refuses what the podTemplate of a service adds to its pods.

    Args:
        service: the service.
        policy: what the platform allows.
        patch: the podTemplate.
        before: the pod template without it.
        after: the pod template with it.

    Raises:
        InvalidSpec: with everything that it may not add.
    """
    problems = list(enforced.of_pod(service, before, after))
    if policy.pod_template == "Restricted":
        problems += _of_patch(policy, patch, before, after)
    if problems:
        raise InvalidSpec(problems)


def _of_patch(policy: Policy, patch: Object, before: Object, after: Object) -> list[Problem]:
    return [
        Problem(_field(patch, one.path), f"{_words(one)}, which is refused, because podTemplate is Restricted here ({policy.pod_template_origin}): {advice}")
        for one, advice in restricted.added(before, after).items()
    ]  # fmt: skip


def _words(found: restricted.Found) -> str:
    """What the pods would have: "spec.containers[sidecar].securityContext.privileged would be True"."""
    path = ".".join(found.path).replace(".[", "[")
    return f"{path} would be {'absent' if found.value == repr(None) else found.value}"


def _of_pods(service: InferenceService, policy: Policy) -> collections.abc.Iterator[Problem]:
    if policy.pod_template == "Allow":
        return
    own = service.own_spec.predictor
    if own.pod_template is not None and policy.pod_template == "Refuse":
        message = f"is refused here ({policy.pod_template_origin}): leave it out, or ask who runs the platform for a profile that has what it does"
        yield Problem("spec.predictor.podTemplate", message)
    volume = own.model.volume
    if volume is not None and volume.host_path is not None:
        message = f"a folder of the node is refused, because podTemplate is {policy.pod_template} here ({policy.pod_template_origin}): write claimName of a claim, e.g. of a local PersistentVolume with that folder, or ask for a profile that allows it"
        yield Problem("spec.predictor.model.volume.hostPath", message)
    if own.model.cache is not None and own.model.cache.type == "hostPath":
        message = f"a folder of the node is refused, because podTemplate is {policy.pod_template} here ({policy.pod_template_origin}): leave cache out, or ask for a profile that has this cache"
        yield Problem("spec.predictor.model.cache.type", message)
    if (own.priority_class_name or "").startswith(_SYSTEM):
        message = f"{own.priority_class_name} is refused, because podTemplate is {policy.pod_template} here ({policy.pod_template_origin}): it is for Kubernetes' own pods"
        yield Problem("spec.predictor.priorityClassName", message)
    for one, advice in restricted.annotations(dict(service.own_spec.annotations or {})).items():
        message = f"{one.value} is refused, because podTemplate is {policy.pod_template} here ({policy.pod_template_origin}): {advice}"
        yield Problem(f"spec.annotations{one.path[-1]}", message)


def _of_scaling(service: InferenceService, policy: Policy) -> collections.abc.Iterator[Problem]:
    own = service.own_spec.predictor.autoscaling
    if own is None or policy.triggers == "Allow":
        return
    where = "spec.predictor.autoscaling"
    for index, trigger in enumerate(own.triggers or ()):
        if trigger.get("type") not in _WITHOUT_A_CONNECTION or "authenticationRef" in trigger:
            message = (
                f"is refused here ({policy.triggers_origin}), because KEDA opens it with its own rights: write queueTimeMs or pendingRequests, or a trigger of "
                f"type {', '.join(_WITHOUT_A_CONNECTION)} without authenticationRef"
            )
            yield Problem(f"{where}.triggers[{index}]", message)
    auth = own.prometheus_auth
    if (
        auth is not None
        and auth.kind == "ClusterTriggerAuthentication"
        and own.prometheus_address is not None
    ):
        message = (
            f"ClusterTriggerAuthentication is refused beside a prometheusAddress of the service's own ({policy.triggers_origin}): it would send the cluster's "
            "credentials there. Leave prometheusAddress out, or write a TriggerAuthentication of this namespace"
        )
        yield Problem(f"{where}.prometheusAuth.kind", message)


def _field(patch: Object, path: tuple[str, ...]) -> str:
    """The field of a podTemplate that has something, as near as the patch has it: entries of lists by their places."""
    field = "spec.predictor.podTemplate"
    here: typing.Any = patch
    for step in path:
        if step.startswith("["):
            names = [f"[{one.get('name')}]" if isinstance(one, dict) else "" for one in here]
            if step not in names:
                break
            index = names.index(step)
            field, here = f"{field}[{index}]", here[index]
        elif isinstance(here, dict) and step in here:
            field, here = f"{field}.{step}", here[step]
        else:
            break
        if not isinstance(here, dict | list):
            break
    return field
