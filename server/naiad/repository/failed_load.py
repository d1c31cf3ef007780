"""What a load is told that fails (rows 7.11, 7.12). Pure."""

import collections.abc

from naiad.errors import InferenceError, internal, invalid
from naiad.repository.lifecycle import State
from naiad.repository.plan import ModelPlan


def not_polled(name: str, reason: str) -> InferenceError:
    """There is no such model, or its config cannot be used."""
    return internal(f"failed to load '{name}', failed to poll from model repository: {reason}")


def unusable(plan: ModelPlan, *, serving: bool) -> InferenceError:
    """A model without a plan: a version of it is at fault, or else its config."""
    if plan.failed_version is None:
        return not_polled(plan.name, plan.reason)
    return failed(plan.name, {plan.failed_version: plan.reason}, serving=serving)


def failed(
    name: str, reasons: collections.abc.Mapping[int, str], *, serving: bool
) -> InferenceError:
    """Versions that did not load, each with its reason; `serving`: whether what was loaded before serves on."""
    said = "".join(
        f"version {number} is at {State.UNAVAILABLE.value} state: {reason};"
        for number, reason in reasons.items()
    )
    return invalid(
        f"load failed for model '{name}': {said}"
        + (" What was loaded before goes on serving." if serving else "")
    )
