"""The JSON of the loads in progress, for `GET /v2/repository/progress` and the metrics port's `/status`. Pure."""

import collections.abc
import typing

from naiad.repository.loading.progress import LoadProgress

_MS_DIGITS = 3


def load_progress(loads: collections.abc.Iterable[LoadProgress]) -> dict[str, typing.Any]:
    """The loads, in the order in which they are given."""
    return {"loads": [_entry(load) for load in loads]}


def _entry(load: LoadProgress) -> dict[str, typing.Any]:
    """A member that is not known is left out: the version before the config is read, bytes of a model that is not fetched."""
    entry: dict[str, typing.Any] = {"name": load.name}
    if load.version is not None:
        entry["version"] = str(load.version)
    entry["phase"] = load.phase.value
    if load.bytes_done or load.bytes_total:
        entry["bytes_done"] = load.bytes_done
    if load.bytes_total:
        entry["bytes_total"] = load.bytes_total
    if load.warmups_total:
        entry["warmups_begun"] = load.warmups_begun
        entry["warmups_total"] = load.warmups_total
    entry["elapsed_seconds"] = round(load.elapsed_seconds, _MS_DIGITS)
    if load.reason:
        entry["reason"] = load.reason
    return entry
