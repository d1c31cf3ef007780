"""ONNX models through onnxruntime (section 16): loading, and running one batch at a time.

All CPU instances of a model share one session: a session may run several batches at once, and its weights and threads are
there once. Each GPU instance has a session of its own on its device.
"""

import collections.abc
from typing import Any

from typing_extensions import override

from naiad.backends import batch as batches
from naiad.backends.backend import ModelSource
from naiad.backends.batch import Array
from naiad.backends.instance import (
    Call,
    Execution,
    InputTensor,
    Instance,
    InstanceSpec,
    LoadedModel,
    Output,
    Response,
)
from naiad.backends.onnxruntime.graph_check import check_session
from naiad.backends.onnxruntime.plan import plan_session
from naiad.backends.onnxruntime.plugin import PLUGIN
from naiad.backends.onnxruntime.runner import SessionRunner, decoded
from naiad.backends.onnxruntime.session import (
    GlobalThreadPool,
    make_session,
    run_options,
    signature_of,
)
from naiad.backends.plugin import BackendContext
from naiad.config.model_config import InstanceKind
from naiad.core.clock import Clock
from naiad.errors import InferenceError

_NO_OUTPUTS: list[Output] = []
_NO_PARAMETERS: dict[str, Any] = {}


def make(context: BackendContext) -> "OnnxRuntimeBackend":
    """Make the backend."""
    return OnnxRuntimeBackend(clock=context.clock)


class OnnxRuntimeBackend:
    """The backend `onnxruntime`."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._pool = GlobalThreadPool()

    def load(self, source: ModelSource) -> "OnnxModel":
        """Load a model version."""
        return OnnxModel(source, clock=self._clock, pool=self._pool)


class OnnxModel(LoadedModel):
    """A model version: its sessions, and what its instances know of it. The session that CPU instances share is made at once.

    Raises:
        InferenceError: as `Backend.load`.
    """

    def __init__(self, source: ModelSource, *, clock: Clock, pool: GlobalThreadPool) -> None:
        self._source = source
        self._clock = clock
        self._pool = pool
        kinds = {group.kind for group in source.config.instance_groups}
        shares = bool(kinds - {InstanceKind.GPU})
        self._shared = self._runner(InstanceKind.CPU, 0) if shares else None

    @override
    def make_instance(self, spec: InstanceSpec) -> Instance:
        """Make an instance; on a GPU that makes a session."""
        runner = self._shared
        if runner is None or spec.kind is InstanceKind.GPU:
            runner = self._runner(spec.kind, spec.device_id)
        return OnnxInstance(spec.name, runner, clock=self._clock)

    @override
    def close(self) -> None:
        """Drop the shared session; onnxruntime frees it with the last reference."""
        self._shared = None

    def _runner(self, kind: InstanceKind, device_id: int) -> SessionRunner:
        source = self._source
        config = source.config
        plan = plan_session(config, source.options, kind=kind, device_id=device_id)
        path = PLUGIN.model_file(source.version_dir, config.default_model_filename)
        session = make_session(path, plan, model=config.name, pool=self._pool)
        signature = signature_of(session, path)
        check_session(config, signature)
        return SessionRunner(session, run_options(plan), config=config, signature=signature)


class OnnxInstance(Instance):
    """An instance: runs batches on its session."""

    prefetches = True

    def __init__(self, name: str, runner: SessionRunner, *, clock: Clock) -> None:
        self._name = name
        self._runner: SessionRunner | None = runner
        self._now_ns = clock.monotonic_ns

    @override
    def execute(self, batch: collections.abc.Sequence[Call]) -> Execution[Response]:
        """Run a batch. A request whose text is not UTF-8 fails alone, before the run.

        Raises:
            InferenceError: INTERNAL: the run failed, or the model gave what its config does not say; no request gets a response.
        """
        runner = self._runner
        assert runner is not None, "closed"
        if runner.has_text:
            return self._execute_text(runner, batch)
        return self._execute(runner, batch, [call.request.inputs for call in batch])

    @override
    def ready(self) -> bool:
        """Whether it was not closed: onnxruntime itself has no say in this."""
        return self._runner is not None

    @override
    def close(self) -> None:
        self._runner = None

    def _execute(
        self,
        runner: SessionRunner,
        batch: collections.abc.Sequence[Call],
        inputs: collections.abc.Sequence[collections.abc.Sequence[InputTensor]],
    ) -> Execution[Response]:
        feeds = batches.merge(inputs)
        names = batches.wanted_names(batch, runner.output_names)
        input_end_ns = self._now_ns()
        arrays = self._run(runner, names, feeds)
        output_start_ns = self._now_ns()
        parts = batches.split(batch, runner.checked(names, arrays, batch))
        responses = [Response(outputs, _NO_PARAMETERS) for outputs in parts]
        return Execution(responses, input_end_ns, output_start_ns)

    def _execute_text(
        self, runner: SessionRunner, batch: collections.abc.Sequence[Call]
    ) -> Execution[Response]:
        """`execute` for a model with BYTES inputs: each request's text is decoded before the batch is made."""
        good: list[Call] = []
        inputs: list[list[InputTensor]] = []
        failed: dict[int, Response] = {}
        for index, call in enumerate(batch):
            request = call.request
            try:
                texts = [decoded(tensor, label=request.label) for tensor in request.inputs]
            except InferenceError as error:
                failed[index] = Response(_NO_OUTPUTS, _NO_PARAMETERS, error.bare())
            else:
                good.append(call)
                inputs.append(texts)
        if not good:
            now_ns = self._now_ns()
            return Execution(list(failed.values()), now_ns, now_ns)
        execution = self._execute(runner, good, inputs)
        if not failed:
            return execution
        rest = iter(execution.responses)
        merged = [failed[index] if index in failed else next(rest) for index in range(len(batch))]
        return Execution(merged, execution.input_end_ns, execution.output_start_ns)

    def _run(self, runner: SessionRunner, names: list[str], feeds: dict[str, Any]) -> list[Array]:
        try:
            return runner.run(names, feeds)
        except Exception as error:
            raise batches.broken(
                f"{error} (running model '{runner.model}', instance '{self._name}')"
            ) from error
