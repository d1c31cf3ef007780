"""What kstatus, the library of Flux and of kpt, says of a custom resource, and what Flux makes of health checks in CEL: their rules in Python.

The rules are those of `Compute` in pkg/kstatus/status (generic.go, status.go) of github.com/kubernetes-sigs/cli-utils, which are the same in Flux's copy of it,
github.com/fluxcd/cli-utils, and of `Evaluate` in runtime/cel/status_evaluator.go of github.com/fluxcd/pkg. Each branch is here in its order. What they look at for
kinds that they know by name is not: InferenceServices and NaiadProfiles are not among these.
"""

import collections.abc
import typing

import cel

Object = collections.abc.Mapping[str, typing.Any]

CURRENT, IN_PROGRESS, FAILED, TERMINATING = "Current", "InProgress", "Failed", "Terminating"
UNKNOWN = "Unknown"
"""What a reader of states reports when the rules end with an error; Flux waits then, too."""


def state(resource: Object) -> str:
    """What `Compute` says of a resource of a kind that it does not know."""
    return _of_generic_properties(resource) or _of_ready_condition(resource) or CURRENT


def _of_generic_properties(resource: Object) -> str:
    """`checkGenericProperties`; "" where it decides nothing."""
    if resource["metadata"].get("deletionTimestamp"):
        return TERMINATING
    if _is_behind(resource):
        return IN_PROGRESS
    for condition in _conditions(resource):  # the first of these two in the list decides
        if condition["type"] == "Reconciling" and condition["status"] == "True":
            return IN_PROGRESS
        if condition["type"] == "Stalled" and condition["status"] == "True":
            return FAILED
    return ""


def _is_behind(resource: Object) -> bool:
    """`checkGeneration`: only where both are there."""
    generation = resource["metadata"].get("generation")
    observed = (resource.get("status") or {}).get("observedGeneration")
    return generation is not None and observed is not None and observed != generation


def _of_ready_condition(resource: Object) -> str:
    """`checkReadyCondition`; "" where there is none, or its status is another word."""
    for condition in _conditions(resource):
        if condition["type"] == "Ready" and condition["status"] in ("True", "False", "Unknown"):
            return CURRENT if condition["status"] == "True" else IN_PROGRESS
    return ""


def _conditions(resource: Object) -> collections.abc.Iterable[Object]:
    found: collections.abc.Iterable[Object] = (resource.get("status") or {}).get("conditions") or ()
    return found


def evaluated(resource: Object, checks: collections.abc.Mapping[str, str]) -> str:
    """What Flux's `StatusEvaluator` says with a Kustomization's `healthCheckExprs`.

    Args:
        resource: the resource.
        checks: the expressions in CEL: `current`, and perhaps `failed` and `inProgress`.
    """
    if _is_behind(resource):
        return IN_PROGRESS
    for name, found in (("inProgress", IN_PROGRESS), ("failed", FAILED), ("current", CURRENT)):
        if name not in checks:
            continue
        try:
            holds = cel.evaluate(checks[name], dict(resource))
        except (RuntimeError, ValueError, KeyError, TypeError):  # e.g. no such key
            return UNKNOWN
        if holds is True:
            return found
    return IN_PROGRESS
