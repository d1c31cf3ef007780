"""OpenVINO models: the intermediate representation, and whatever else OpenVINO reads (ONNX, SavedModels, PaddlePaddle). Importing this imports OpenVINO.

A model version is compiled once; its instances share the compiled model, and each runs requests of its own in it.
"""

import collections.abc
import pathlib
from typing import Any

import numpy as np
import openvino
from openvino.preprocess import PrePostProcessor
from typing_extensions import override

from naiad.backends import batch as batches, reasons
from naiad.backends.backend import ModelSource
from naiad.backends.batch import Array, OutputRule
from naiad.backends.instance import Call, Execution, Instance, InstanceSpec, LoadedModel, Response
from naiad.backends.openvino.plugin import PLUGIN
from naiad.backends.openvino.settings import Settings, settings_of
from naiad.backends.plugin import BackendContext
from naiad.backends.ragged import batch_input_specs, output_rules, ragged_batches
from naiad.config import sequence_tensors
from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.core.clock import Clock
from naiad.errors import InferenceError, internal, invalid, unavailable

_NO_PARAMETERS: dict[str, Any] = {}

OPERATORS = (
    "name the library that has it in the parameter CPU_EXTENSION_PATH, convert the model again, or install a newer OpenVINO than "
    f"{openvino.__version__}"
)
"""What helps a model with an operator that OpenVINO does not know."""


def make(context: BackendContext) -> "OpenvinoBackend":
    """Make the backend."""
    return OpenvinoBackend(clock=context.clock)


