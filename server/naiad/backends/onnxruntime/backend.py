"""ONNX models through onnxruntime (section 16): loading, and running one batch at a time.

All CPU instances of a model share one session: a session may run several batches at once, and its weights and threads are
there once. Each GPU instance has a session of its own on its device.
"""

import collections.abc
import pathlib
from typing import Any

from naiad.backends import batch as batches
from naiad.backends.backend import (
    Execution,
    Instance,
    InstanceSpec,
    ModelSource,
    WorkerPlan,
)
from naiad.backends.batch import Array
from naiad.backends.onnxruntime import signature as signatures, string_tensors
from naiad.backends.onnxruntime.completion import complete
from naiad.backends.onnxruntime.plan import plan_session
from naiad.backends.onnxruntime.plugin import PLUGIN
from naiad.backends.onnxruntime.runner import Runner
from naiad.backends.onnxruntime.session import (
    GlobalThreadPool,
    make_session,
    run_options,
    signature_of,
)
from naiad.backends.plugin import BackendContext
from naiad.config.model_config import InstanceKind
from naiad.core import datatypes
from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError


def make(context: BackendContext) -> "OnnxRuntimeBackend":
    """Make the backend."""
    return OnnxRuntimeBackend(clock=context.clock)


class OnnxRuntimeBackend:
    """The backend `onnxruntime`.

    Args:
        clock: for the moments that an `Execution` carries.
    """

    name = PLUGIN.name

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._pool = GlobalThreadPool()

    def complete(
        self,
        message: Any,
        *,
        model_dir: pathlib.Path,
        version_dir: pathlib.Path,
        options: collections.abc.Mapping[str, str],
    ) -> None:
        """Fill in what the graph says (row 11.51), from the file, without a session."""
        complete(message, model_dir=model_dir, version_dir=version_dir, options=options)

    def load(self, source: ModelSource) -> "OnnxModel":
        """Load a model version: the session of its CPU instances, when it has any, is made here."""
        model = OnnxModel(source, clock=self._clock, pool=self._pool)
        model.open()
        return model

    def worker_plan(self, source: ModelSource, spec: InstanceSpec) -> WorkerPlan:
        """See `Backend`: as it is."""
        from naiad.backends import whole_backend  # noqa: PLC0415 - with the first model that has workers, in a thread

        return whole_backend.plan_of(source, spec)


class OnnxModel:
    """A model version: its sessions, and what its instances know of it.

    Args:
        source: what to load.
        clock: for its instances.
        pool: the process's thread pool, for sessions that share one.
    """

    leaves_cycles = False

    def __init__(self, source: ModelSource, *, clock: Clock, pool: GlobalThreadPool) -> None:
        self._source = source
        self._clock = clock
        self._pool = pool
        self._shared: Runner | None = None

    def open(self) -> None:
        """Make the session that CPU instances share, if there are any.

        Raises:
            InferenceError: as `Backend.load`.
        """
        kinds = {group.kind for group in self._source.config.instance_groups}
        if kinds - {InstanceKind.GPU}:
            self._shared = self._runner(InstanceKind.CPU, 0)

    def make_instance(self, spec: InstanceSpec) -> Instance:
        """Make an instance; on a GPU that makes a session."""
        runner = self._shared
        if runner is None or spec.kind is InstanceKind.GPU:
            runner = self._runner(spec.kind, spec.device_id)
        return OnnxInstance(spec.name, runner, version=self._source.version, clock=self._clock)

    def close(self) -> None:
        """Drop the shared session; onnxruntime frees it with the last reference."""
        self._shared = None

    def _runner(self, kind: InstanceKind, device_id: int) -> Runner:
        source = self._source
        config = source.config
        plan = plan_session(config, source.options, kind=kind, device_id=device_id)
        path = PLUGIN.model_file(source.version_dir, config.default_model_filename)
        session = make_session(path, plan, model=config.name, pool=self._pool)
        signature = signature_of(session, path)
        signatures.check(config, signature)
        return Runner(session, run_options(plan), config=config, signature=signature)


