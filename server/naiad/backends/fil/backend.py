"""Forests of decision trees: XGBoost, LightGBM and treelite's checkpoints, computed by treelite on the CPU. Importing this imports treelite.

Names, parameters and answers are those of Triton's fil backend. A model version is loaded once, and its instances share it: treelite only reads it.
"""

import collections.abc
import itertools
from typing import Any

import numpy as np
import treelite
from typing_extensions import override

from naiad.backends import batch as batches, reasons
from naiad.backends.backend import ModelSource
from naiad.backends.fil import loading
from naiad.backends.fil.answers import Make, maker
from naiad.backends.fil.forest import (
    INPUT,
    OUTPUT,
    SHAP,
    Forest,
    check_outputs,
    check_servable,
    is_classifier,
    signature,
)
from naiad.backends.fil.plugin import PLUGIN
from naiad.backends.fil.settings import Settings, settings_of
from naiad.backends.fil.shapley.explaining import Explain, shapley_values
from naiad.backends.instance import Call, Execution, Instance, InstanceSpec, LoadedModel, Response
from naiad.backends.plugin import BackendContext
from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.core.clock import Clock
from naiad.errors import invalid, unavailable

_NO_PARAMETERS: dict[str, Any] = {}
_NONE = np.zeros(0, np.float32)

SMALL = 1 << 15
"""Rows times trees up to which one thread computes a batch: about 2 ms of work, of which threads that have to be woken up first take little away."""


def make(context: BackendContext) -> "FilBackend":
    """Make the backend."""
    return FilBackend(clock=context.clock)


