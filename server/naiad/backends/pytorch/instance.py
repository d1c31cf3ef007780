"""An instance of a PyTorch model: one batch after the other through its program, on its device."""

import collections.abc
import contextlib
import traceback
import typing
from typing import Any

import torch
from typing_extensions import override

from naiad.backends import batch as batches, device_errors, reasons, text
from naiad.backends.batch import Array, OutputRule
from naiad.backends.instance import Call, Execution, InputTensor, Instance, Response
from naiad.backends.placed_inputs import shape_of
from naiad.backends.pytorch.cuda_graphs.graphs import Graph, Graphs
from naiad.backends.pytorch.devices import Device, Target
from naiad.backends.pytorch.plugin import PYTHON_RUNTIME
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


class _Ran(typing.NamedTuple):
    """A batch that has run: its outputs by name, the times of `Execution`, and the rows that were added to it and are in no output."""

    names: list[str]
    arrays: list[Array | DeviceArray]
    input_end_ns: int
    output_start_ns: int
    padding: int


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
        graphs: Graphs | None = None,
    ) -> None:
        self._name = name
        self._program: Program | None = program
        self._device = device
        self._graphs = graphs
        self._batched = config.max_batch_size > 0
        self._settings = settings
        self._now_ns = clock.monotonic_ns
        self._model = config.name
        outputs = sequence_tensors.model_outputs(config)
        self._output_names = [spec.name for spec in outputs]
        if config.message.runtime != PYTHON_RUNTIME:
            # The order of responses, as in Triton, by which some clients read them; those of a module in Python have the config's there, too.
            self._output_names.sort()
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
        if self._graphs is not None:
            self._graphs.close()
            self._graphs = None
        # A process whose other instances stay gives the memory back, too.
        with contextlib.suppress(RuntimeError):  # the device may be lost
            self._device.clean()

    def _execute(
        self,
        batch: collections.abc.Sequence[Call],
        inputs: collections.abc.Sequence[collections.abc.Sequence[InputTensor]],
    ) -> Execution[Response]:
        device = self._device
        rows = sum(call.batch_size for call in batch)
        try:
            ran = self._run(batch, inputs, rows)
        except InferenceError:
            raise
        except Exception as error:
            # TorchScript reports a lack of memory by an error of another class.
            if device_errors.out_of_memory(error):
                # What the frames that have failed still hold could not be given back.
                traceback.clear_frames(error.__traceback__)
                with contextlib.suppress(RuntimeError):  # the device may be lost
                    device.clean()
            raise self._failed(error) from error
        if self._settings.cache_cleaning:
            device.clean()
        checked: list[tuple[OutputRule, Any]] = [
            (self._rule(name, array, rows), array)
            for name, array in zip(ran.names, ran.arrays, strict=True)
        ]
        parts = (
            batches.split(batch, checked)
            if self._ragged is None
            else self._ragged.split(batch, inputs, checked)
        )
        responses = [Response(outputs, _NO_PARAMETERS) for outputs in parts]
        return Execution(responses, ran.input_end_ns, ran.output_start_ns, ran.padding)

    def _run(
        self,
        batch: collections.abc.Sequence[Call],
        inputs: collections.abc.Sequence[collections.abc.Sequence[InputTensor]],
        rows: int,
    ) -> "_Ran":
        """Run a batch and bring its outputs to where they are wanted.

        Raises:
            Exception: what torch raises.
        """
        program, device = self._program, self._device
        assert program is not None, "closed"
        graph, padding, target = self._graph(inputs, rows)
        torch.backends.cudnn.enabled = self._settings.cudnn
        with inference(self._settings), device.running():
            feeds = device.gathered(
                inputs, copy=program.writes_inputs, ragged=self._ragged, target=target
            )
            input_end_ns = self._now_ns()
            results = program.run(feeds) if graph is None else graph.run()
            names = batches.wanted_names(batch, self._output_names)
            stay = device.staying(batch, names) if self._ragged is None else set[str]()
            begun = device.begin_outputs(
                [(self._result(name, results, padding), name in stay) for name in names]
            )
            device.wait_for_run()
            output_start_ns = self._now_ns()
            arrays = device.end_outputs(begun)
        return _Ran(names, arrays, input_end_ns, output_start_ns, padding)

    def _graph(
        self,
        inputs: collections.abc.Sequence[collections.abc.Sequence[InputTensor]],
        rows: int,
    ) -> tuple[Graph | None, int, Target | None]:
        """The graph that runs a batch, how many rows more than the batch's it has, and where the batch is copied to; nothing for a run without one."""
        if self._graphs is None:
            return None, 0, None
        shapes: dict[str, tuple[int, ...]] = {}
        for tensor in inputs[0]:
            shape = shape_of(tensor)
            shapes[tensor.name] = (rows, *shape[1:]) if self._batched else shape
        chosen = self._graphs.graph_of(shapes)
        if chosen is None:
            return None, 0, None
        graph, padding = chosen
        return graph, padding, Target(graph.inputs, padding)

    def _result(self, name: str, results: collections.abc.Sequence[Any], padding: int) -> Any:
        """The result that an output of the config is, without the last `padding` rows."""
        assert self._program is not None
        index = self._program.output_index[name]
        if index >= len(results):
            error = InferenceError(
                ErrorCode.INVALID_ARG,
                f"The output {name} in the model configuration refers to an output index which doesn't exist. This model has {len(results)} outputs",
            )
            error.reason = FailureReason.BACKEND
            raise error
        result = results[index]
        return result[:-padding] if padding and result.ndim else result

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
