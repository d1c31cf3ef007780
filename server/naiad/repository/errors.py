"""The errors of the repository: requests for models that are not served (row 2.8) and loads that fail (7.11, 7.12). Pure."""

import collections.abc
import typing

from naiad.core.request import LATEST
from naiad.errors import ErrorCode, InferenceError, internal, invalid, not_found, unavailable
from naiad.repository.lifecycle import State
from naiad.repository.plan import ModelPlan
from naiad.repository.version import Version, VersionState

_LONGEST_NAME = 255
_LISTED_NAMES = 10

Versions = collections.abc.Mapping[int, Version[typing.Any] | VersionState]


class FilesChangedError(InferenceError):
    """A model was not loaded, because its files changed meanwhile: what was loaded may be half old.

    Args:
        message: as of every `InferenceError`.
        paths: the files.
    """

    def __init__(self, message: str, *, paths: frozenset[str]) -> None:
        super().__init__(ErrorCode.UNAVAILABLE, message)
        self.paths = paths


def unknown_model(name: str) -> str:
    """That there is no such model. A name that no folder can have is cut: it may be as long as a path."""
    shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
    return f"Request for unknown model: '{shown}' is not found"


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
    unknown = f"Request for unknown model: '{name}'"
    if plan is not None and (version == LATEST or not versions):
        return not_found(f"{unknown} has no available versions: {plan.reason}")
    if versions:
        return _absent_version(unknown, version, versions)
    known = sorted(ready)
    listed = ", ".join(known[:_LISTED_NAMES]) + (", …" if len(known) > _LISTED_NAMES else "")
    return not_found(
        unknown_model(name)
        + (f"; models that are ready: {listed}" if known else "; no model is ready")
    )


def _absent_version(unknown: str, version: int, versions: Versions) -> InferenceError:
    """A request for a version that is not READY, of a model that was loaded; `unknown` begins the message."""
    states = {
        number: entry.state.value + (f" ({entry.reason})" if entry.reason else "")
        for number, entry in sorted(versions.items())
    }
    if version == LATEST:
        reasons = "; ".join(f"version {number} is {state}" for number, state in states.items())
        return not_found(f"{unknown} has no available versions: {reasons}")
    if version not in versions:
        numbers = [number for number in states if versions[number].state is State.READY]
        ready = ", ".join(map(str, numbers)) or "none"
        return not_found(
            f"{unknown} version {version} is not found; versions that are ready: {ready}"
        )
    return unavailable(
        f"{unknown} version {version} is not at ready state: it is {states[version]}"
    )


def not_polled(name: str, reason: str) -> InferenceError:
    """A load of a model that is not in the repository, or whose config cannot be used."""
    return internal(f"failed to load '{name}', failed to poll from model repository: {reason}")


def failed_plan(plan: ModelPlan, *, serving: bool) -> InferenceError:
    """A load of a model that cannot be planned, because of its versions, its config, or its store."""
    if plan.may_pass:
        return unavailable(not_polled(plan.name, plan.reason).message)
    if plan.without_version or plan.with_models:
        return _failed(plan.name, plan.reason, serving=serving)
    if not plan.failed_versions:
        return not_polled(plan.name, plan.reason)
    return failed_load(plan.name, plan.failed_versions, serving=serving)


def failed_load(
    name: str,
    reasons: collections.abc.Mapping[int, str],
    *,
    serving: bool,
    state: State = State.UNAVAILABLE,
) -> InferenceError:
    """A load that failed.

    Args:
        name: the model.
        reasons: why each version failed, by its number.
        serving: whether the versions that were loaded before go on serving.
        state: of the versions that failed; READY for one that failed to change.
    """
    failures = "".join(
        f"version {number} is at {state.value} state: {reason};"
        for number, reason in reasons.items()
    )
    return _failed(name, failures, serving=serving)


def _failed(name: str, reason: str, *, serving: bool) -> InferenceError:
    return invalid(
        f"load failed for model '{name}': {reason}"
        + (" What was loaded before goes on serving." if serving else "")
    )