class FilBackend:
    """The backend `fil`."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock

    def load(self, source: ModelSource) -> "ForestModel":
        """Load a model version."""
        return ForestModel(source, clock=self._clock)


class ForestModel(LoadedModel):
    """A model version, loaded by treelite.

    Raises:
        InferenceError: as `Backend.load`.
    """

    def __init__(self, source: ModelSource, *, clock: Clock) -> None:
        config = source.config
        self._config = config
        self._clock = clock
        path = PLUGIN.model_file(source.version_dir, config.default_model_filename)
        self._settings = settings_of(config.name, config.parameters, path.name)
        if not path.exists():
            raise unavailable(
                f"unable to find '{path}' for model '{config.name}': put the model there, or name it in default_model_filename"
            )
        self._trees: Any = loading.load(path, self._settings, config.name)
        self._forest = loading.forest_of(self._trees)
        check_servable(self._forest, config.name)
        check_outputs(config.message)
        _check_tensors(config, self._forest, self._settings)
        self._threads = _threads(self._trees, self._forest, self._settings.threads)
        explained = any(spec.name == SHAP for spec in config.outputs)
        self._shapley = shapley_values(self._trees, config.name) if explained else None

    @override
    def make_instance(self, spec: InstanceSpec) -> Instance:
        return ForestInstance(
            spec.name,
            self._trees,
            self._forest,
            self._config,
            self._settings,
            threads=self._threads,
            shapley=self._shapley,
            clock=self._clock,
        )

    @override
    def close(self) -> None:
        self._trees = self._shapley = None


class ForestInstance(Instance):
    """An instance: runs batches, one at a time, in the model that all instances share."""

    prefetches = True

    def __init__(
        self,
        name: str,
        trees: Any,
        forest: Forest,
        config: ModelConfig,
        settings: Settings,
        *,
        threads: int,
        shapley: Explain | None,
        clock: Clock,
    ) -> None:
        self._name = name
        self._trees: Any = trees
        self._model = config.name
        self._count = max(1, trees.num_tree)
        self._threads = threads
        self._now_ns = clock.monotonic_ns
        self._shapley = shapley
        self._names = [spec.name for spec in config.outputs]
        output = next(spec for spec in config.outputs if spec.name == OUTPUT)
        self._make: Make = maker(
            settings,
            classifier=is_classifier(forest, settings),
            classes=forest.classes,
            columns=output.dims[-1],
        )

    @override
    def execute(self, batch: collections.abc.Sequence[Call]) -> Execution[Response]:
        """Run a batch.

        Raises:
            InferenceError: INTERNAL: treelite failed; no request gets a response.
        """
        assert self._trees is not None, "closed"
        wanted = batches.wanted_names(batch, self._names)
        rows = batches.merge([call.request.inputs for call in batch])[INPUT]
        input_end_ns = self._now_ns()
        columns: dict[str, list[batches.Array]] = {}
        if SHAP in wanted:
            columns[SHAP] = self._shares(batch, rows)
        scores = self._scores(rows) if OUTPUT in wanted else None
        output_start_ns = self._now_ns()
        if scores is not None:
            columns[OUTPUT] = batches.rows_of(batch, self._make(scores[:, 0]))
        parts = batches.distribute(batch, [(name, "FP32", columns[name]) for name in wanted])
        return Execution(
            [Response(each, _NO_PARAMETERS) for each in parts], input_end_ns, output_start_ns
        )

    def _scores(self, rows: batches.Array) -> batches.Array:
        threads = 1 if len(rows) * self._count <= SMALL else self._threads
        try:
            return np.asarray(treelite.gtil.predict(self._trees, rows, nthread=threads))
        except treelite.TreeliteError as error:
            raise batches.broken(
                f"treelite failed: {reasons.explained(error)} (running model '{self._model}', instance '{self._name}')"
            ) from error

    def _shares(
        self, batch: collections.abc.Sequence[Call], rows: batches.Array
    ) -> list[batches.Array]:
        """The Shapley values of each request; those that do not ask for them get none, because they may take longer than everything else."""
        shapley = self._shapley
        assert shapley is not None, "no output of the config"
        asks = [
            not call.request.requested_outputs or SHAP in call.request.output_names
            for call in batch
        ]
        if all(asks):
            return batches.rows_of(batch, shapley(rows))
        asking = list(itertools.compress(batch, asks))
        theirs = batches.merge([call.request.inputs for call in asking])[INPUT]
        parts = iter(batches.rows_of(asking, shapley(theirs)))
        return [next(parts) if each else _NONE for each in asks]

    @override
    def ready(self) -> bool:
        return self._trees is not None

    @override
    def close(self) -> None:
        self._trees = None


def _threads(trees: Any, forest: Forest, wanted: int) -> int:
    """As many threads as the config wants, or all, -1, where this machine has fewer: treelite fails every batch that wants more than OpenMP has."""
    if wanted < 1:
        return wanted
    row = np.zeros((1, forest.features), np.float32)
    try:
        treelite.gtil.predict(trees, row, nthread=wanted)
    except treelite.TreeliteError:
        return -1
    return wanted


def _check_tensors(config: ModelConfig, forest: Forest, settings: Settings) -> None:
    """Hold the config against the loaded model; mostly its file has said the same before (`preflight`).

    Raises:
        InferenceError: INVALID_ARG: other tensors, a wrong number of features or of values.
    """
    tensors = signature(config.message, forest, settings)
    begin = 1 if config.max_batch_size > 0 else 0
    for side, specs, expected in (
        ("input", config.inputs, tensors.inputs),
        ("output", config.outputs, tensors.outputs),
    ):
        dims = {tensor.name: list((tensor.shape or ())[begin:]) for tensor in expected}
        if sorted(spec.name for spec in specs) != sorted(dims) or not all(
            _fits(spec, dims[spec.name]) for spec in specs
        ):
            takes = ", ".join(f"'{name}' of TYPE_FP32 with dims {dims[name]}" for name in dims)
            raise invalid(
                f"unable to load model '{config.name}': it takes {'one ' if len(dims) == 1 else ''}{side}{'s' * (len(dims) > 1)}, {takes}, and its config says "
                + (", ".join(_shown(each) for each in specs) or "nothing")
            )


def _fits(spec: TensorSpec, dims: list[int]) -> bool:
    return (
        spec.datatype.dtype == np.float32
        and len(spec.dims) == len(dims)
        and list(spec.dims)[-1:] == dims[-1:]
        and all(theirs in (-1, ours) for theirs, ours in zip(spec.dims, dims, strict=True))
    )


def _shown(spec: TensorSpec) -> str:
    return f"'{spec.name}' of {spec.datatype.config_name} with dims {list(spec.dims)}"