class OpenvinoBackend:
    """The backend `openvino`."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock

    def load(self, source: ModelSource) -> "OpenvinoModel":
        """Load a model version."""
        return OpenvinoModel(source, clock=self._clock)


class OpenvinoModel(LoadedModel):
    """A model version, compiled.

    Raises:
        InferenceError: as `Backend.load`.
    """

    def __init__(self, source: ModelSource, *, clock: Clock) -> None:
        config = source.config
        self._config = config
        self._clock = clock
        self._settings = settings_of(config.name, config.parameters)
        path = PLUGIN.model_file(source.version_dir, config.default_model_filename)
        if not path.exists():
            raise unavailable(
                f"unable to find '{path}' for model '{config.name}': put the model there, or name it in default_model_filename"
            )
        try:
            self._compiled: Any = _compiled(path, config, self._settings)
        except InferenceError:
            raise
        except Exception as error:
            raise _not_loaded(config.name, error) from error

    @override
    def make_instance(self, spec: InstanceSpec) -> Instance:
        try:
            return OpenvinoInstance(
                spec.name, self._compiled, self._config, self._settings, clock=self._clock
            )
        except Exception as error:
            raise _not_loaded(self._config.name, error) from error

    @override
    def close(self) -> None:
        self._compiled = None


class OpenvinoInstance(Instance):
    """An instance: runs batches in an inference request of its own."""

    prefetches = True
    keeps_arrays = True  # the next run writes its results into the same memory

    def __init__(
        self, name: str, compiled: Any, config: ModelConfig, settings: Settings, *, clock: Clock
    ) -> None:
        self._name = name
        self._request: Any = compiled.create_infer_request()
        self._model = config.name
        self._fixed_rows = config.max_batch_size if settings.fixed_batch else 0
        self._padding = settings.padding
        self._now_ns = clock.monotonic_ns
        self._ragged = ragged_batches(config)
        outputs = sequence_tensors.model_outputs(config)
        self._rules = output_rules(config)
        self._output_names = [spec.name for spec in outputs]
        self._outputs = {spec.name: compiled.output(spec.name) for spec in outputs}
        self._scalars = [
            spec.name
            for spec in sequence_tensors.model_inputs(config)
            if compiled.input(spec.name).get_partial_shape().rank == 0
        ]

    @override
    def execute(self, batch: collections.abc.Sequence[Call]) -> Execution[Response]:
        """Run a batch.

        Raises:
            InferenceError: INTERNAL: the run failed, or the model gave what its config does not say; no request gets a response.
        """
        request, ragged = self._request, self._ragged
        assert request is not None, "closed"
        rows = sum(call.batch_size for call in batch)
        padding = self._padding_of(rows)
        inputs = [call.request.inputs for call in batch]
        feeds = batches.merge(inputs, padding) if ragged is None else ragged.merge(inputs)
        for name in self._scalars:
            # OpenVINO writes to a shared array without dimensions, and that of a request is not to be written to.
            feeds[name] = feeds[name].reshape(()).copy()
        input_end_ns = self._now_ns()
        try:
            results = request.infer(feeds, share_inputs=True, share_outputs=True)
        except Exception as error:
            raise batches.broken(
                f"OpenVINO execute failure: {reasons.explained(error)} (running model '{self._model}', instance '{self._name}')"
            ) from error
        output_start_ns = self._now_ns()
        outputs: list[tuple[OutputRule, Array]] = []
        for name in batches.wanted_names(batch, self._output_names):
            rule = self._rules[name]
            array = results[self._outputs[name]]
            if padding and not rule.scattered:
                array = array[:rows]
            outputs.append((rule, rule.checked(array, rows=rows, model=self._model)))
        parts = (
            batches.split(batch, outputs)
            if ragged is None
            else ragged.split(batch, inputs, outputs)
        )
        responses = [Response(each, _NO_PARAMETERS) for each in parts]
        return Execution(responses, input_end_ns, output_start_ns, padding)

    @override
    def ready(self) -> bool:
        return self._request is not None

    @override
    def close(self) -> None:
        self._request = None

    def _padding_of(self, rows: int) -> int:
        """How many rows a batch lacks, of a model that takes one number of them."""
        lacking = max(0, self._fixed_rows - rows)
        if lacking and not self._padding:
            raise batches.broken(
                f"expected requests with batch size '{self._fixed_rows}', got '{rows}'... this error can be avoided by setting "
                f"'ENABLE_BATCH_PADDING' parameter in model configuration to 'YES' at a performance cost (model '{self._model}')"
            )
        return lacking


def _not_loaded(model: str, error: Exception) -> InferenceError:
    reason = reasons.explained(error, operators=OPERATORS)
    return internal(f"unable to load model '{model}': {reason}")


def _compiled(path: pathlib.Path, config: ModelConfig, settings: Settings) -> Any:
    """The model, adapted to the config and compiled."""
    core = openvino.Core()
    if settings.extension:
        try:
            core.add_extension(settings.extension)
        except RuntimeError as error:
            raise invalid(
                f"unable to load model '{config.name}': CPU_EXTENSION_PATH '{settings.extension}': {reasons.said(error)}"
            ) from error
    if settings.device not in _available(core):
        raise invalid(
            f"unable to load model '{config.name}': TARGET_DEVICE '{settings.device}' is not there: OpenVINO has {', '.join(_available(core))}"
        )
    model = core.read_model(str(path))
    inputs = _by_name(model.inputs)
    outputs = _by_name(model.outputs)
    specs = (*sequence_tensors.model_inputs(config), *batch_input_specs(config))
    _check_names(config, "input", specs, inputs, count=len(model.inputs))
    _check_names(config, "output", sequence_tensors.model_outputs(config), outputs, count=None)
    adapting = PrePostProcessor(model)
    for spec in specs:
        adapting.input(spec.name).tensor().set_element_type(_element(spec))
    for spec in sequence_tensors.model_outputs(config):
        adapting.output(spec.name).tensor().set_element_type(_element(spec))
    model = adapting.build()
    if config.max_batch_size > 0 or settings.reshapes:
        shapes = {
            spec.name: _shape(spec, model.input(spec.name).get_partial_shape(), config, settings)
            for spec in config.inputs
            if not spec.ragged
        }
        model.reshape(shapes)
    return core.compile_model(model, settings.device, dict(settings.properties))


def _available(core: Any) -> list[str]:
    return [*core.available_devices, "AUTO", "MULTI", "HETERO"]


def _by_name(ports: collections.abc.Iterable[Any]) -> dict[str, Any]:
    return {name: port for port in ports for name in port.get_names()}


def _check_names(
    config: ModelConfig,
    side: str,
    specs: collections.abc.Sequence[TensorSpec],
    known: collections.abc.Mapping[str, Any],
    *,
    count: int | None,
) -> None:
    for spec in specs:
        if spec.name not in known:
            raise invalid(
                f"unexpected inference {side} '{spec.name}', allowed {side}s are: {', '.join(sorted(known))} (model '{config.name}')"
            )
    if count is not None and len(specs) != count:
        raise invalid(
            f"unable to load model '{config.name}', configuration expects {len(specs)} inputs, model provides {count}"
        )


def _element(spec: TensorSpec) -> Any:
    return openvino.Type(np.dtype(spec.datatype.dtype))


def _shape(spec: TensorSpec, shape: Any, config: ModelConfig, settings: Settings) -> Any:
    """The shape that an input gets: any number of rows, or max_batch_size of them, and the model's own dims or the config's."""
    dims = list(shape)
    own = spec.dims if spec.reshape is None else spec.reshape
    batched = config.max_batch_size > 0
    if settings.reshapes:
        dims = [*([dims[0]] if batched else []), *(openvino.Dimension(size) for size in own)]
    if batched:
        dims[0] = openvino.Dimension(config.max_batch_size if settings.fixed_batch else -1)
    return openvino.PartialShape(dims)
