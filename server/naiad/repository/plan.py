"""What to load: one plan per model, made of its folder and its config (rows 7.6, 7.20, 7.29, 7.40). Pure.

A plan holds either the versions to load and their config, or the reason why the model cannot be served. A reload loads those versions of a
plan that have changed.
"""

import collections
import collections.abc
import pathlib
import types
import typing

import msgspec

from naiad.config.model_config import ModelConfig
from naiad.repository.polling.fingerprint import Fingerprint
from naiad.repository.store import StoredModel

if typing.TYPE_CHECKING:
    from naiad.repository.agents.session import AgentSession

DUPLICATE = "model appears in two or more repositories"


class VersionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One version to load.

    Attributes:
        fault: why it cannot be loaded, as its file says; "" as far as that is known.
        remark: what the index shows of it once it is READY; "" for nothing.
        strategy: the file of its batching strategy; None without one.
    """

    config: ModelConfig
    version: int
    model_dir: pathlib.Path
    fault: str = ""
    remark: str = ""
    strategy: pathlib.Path | None = None

    @property
    def version_dir(self) -> pathlib.Path:
        """The folder of the version (row 7.39)."""
        return self.model_dir / str(self.version)


class ModelPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One model: either `versions` to load, or the `reason` why it cannot be served.

    Attributes:
        name: the folder's name.
        versions: ascending.
        reason: "" when it can be loaded; else shown in the index and the READY table.
        details: the same for a terminal: every problem with its line and caret; "" if the reason says all.
        failed_versions: why each version would fail to load, if that is the reason; empty if the config is.
        without_version: the reason is that the version policy selects none.
        agents: the repository agents of this load; None without any.
        may_pass: the reason is not the model but its store, which did not respond.
        with_models: the reason lies between an ensemble and the models of its steps.
    """

    name: str
    versions: tuple[VersionPlan, ...] = ()
    reason: str = ""
    details: str = ""
    failed_versions: collections.abc.Mapping[int, str] = types.MappingProxyType({})
    without_version: bool = False
    agents: "AgentSession | None" = None
    may_pass: bool = False
    with_models: bool = False


def without_duplicates(
    models: collections.abc.Iterable[StoredModel],
) -> tuple[list[StoredModel], list[ModelPlan]]:
    """Split models into those with a unique name, and failed plans for the others (row 7.6)."""
    by_name: dict[str, list[StoredModel]] = collections.defaultdict(list)
    for model in models:
        by_name[model.name].append(model)
    unique = [same[0] for same in by_name.values() if len(same) == 1]
    refused = [
        ModelPlan(
            name=name,
            reason=DUPLICATE,
            details=f"{DUPLICATE}: {', '.join(model.location for model in same)}; rename or remove all but one",
        )
        for name, same in by_name.items()
        if len(same) > 1
    ]
    return unique, refused


class LoadedFrom(msgspec.Struct, frozen=True):
    """What a model was loaded from: equal when neither its place nor its files have changed."""

    model: StoredModel
    fingerprint: Fingerprint


def untouched(
    plans: collections.abc.Iterable[VersionPlan],
    serving: collections.abc.Mapping[int, VersionPlan],
    *,
    before: LoadedFrom | None,
    now: LoadedFrom,
) -> frozenset[int]:
    """The versions that a reload does not load again: what they were loaded from has not changed (rows 7.21, 7.22, 7.24, 7.25).

    A version depends on its own folder, on what all versions share (files and folders other than versions), and on the
    config; a config file that was rewritten with the same meaning is not a change, and other instances need no reload.

    Args:
        plans: the versions to serve.
        serving: the versions that serve now, by number.
        before: what they were loaded from; None if that is not known.
        now: what the plans were made from.
    """
    if before is None or before.model != now.model:
        return frozenset()
    old_files, files = before.fingerprint, now.fingerprint
    if _shared(old_files) != _shared(files):
        return frozenset()
    return frozenset(
        plan.version
        for plan in plans
        if (old := serving.get(plan.version)) is not None
        and not old.config.needs_reload_for(plan.config)
        and old_files.get(str(plan.version)) == files.get(str(plan.version))
    )


def _shared(files: Fingerprint) -> Fingerprint:
    return {
        name: entry_files
        for name, entry_files in files.items()
        if not name.isdecimal() and name != "configs" and not name.endswith(".pbtxt")
    }
