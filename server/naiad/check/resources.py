"""Checks what instances need of the rate limiter's resources, of all models together: the server registers them at each load (row 14.19). Pure."""

import collections.abc
import dataclasses

from naiad.backends.backend import instance_specs
from naiad.check.checked_model import Checked
from naiad.config.document import FieldPath
from naiad.config.model_config import ModelConfig
from naiad.errors import InferenceError
from naiad.scheduling.rate_limiter.amounts import ResourceTable
from naiad.scheduling.rate_limiter.keys import ExplicitAmounts


def check_resources(
    models: collections.abc.Iterable[Checked], explicit: ExplicitAmounts
) -> list[Checked]:
    """The models that were checked, and which of them could never have their resources; those that come first take precedence.

    Args:
        models: of all repositories.
        explicit: `--rate-limit-resource`.
    """
    table = ResourceTable(explicit)
    return [_checked(model, table) for model in models]


def _checked(model: Checked, table: ResourceTable) -> Checked:
    config = model.resolution.config
    if config is None or model.problems:
        return model
    try:
        table.register(instance_specs(config))
    except InferenceError as error:
        problem = model.resolution.document.problem(_refused(config, table), error.message)
        return dataclasses.replace(model, problems=(*model.problems, problem))
    return model


def _refused(config: ModelConfig, table: ResourceTable) -> FieldPath:
    """The rate limiter of the first instance group that is refused by itself; else of the first one that has any."""
    first: FieldPath | None = None
    for index, group in enumerate(config.instance_groups):
        field = ("instance_group", index, "rate_limiter")
        if first is None and group.resources:
            first = field
        specs = instance_specs(_only(config, index))
        try:
            table.register(specs)
        except InferenceError:
            return field
        table.unregister(specs)
    return first or ()


def _only(config: ModelConfig, index: int) -> ModelConfig:
    """The config with one of its instance groups."""
    return config.with_groups(config.instance_groups[index : index + 1])
