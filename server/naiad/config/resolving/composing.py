"""An ensemble and the models of its steps: whether they agree, and the config of the ensemble that follows (rows 14.2, 14.4, 14.5, 14.10). Pure.

Messages begin with the reference's words; `Disagreement.suggestion` says more.
"""

import collections.abc
from typing import Any

import msgspec

from naiad.config.document import FieldPath
from naiad.config.input_device import input_device
from naiad.config.labels import Labels, inherited
from naiad.config.model_config import ComposingModel, EnsembleStep, ModelConfig, TensorSpec

LATEST = -1

Loaded = collections.abc.Mapping[str, collections.abc.Mapping[int, ModelConfig]]
"""The configs of the versions of models that are loaded, by name and version."""


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, and with which field of the ensemble's config."""

    path: FieldPath
    message: str
    suggestion: str = ""

    @property
    def text(self) -> str:
        """All of it on one line."""
        return f"{self.message}. {self.suggestion}" if self.suggestion else self.message


class _Seen(msgspec.Struct, frozen=True):
    """The type and the shape of a tensor, as a model has them."""

    model: str
    datatype: str
    dims: tuple[int, ...]
    batched: bool

    @property
    def full(self) -> tuple[int, ...]:
        """With the batch dimension."""
        return (-1, *self.dims) if self.batched else self.dims


def not_available(name: str, models: collections.abc.Iterable[str]) -> str:
    """Why an ensemble cannot be served: models of its steps are in no repository, or in several."""
    return (
        f"ensemble {name} contains models that are not available or ambiguous: {', '.join(sorted(models))}. "
        "Each model of a step must be in a model repository, and in one only"
    )


def not_loaded(name: str, model: str, reason: str) -> str:
    """Why an ensemble cannot be served: a model of its steps cannot."""
    return (
        f"ensemble '{name}' depends on '{model}' which has no loaded version. "
        f"Model '{model}' loading failed with error: {reason}"
    )


def circular(cycle: collections.abc.Sequence[str], name: str, model: str) -> str:
    """Why an ensemble cannot be served: its step of `model` would need itself."""
    return (
        f"circular dependency between ensembles: {' -> '.join((*cycle, cycle[0]))}: "
        f"take the step of model '{model}' out of ensemble '{name}', or give it another model"
    )


def bound(config: ModelConfig, loaded: Loaded) -> tuple[ModelConfig, list[Disagreement]]:
    """The config of an ensemble with what it takes over from the models of its steps; and why it cannot be served with them, if so.

    Args:
        config: without problems of its own.
        loaded: every model of its steps has a version here.
    """
    return _Binding(config, loaded).run()


def missing_versions(config: ModelConfig, loaded: Loaded) -> list[Disagreement]:
    """The versions of models that steps ask for and that are not loaded (row 14.3)."""
    assert config.ensemble is not None, "it is an ensemble"
    found: list[Disagreement] = []
    for index, step in enumerate(config.ensemble.steps):
        there = loaded.get(step.model, {})
        if not there or step.version == LATEST or step.version in there:
            continue
        versions = ", ".join(map(str, sorted(there)))
        found.append(
            Disagreement(
                path=("ensemble_scheduling", "step", index, "model_version"),
                message=f"ensemble '{config.name}' depends on '{step.model}' whose required version {step.version} is not loaded",
                suggestion=f"step {index}: write model_version: -1 for the latest one, or one of {versions}",
            )
        )
    return found


