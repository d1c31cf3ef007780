"""An instance of a PyTorch model: one batch after the other through its program, on its device."""

import collections.abc
from typing import Any

import torch
from typing_extensions import override

from naiad.backends import batch as batches, reasons, text
from naiad.backends.batch import Array, OutputRule
from naiad.backends.instance import Call, Execution, InputTensor, Instance, Response
from naiad.backends.pytorch.devices import Device
from naiad.backends.pytorch.program import Program, inference
from naiad.backends.pytorch.settings import Settings
from naiad.backends.ragged import output_rules, ragged_batches
from naiad.config import sequence_tensors
from naiad.config.model_config import ModelConfig
from naiad.core import datatypes
from naiad.core.clock import Clock
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.tensors.device_array import DeviceArray

_NO_PARAMETERS: dict[str, Any] = {}


class PytorchInstance(Instance):
    """Implements `Instance`."""

    prefetches = True
    # A model may go on writing to a tensor that it returned, such as a buffer of its own.
    keeps_arrays = True

    def __init__(
        self,
        name: str,
        program: Program,
        device: Device,
        *,
        config: ModelConfig,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._name = name
        self._program: Program | None = program
        self._device = device
        self._settings = settings
        self._now_ns = clock.monotonic_ns
        self._model = config.name
        outputs = sequence_tensors.model_outputs(config)
        self._output_names = [spec.name for spec in outputs]
        self._ragged = ragged_batches(config)
        self._rules = output_rules(config)
        self._has_text = any(
            spec.datatype is datatypes.BYTES for spec in sequence_tensors.model_inputs(config)
        )

    @override
    def execute(self, batch: collections.abc.Sequence[Call]) -> Execution[Response]:
        """Run a batch. A request whose text is not UTF-8 fails alone, before the run.

        Raises:
            InferenceError: INTERNAL: the run failed, or the model gave what its config does not say; no request gets a response.
        """
        if not self._has_text:
            return self._execute(batch, [call.request.inputs for call in batch])
        return text.execute_decoded(
            batch, self._execute, of="strings of TorchScript", now_ns=self._now_ns
        )

    @override
    def ready(self) -> bool:
        return self._program is not None

    @override
    def close(self) -> None:
        self._program = None
        if self._settings.cache_cleaning:
            self._device.clean()

    def _execute(
        self,
        batch: collections.abc.Sequence[Call],
        inputs: collections.abc.Sequence[collections.abc.Sequence[InputTensor]],
    ) -> Execution[Response]:
        program, device = self._program, self._device
        assert program is not None, "closed"
        rows = sum(call.batch_size for call in batch)
        try:
            torch.backends.cudnn.enabled = self._settings.cudnn
            with inference(self._settings), device.running():
                feeds = device.gathered(inputs, copy=program.writes_inputs, ragged=self._ragged)
                input_end_ns = self._now_ns()
                results = program.run(feeds)
                device.finish()
                output_start_ns = self._now_ns()
                names = batches.wanted_names(batch, self._output_names)
                stay = device.staying(batch, names) if self._ragged is None else set[str]()
                arrays = device.placed([(self._result(n, results), n in stay) for n in names])
        except InferenceError:
            raise
        except Exception as error:
            if isinstance(error, torch.OutOfMemoryError):
                device.clean()
            raise self._failed(error) from error
        if self._settings.cache_cleaning:
            device.clean()
        checked: list[tuple[OutputRule, Any]] = [
            (self._rule(name, array, rows), array)
            for name, array in zip(names, arrays, strict=True)
        ]
        parts = (
            batches.split(batch, checked)
            if self._ragged is None
            else self._ragged.split(batch, inputs, checked)
        )
        responses = [Response(outputs, _NO_PARAMETERS) for outputs in parts]
        return Execution(responses, input_end_ns, output_start_ns)

    def _result(self, name: str, results: collections.abc.Sequence[Any]) -> Any:
        """The result that an output of the config is."""
        assert self._program is not None
        index = self._program.output_index[name]
        if index >= len(results):
            error = InferenceError(
                ErrorCode.INVALID_ARG,
                f"The output {name} in the model configuration refers to an output index which doesn't exist. This model has {len(results)} outputs",
            )
            error.reason = FailureReason.BACKEND
            raise error
        return results[index]

    def _rule(self, name: str, values: Array | DeviceArray, rows: int) -> OutputRule:
        """The rule of an output, which its values fit."""
        rule = self._rules[name]
        array = batches.described(values) if isinstance(values, DeviceArray) else values
        if array.ndim == 0:
            raise batches.broken(f"output '{name}' is a scalar which is not supported.")
        expected = rule.spec.datatype
        if array.dtype != expected.dtype:
            given = datatypes.BY_DTYPE.get(array.dtype)
            error = InferenceError(
                ErrorCode.INVALID_ARG,
                f"configuration expects datatype {expected.config_name} for output '{name}', model provides "
                f"{given.config_name if given else array.dtype}",
            )
            error.reason = FailureReason.BACKEND
            raise error
        rule.check(array, rows=rows, model=self._model)
        return rule

    def _failed(self, error: Exception) -> InferenceError:
        return batches.broken(
            f"PyTorch execute failure: {reasons.explained(error)} (running model '{self._model}', instance '{self._name}')"
        )
