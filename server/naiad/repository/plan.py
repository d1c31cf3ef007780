"""What to load: one plan per model, made of its folder and its config (rows 7.6, 7.20, 7.29, 7.40).

A plan holds either the versions to load and their config, or the reason why the model cannot be served.
"""

import collections
import collections.abc
import pathlib

import msgspec

from naiad.config.model_config import ModelConfig

DUPLICATE = "model appears in two or more repositories"


class VersionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One version to load."""

    config: ModelConfig
    version: int
    model_dir: pathlib.Path

    @property
    def version_dir(self) -> pathlib.Path:
        """The version's folder (row 7.39)."""
        return self.model_dir / str(self.version)


class ModelPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One model: either `versions` to load, or the `reason` why it cannot be served.

    Attributes:
        name: the folder's name.
        versions: ascending.
        reason: "" when it can be loaded; else shown in the index and the READY table.
        details: the same for a terminal: every problem with its line and caret; "" if the reason says all.
        failed_version: the version whose files are the reason; None if the config is.
    """

    name: str
    versions: tuple[VersionPlan, ...] = ()
    reason: str = ""
    details: str = ""
    failed_version: int | None = None


def without_duplicates(
    folders: collections.abc.Iterable[pathlib.Path],
) -> tuple[list[pathlib.Path], list[ModelPlan]]:
    """Split folders into those with a unique name, and failed plans for the others (row 7.6)."""
    by_name: dict[str, list[pathlib.Path]] = collections.defaultdict(list)
    for folder in folders:
        by_name[folder.name].append(folder)
    unique = [paths[0] for paths in by_name.values() if len(paths) == 1]
    refused = [
        ModelPlan(
            name=name,
            reason=DUPLICATE,
            details=f"{DUPLICATE}: {', '.join(str(path) for path in paths)}; rename or remove all but one",
        )
        for name, paths in by_name.items()
        if len(paths) > 1
    ]
    return unique, refused