class _Binding:
    def __init__(self, config: ModelConfig, loaded: Loaded) -> None:
        assert config.ensemble is not None, "it is an ensemble"
        self._config = config
        self._ensemble = config.ensemble
        self._loaded = loaded
        self._wrong: list[Disagreement] = []
        batched = config.max_batch_size > 0
        self._tensors = {
            spec.name: _seen(config.name, spec, spec.reshape or spec.dims, batched=batched)
            for spec in (*config.outputs, *config.inputs)
        }

    def run(self) -> tuple[ModelConfig, list[Disagreement]]:
        self._wrong += missing_versions(self._config, self._loaded)
        steps: list[EnsembleStep] = []
        labels: list[Labels] = []
        for index, step in enumerate(self._ensemble.steps):
            versions = self._loaded[step.model]
            model = versions.get(step.version) or versions[max(versions)]
            self._check_batch(index, step, model)
            self._check_inputs(index, step, model)
            self._check_outputs(index, step, model)
            steps.append(msgspec.structs.replace(step, composing=_composing(model)))
            labels.append(model.labels)
        decoupled = self._check_streams(steps)
        ensemble = msgspec.structs.replace(self._ensemble, steps=tuple(steps))
        message: Any = type(self._config.message)()
        message.CopyFrom(self._config.message)
        message.model_transaction_policy.decoupled = decoupled
        config = msgspec.structs.replace(
            self._config,
            ensemble=ensemble,
            decoupled=decoupled,
            message=message,
            labels=inherited(
                (spec.name for spec in self._config.outputs),
                self._config.labels,
                zip((step.outputs for step in steps), labels, strict=True),
            ),
        )
        return config, self._wrong

    def _add(self, path: FieldPath, message: str, suggestion: str) -> None:
        self._wrong.append(
            Disagreement(
                path=("ensemble_scheduling", "step", *path), message=message, suggestion=suggestion
            )
        )

    def _check_batch(self, index: int, step: EnsembleStep, model: ModelConfig) -> None:
        limit, allowed = self._config.max_batch_size, model.max_batch_size
        if allowed and allowed < limit:
            self._add(
                (index, "model_name"),
                f"ensemble {self._config.name} allows maximum batch size {limit}, but it contains model {step.model} "
                f"which only allows maximum batch size to be {allowed}",
                f"step {index}: write max_batch_size: {allowed} for the ensemble, or {limit} for the model",
            )

    def _check_inputs(self, index: int, step: EnsembleStep, model: ModelConfig) -> None:
        specs = {spec.name: spec for spec in model.inputs}
        for name, tensor in step.inputs.items():
            spec = specs.get(name)
            if spec is None:
                self._add(
                    (index, "input_map", name),
                    f"in ensemble {self._config.name}, ensemble tensor {tensor} is mapping to non-existing input {name} in model {step.model}",
                    f"step {index}: its inputs are {_names(specs)}",
                )
            else:
                self._agree((index, "input_map", name), tensor, spec, model)
        for name, spec in specs.items():
            if name not in step.inputs and not spec.optional:
                self._add(
                    (index, "input_map"),
                    f"in ensemble {self._config.name}, input {name} in model {step.model} is not mapped to any ensemble tensors",
                    f'step {index}: add input_map {{ key: "{name}" value: "a tensor of the ensemble" }}',
                )

    def _check_outputs(self, index: int, step: EnsembleStep, model: ModelConfig) -> None:
        specs = {spec.name: spec for spec in model.outputs}
        for name, tensor in step.outputs.items():
            spec = specs.get(name)
            if spec is None:
                self._add(
                    (index, "output_map", name),
                    f"in ensemble {self._config.name}, ensemble tensor {tensor} is mapped from non-existing output {name} in model {step.model}",
                    f"step {index}: its outputs are {_names(specs)}",
                )
            else:
                self._agree((index, "output_map", name), tensor, spec, model)

    def _agree(self, path: FieldPath, tensor: str, spec: TensorSpec, model: ModelConfig) -> None:
        """The type and shape of a tensor are those that the models before have; a dimension of -1 fits any."""
        now = _seen(model.name, spec, spec.dims, batched=model.max_batch_size > 0)
        before = self._tensors.setdefault(tensor, now)
        prefix = f"in ensemble {self._config.name}, ensemble tensor {tensor}: "
        where = f"step {path[0]}: '{spec.name}' of model '{model.name}'"
        if before.datatype != now.datatype:
            self._add(
                path,
                f"{prefix}inconsistent data type: {before.datatype} is inferred from model {before.model} while "
                f"{now.datatype} is inferred from model {now.model}",
                f"{where} must have the other's data_type, or another tensor",
            )
        elif not (_fits(before.dims, now.dims) or _fits(before.full, now.full)):
            self._add(
                path,
                f"{prefix}inconsistent shape: {_shown(before.full)} is inferred from model {before.model} while "
                f"{_shown(now.full)} is inferred from model {now.model}",
                f"{where} must have the other's dims, -1 where they vary",
            )

    def _check_streams(self, steps: list[EnsembleStep]) -> bool:
        """Whether the ensemble is decoupled: its outputs come from the responses of a decoupled model. A step cannot join those of two."""
        streams = dict.fromkeys((spec.name for spec in self._config.inputs), 0)
        count = 0
        waiting = dict(enumerate(steps))
        while runnable := [
            index for index, step in waiting.items() if streams.keys() >= set(step.inputs.values())
        ]:
            for index in runnable:
                step = waiting.pop(index)
                stream = self._one_stream((index,), step.model, step.inputs.values(), streams)
                if step.composing is not None and step.composing.decoupled:
                    count += 1
                    stream = count
                for tensor in step.outputs.values():
                    streams.setdefault(tensor, stream)
        outputs = [spec.name for spec in self._config.outputs]
        self._one_stream((), self._config.name, outputs, streams)
        return count > 0

    def _one_stream(
        self,
        path: FieldPath,
        model: str,
        tensors: collections.abc.Iterable[str],
        streams: collections.abc.Mapping[str, int],
    ) -> int:
        found = {tensor: streams[tensor] for tensor in tensors if tensor in streams}
        if len(set(found.values())) > 1:
            by_stream = "; ".join(
                ", ".join(f"'{tensor}'" for tensor, stream in found.items() if stream == each)
                for each in sorted(set(found.values()))
            )
            self._add(
                path,
                f"in ensemble {self._config.name}, step of model '{model}' receives inputs originated from different decoupled models",
                f"how many values each of these has is not the same: {by_stream}. Let the decoupled model pass on what is needed beside its own outputs",
            )
        return max(found.values(), default=0)


def _composing(model: ModelConfig) -> ComposingModel:
    return ComposingModel(
        max_batch_size=model.max_batch_size,
        decoupled=model.decoupled,
        dims={spec.name: spec.dims for spec in model.inputs},
        optional=frozenset(spec.name for spec in model.inputs if spec.optional),
        input_device=input_device(model),
    )


def _seen(model: str, spec: TensorSpec, dims: tuple[int, ...], *, batched: bool) -> _Seen:
    return _Seen(model, spec.datatype.config_name, dims, batched and not spec.is_shape_tensor)


def _fits(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(one) == len(other) and all(
        a == b or -1 in (a, b) for a, b in zip(one, other, strict=True)
    )


def _shown(dims: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, dims))}]"


def _names(names: collections.abc.Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