class OnnxInstance:
    """An instance: runs batches on its session.

    Args:
        name: for messages.
        runner: the session with all that is known of it.
        version: the model's version.
        clock: for the moments that an `Execution` carries.
    """

    holds_interpreter = False
    asks_model = False

    def __init__(self, name: str, runner: Runner, *, version: int, clock: Clock) -> None:
        self._name = name
        self._runner: Runner | None = runner
        self._version = version
        self._now_ns = clock.monotonic_ns

    def execute(self, batch: collections.abc.Sequence[Inference]) -> Execution:
        """Run a batch. A request whose text is no UTF-8 fails alone, before the run.

        Raises:
            InferenceError: INTERNAL: the run failed, or the model gave what its config does not say; nobody gets an answer.
        """
        runner = self._runner
        assert runner is not None, "closed"
        if runner.has_text:
            return self._execute_text(runner, batch)
        feeds = batches.merge([each.request.inputs for each in batch])
        names = batches.wanted_names(batch, runner.output_names)
        input_end_ns = self._now_ns()
        arrays = self._run(runner, names, feeds)
        output_start_ns = self._now_ns()
        parts = batches.split(batch, runner.checked(names, arrays, batch))
        return Execution(self._answers(batch, parts), input_end_ns, output_start_ns)

    def ready(self) -> bool:
        """Whether it was not closed: onnxruntime itself has no say in this."""
        return self._runner is not None

    def close(self) -> None:
        """Drop the session."""
        self._runner = None

    def _execute_text(
        self, runner: Runner, batch: collections.abc.Sequence[Inference]
    ) -> Execution:
        """`execute` for a model with BYTES inputs: each request's text is decoded before the batch is made."""
        good: list[Inference] = []
        inputs: list[list[Tensor]] = []
        failed: dict[Inference, InferenceError] = {}
        for inference in batch:
            request = inference.request
            try:
                decoded = [
                    string_tensors.decoded(each, label=request.label)
                    if each.datatype is datatypes.BYTES
                    else each
                    for each in request.inputs
                ]
            except InferenceError as error:
                failed[inference] = error
            else:
                good.append(inference)
                inputs.append(decoded)
        if not good:
            now_ns = self._now_ns()
            return Execution(self._merged_answers(batch, failed, []), now_ns, now_ns)
        feeds = batches.merge(inputs)
        names = batches.wanted_names(good, runner.output_names)
        input_end_ns = self._now_ns()
        arrays = self._run(runner, names, feeds)
        output_start_ns = self._now_ns()
        parts = batches.split(good, runner.checked(names, arrays, good))
        answers = self._answers(good, parts)
        return Execution(
            self._merged_answers(batch, failed, answers) if failed else answers,
            input_end_ns,
            output_start_ns,
        )

    def _run(self, runner: Runner, names: list[str], feeds: dict[str, Any]) -> list[Array]:
        try:
            return runner.run(names, feeds)
        except Exception as error:
            raise batches.broken(
                f"{error} (running model '{runner.model}', instance '{self._name}')"
            ) from error

    def _answers(
        self, batch: collections.abc.Sequence[Inference], parts: list[list[Tensor]]
    ) -> list[InferResponse]:
        version = self._version
        answers: list[InferResponse] = []
        for inference, outputs in zip(batch, parts, strict=True):
            request = inference.request
            answers.append(
                InferResponse(request.model_name, version, request.id, outputs, NO_PARAMETERS)
            )
        return answers

    def _merged_answers(
        self,
        batch: collections.abc.Sequence[Inference],
        failed: dict[Inference, InferenceError],
        answers: list[InferResponse],
    ) -> list[InferResponse]:
        """One answer for each request of the batch, in its order: failures where they belong."""
        rest = iter(answers)
        return [
            batches.failure(inference, failed[inference], version=self._version)
            if inference in failed
            else next(rest)
            for inference in batch
        ]
