"""An instance of a TensorRT model: gathers a batch in pinned memory, copies it, runs it in the context of the profile that fits, and copies the outputs back.

Inputs that are on the device, and outputs that the next model takes there, do not leave it.
Everything of a batch is in the instance's own streams, so that instances on one device do not wait for each other.
"""

import collections.abc
import contextlib
from typing import Any

import numpy as np
from typing_extensions import override

from naiad.backends import batch as batches
from naiad.backends.batch import Array, OutputRule
from naiad.backends.cuda_graph_specs import plan_graphs
from naiad.backends.cuda_runtime import CudaRuntime
from naiad.backends.instance import Call, Execution, Instance, InstanceSpec, Response
from naiad.backends.ragged import batch_input_specs, output_rules, ragged_batches
from naiad.backends.tensorrt.engine import io_check, profiles
from naiad.backends.tensorrt.engine.description import EngineDescription, Range
from naiad.backends.tensorrt.engine.library import Engine
from naiad.backends.tensorrt.engine.profiles import UsedProfile
from naiad.backends.tensorrt.execution.batch_inputs import BatchInputs, Requests
from naiad.backends.tensorrt.execution.bindings import Bindings
from naiad.backends.tensorrt.execution.context import ProfileContext
from naiad.backends.tensorrt.execution.lent_outputs import LentOutputs
from naiad.backends.tensorrt.execution.memory import Memory
from naiad.backends.tensorrt.execution.transfers import Transfers
from naiad.backends.tensorrt.settings import Priority, Settings
from naiad.config import sequence_tensors
from naiad.config.model_config import ModelConfig
from naiad.core.clock import Clock
from naiad.errors import InferenceError
from naiad.tensors.cudart import CudaError
from naiad.tensors.numbering import server_number

_NO_PARAMETERS: dict[str, Any] = {}


