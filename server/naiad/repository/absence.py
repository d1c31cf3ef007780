"""What a request is told whose model is not served (row 2.8). Pure."""

import collections.abc
import typing

from naiad.core.request import LATEST
from naiad.errors import InferenceError, not_found, unavailable
from naiad.repository.lifecycle import State
from naiad.repository.version import Version, VersionState

_A_LINE_OF_NAMES = 10

Versions = collections.abc.Mapping[int, Version[typing.Any] | VersionState]


def unknown_model(name: str, ready: collections.abc.Iterable[str]) -> InferenceError:
    """Nobody has heard of the model."""
    known = sorted(ready)
    listed = ", ".join(known[:_A_LINE_OF_NAMES]) + (", …" if len(known) > _A_LINE_OF_NAMES else "")
    return not_found(
        f"Request for unknown model: '{name}' is not found"
        + (f"; models that are ready: {listed}" if known else "; no model is ready")
    )


def unplanned_model(name: str, reason: str) -> InferenceError:
    """The model could not even be planned."""
    return not_found(f"Request for unknown model: '{name}' has no available versions: {reason}")


def absent_version(name: str, version: int, versions: Versions) -> InferenceError:
    """The model is known, and what was asked for of it is not served."""
    if version == LATEST:
        reasons = "; ".join(
            f"version {number} is {entry.state.value}"
            + (f" ({entry.reason})" if entry.reason else "")
            for number, entry in sorted(versions.items())
        )
        return not_found(
            f"Request for unknown model: '{name}' has no available versions: {reasons}"
        )
    entry = versions.get(version)
    if entry is None:
        numbers = sorted(n for n, each in versions.items() if each.state is State.READY)
        ready = ", ".join(map(str, numbers)) or "none"
        return not_found(
            f"Request for unknown model: '{name}' version {version} is not found; versions that are ready: {ready}"
        )
    return unavailable(
        f"Request for unknown model: '{name}' version {version} is not at ready state: it is {entry.state.value}"
        + (f" ({entry.reason})" if entry.reason else "")
    )
