"""The errors of the repository: requests for models that are not served (row 2.8) and loads that fail (7.11, 7.12). Pure."""

import collections.abc
import typing

from naiad.core.request import LATEST
from naiad.errors import InferenceError, internal, invalid, not_found, unavailable
from naiad.repository.lifecycle import State
from naiad.repository.plan import ModelPlan
from naiad.repository.version import Version, VersionState

_LISTED_NAMES = 10

Versions = collections.abc.Mapping[int, Version[typing.Any] | VersionState]


def not_served(
    name: str,
    version: int,
    versions: Versions,
    *,
    plan: ModelPlan | None,
    ready: collections.abc.Iterable[str],
) -> InferenceError:
    """A request for a model or version that is not READY.

    Args:
        name: the model.
        version: the version, or LATEST.
        versions: what is known of the model's versions, loaded and unloaded.
        plan: why the model's config cannot be used; None when it can, or when there is no such model.
        ready: the models that are READY.
    """
    if versions:
        return _absent_version(name, version, versions)
    if plan is not None:
        return _unplanned_model(name, plan.reason)
    return _unknown_model(name, ready)


def _unknown_model(name: str, ready: collections.abc.Iterable[str]) -> InferenceError:
    """A request for a model that was never loaded; `ready`: the models that are."""
    known = sorted(ready)
    listed = ", ".join(known[:_LISTED_NAMES]) + (", …" if len(known) > _LISTED_NAMES else "")
    return not_found(
        f"Request for unknown model: '{name}' is not found"
        + (f"; models that are ready: {listed}" if known else "; no model is ready")
    )


def _unplanned_model(name: str, reason: str) -> InferenceError:
    """A request for a model whose config cannot be used."""
    return not_found(f"Request for unknown model: '{name}' has no available versions: {reason}")


def _absent_version(name: str, version: int, versions: Versions) -> InferenceError:
    """A request for a version that is not READY, of a model that was loaded."""
    if version == LATEST:
        reasons = "; ".join(
            f"version {number} is {entry.state.value}"
            + (f" ({entry.reason})" if entry.reason else "")
            for number, entry in sorted(versions.items())
        )
        return not_found(
            f"Request for unknown model: '{name}' has no available versions: {reasons}"
        )
    requested = versions.get(version)
    if requested is None:
        numbers = sorted(n for n, entry in versions.items() if entry.state is State.READY)
        ready = ", ".join(map(str, numbers)) or "none"
        return not_found(
            f"Request for unknown model: '{name}' version {version} is not found; versions that are ready: {ready}"
        )
    return unavailable(
        f"Request for unknown model: '{name}' version {version} is not at ready state: it is {requested.state.value}"
        + (f" ({requested.reason})" if requested.reason else "")
    )


def not_polled(name: str, reason: str) -> InferenceError:
    """A load of a model that is not in the repository, or whose config cannot be used."""
    return internal(f"failed to load '{name}', failed to poll from model repository: {reason}")


def failed_plan(plan: ModelPlan, *, serving: bool) -> InferenceError:
    """A load of a model that cannot be planned, because of the files of one version or because of its config."""
    if plan.failed_version is None:
        return not_polled(plan.name, plan.reason)
    return failed_load(plan.name, {plan.failed_version: plan.reason}, serving=serving)


def failed_load(
    name: str, reasons: collections.abc.Mapping[int, str], *, serving: bool
) -> InferenceError:
    """A load that failed.

    Args:
        name: the model.
        reasons: why each version failed, by its number.
        serving: whether the versions that were loaded before go on serving.
    """
    failures = "".join(
        f"version {number} is at {State.UNAVAILABLE.value} state: {reason};"
        for number, reason in reasons.items()
    )
    return invalid(
        f"load failed for model '{name}': {failures}"
        + (" What was loaded before goes on serving." if serving else "")
    )