class TensorrtInstance(Instance):
    """Implements `Instance`.

    Raises:
        InferenceError: the engine and the config do not fit, or there is no memory.
        CudaError: a call of CUDA failed.
    """

    prefetches = True
    keeps_arrays = True  # the next batch is copied into the same memory

    def __init__(
        self,
        spec: InstanceSpec,
        engine: Engine,
        cuda: CudaRuntime,
        lent: LentOutputs,
        *,
        config: ModelConfig,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._name, self._device = spec.name, spec.device_id
        self._cuda = cuda
        self._model = config.name
        self._now_ns = clock.monotonic_ns
        self._settings = settings
        self._batched = config.max_batch_size > 0
        description = engine.description
        self._ragged = ragged_batches(config)
        self._inputs = BatchInputs(description, batched=self._batched, ragged=self._ragged)
        self._flat = _flat_inputs(config)
        self._rules = output_rules(config)
        self._output_names = list(self._rules)
        self._values_out = {each.name for each in description.outputs if each.is_shape}
        self._open = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            undo.push(self._open)
            self._stream = self._made(cuda.create_stream(self._priority()), cuda.destroy_stream)
            self._copies = self._stream
            if settings.output_stream:
                self._copies = self._made(cuda.create_stream(self._priority()), cuda.destroy_stream)
            sleeps = not settings.busy_wait
            self._computed = self._made(cuda.create_event(sleeps=sleeps), cuda.destroy_event)
            self._copied = self._made(cuda.create_event(sleeps=sleeps), cuda.destroy_event)
            memory = Memory(cuda)
            self._open.callback(memory.close)
            self._contexts = [
                self._context(engine, profile)
                for profile in _used_profiles(spec, description, config)
            ]
            self._bindings = Bindings(
                description,
                self._contexts,
                memory,
                cuda,
                stream=self._stream,
                settings=settings,
                instance=self._name,
            )
            self._transfers = Transfers(
                self._bindings,
                lent,
                cuda,
                stream=self._stream,
                copies=self._copies,
                device=self._device,
            )
            if settings.graphs:
                plan = plan_graphs(config.message)
                for context in self._contexts:
                    context.capture(plan, self._flat)
            undo.pop_all()
        self._profiles = [context.profile for context in self._contexts]

    @override
    def execute(self, batch: collections.abc.Sequence[Call]) -> Execution[Response]:
        """Run a batch.

        Raises:
            InferenceError: the batch fits no profile, the run failed, or the model gave what its config does not say; no request gets a response.
        """
        try:
            return self._execute(batch, [call.request.inputs for call in batch])
        except CudaError as error:
            # Where the device is not lost, as for want of memory, the next batch gathers in the memory from which this one is still copied.
            with contextlib.suppress(CudaError):
                self._cuda.synchronize(self._stream)
            raise self._failed(error) from error
        except InferenceError as error:
            try:
                self._cuda.synchronize(self._stream)
            except CudaError as lost:
                raise batches.broken(f"{error.message}: {lost}") from lost
            raise

    @override
    def ready(self) -> bool:
        return bool(self._contexts)

    @override
    def close(self) -> None:
        self._contexts.clear()
        with contextlib.suppress(CudaError):  # the device may be lost, and what was on it
            self._cuda.use_device(self._device)
            self._open.close()

    def _execute(
        self, batch: collections.abc.Sequence[Call], requests: Requests
    ) -> Execution[Response]:
        cuda = self._cuda
        cuda.use_device(self._device)
        rows = sum(call.batch_size for call in batch)
        others, shapes, merged = self._inputs.shapes(requests, rows)
        profile = profiles.choose(self._profiles, shapes)
        profiles.check(profile, shapes, instance=self._name)
        context = self._contexts[self._profiles.index(profile)]
        if self._ragged is None:
            self._transfers.copy_in(others, shapes.inputs, [call.batch_size for call in batch])
        else:
            self._transfers.copy_merged(merged)
        for name, values in shapes.values.items():
            self._bindings.set_values(context, name, values)
        input_end_ns = self._now_ns()
        ran = context.enqueue(shapes)
        padding = self._padding(ran, rows)
        if self._copies != self._stream:
            cuda.record(self._computed, self._stream)
            cuda.wait_for(self._computed, self._copies)
        names = batches.wanted_names(batch, self._output_names)
        stay = self._staying(batch, names)
        arrays: dict[str, Any] = {
            name: self._transfers.staying(context, name, self._rules[name].spec.datatype, padding)
            if name in stay
            else self._transfers.to_host(context, name)
            for name in names
            if name not in self._values_out
        }
        cuda.record(self._copied, self._copies)
        cuda.synchronize_event(self._copied)
        output_start_ns = self._now_ns()
        outputs: list[tuple[OutputRule, Any]] = []
        for name in names:
            rule = self._rules[name]
            if name in stay:
                rule.check(batches.described(arrays[name]), rows=rows, model=self._model)
                outputs.append((rule, arrays[name]))
                continue
            if name in self._values_out:
                array = self._shape_output(context, name, rows)
            else:
                array = arrays[name]
                if padding and not rule.scattered:
                    array = array[:rows]
            outputs.append((rule, rule.checked(array, rows=rows, model=self._model)))
        parts = (
            batches.split(batch, outputs)
            if self._ragged is None
            else self._ragged.split(batch, requests, outputs)
        )
        responses = [Response(each, _NO_PARAMETERS) for each in parts]
        return Execution(responses, input_end_ns, output_start_ns, padding)

    def _staying(self, batch: collections.abc.Sequence[Call], names: list[str]) -> set[str]:
        """The outputs that stay on the device. Those of ragged batches are put apart on the host, values of shape tensors are there."""
        if self._ragged is not None:
            return set()
        return batches.staying(batch, names, server_number(self._device)) - self._values_out

    def _shape_output(self, context: ProfileContext, name: str, rows: int) -> Array:
        """The values of a shape tensor: of a model that takes batches, those behind the number of rows, once for each row."""
        values = self._bindings.values[name].array((int(np.prod(context.shape_of(name))),))
        if not self._batched:
            return values.copy()
        if int(values[0]) != rows:
            raise batches.broken(
                f"failed to retrieve the output shape values from binding '{self._name}' (output '{name}' says {int(values[0])} rows, and the batch "
                f"has {rows})"
            )
        return np.tile(values[1:], (rows, 1))

    def _padding(self, ran: collections.abc.Mapping[str, tuple[int, ...]], rows: int) -> int:
        """How many rows more than the batch's a graph has run."""
        if not self._batched:
            return 0
        first = next((shape for name, shape in ran.items() if name not in self._flat), (rows,))
        return first[0] - rows

    def _priority(self) -> int:
        last, first = self._cuda.priorities()
        return {Priority.FIRST: first, Priority.LAST: last}.get(self._settings.priority, 0)

    def _context(self, engine: Engine, profile: UsedProfile) -> ProfileContext:
        context = ProfileContext(
            engine,
            profile,
            self._cuda,
            stream=self._stream,
            allocation=self._settings.allocation,
            instance=self._name,
        )
        self._open.callback(context.close)
        return context

    def _made(self, handle: int, destroy: collections.abc.Callable[[int], None]) -> int:
        self._open.callback(destroy, handle)
        return handle

    def _failed(self, error: CudaError) -> InferenceError:
        return batches.broken(f"{error} (running model '{self._model}', instance '{self._name}')")


def _flat_inputs(config: ModelConfig) -> set[str]:
    """The inputs whose first dimension is not the number of rows."""
    ragged = (spec for spec in config.inputs if spec.ragged)
    return {spec.name for spec in (*batch_input_specs(config), *ragged)}


def _used_profiles(
    spec: InstanceSpec, engine: EngineDescription, config: ModelConfig
) -> list[UsedProfile]:
    """The profiles of an instance, narrowed by the config.

    Raises:
        InferenceError: INVALID_ARG: there is no such profile, or it does not allow the config's dims.
    """
    io_check.check(config, engine)
    flat = _flat_inputs(config)
    specs = {each.name: each for each in sequence_tensors.model_inputs(config)}
    found: list[UsedProfile] = []
    for name, index in profiles.used(spec.profiles, len(engine.profiles), instance=spec.name):
        profile = engine.profiles[index]
        shapes: dict[str, Range] = {}
        for tensor in engine.inputs:
            allowed = profile.shapes[tensor.name]
            if not tensor.is_shape and tensor.name not in flat:
                given = specs[tensor.name]
                own = given.dims if given.reshape is None else given.reshape
                rows = config.max_batch_size
                allowed = profiles.narrowed(
                    (-1, *own) if rows else own,
                    allowed,
                    rows=rows,
                    name=tensor.name,
                    model=config.name,
                )
            shapes[tensor.name] = allowed
        found.append(UsedProfile(name=name, index=index, shapes=shapes, values=profile.values))
    return found
