"""ONNX models through onnxruntime (section 16): loading, and running one batch at a time.

All CPU instances of a model share one session: a session may run several batches at once, and its weights and threads are
there once. Each GPU instance has a session of its own on its device. Where batches are filled up, it is one session per size, but for CUDA graphs, which are all in one.
"""

import collections.abc
import functools
import pathlib
from typing import Any

from typing_extensions import override

from naiad.backends import batch as batches, device_errors, reasons, text
from naiad.backends.backend import ModelSource, WorkerPlan
from naiad.backends.batch import Array
from naiad.backends.cuda_graph_shapes import rows_of
from naiad.backends.filled_sizes import fill_of, sizes_of
from naiad.backends.instance import (
    Call,
    Execution,
    InputTensor,
    Instance,
    InstanceSpec,
    LoadedModel,
    Response,
)
from naiad.backends.onnxruntime import batch_sizes, onnx_graph, session_completion
from naiad.backends.onnxruntime.batch_sessions import BatchSessions, LoadContext, make_sessions
from naiad.backends.onnxruntime.batch_sizes import Memory
from naiad.backends.onnxruntime.cuda import device_memory, preload
from naiad.backends.onnxruntime.cuda_graphs.capture import captured
from naiad.backends.onnxruntime.graph_check import check_session
from naiad.backends.onnxruntime.plan import CUDA, SessionPlan, plan_session
from naiad.backends.onnxruntime.plugin import PLUGIN
from naiad.backends.onnxruntime.runner import SessionRunner
from naiad.backends.onnxruntime.session import (
    GlobalThreadPool,
    make_session,
    run_options,
    signature_of,
)
from naiad.backends.plugin import BackendContext
from naiad.backends.ragged import is_ragged
from naiad.config.model_config import InstanceKind
from naiad.core.clock import Clock
from naiad.errors import InferenceError

_NO_PARAMETERS: dict[str, Any] = {}


def make(context: BackendContext) -> "OnnxRuntimeBackend":
    """Make the backend."""
    return OnnxRuntimeBackend(clock=context.clock)


class OnnxRuntimeBackend:
    """The backend `onnxruntime`.

    Args:
        memory_of: the memory of a GPU, by its number; None where it is not known.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        memory_of: collections.abc.Callable[[int], Memory | None] = device_memory,
    ) -> None:
        self.clock = clock
        self._memory_of = memory_of
        self._pool = GlobalThreadPool()
        self._closed = False

    def load(self, source: ModelSource) -> "OnnxModel":
        """Load a model version."""
        path = PLUGIN.model_file(source.version_dir, source.config.default_model_filename)
        return OnnxModel(source, self, path)

    def complete(
        self, message: Any, version_dir: pathlib.Path, options: collections.abc.Mapping[str, str]
    ) -> None:
        """See `ModelsComplete`: complete a config from a session of the model."""
        session_completion.complete(message, version_dir, options, self._pool)

    def completion_plan(
        self, message: Any, version_dir: pathlib.Path, options: collections.abc.Mapping[str, str]
    ) -> WorkerPlan:
        """See `ModelsComplete`."""
        return session_completion.plan_in_worker(message, version_dir, options)

    def take_completion(self, message: Any, result: Any) -> None:
        """See `ModelsComplete`."""
        session_completion.take(message, result)

    def close(self) -> None:
        """See `Closes`: loads in progress make no further sessions."""
        self._closed = True

    def sessions(
        self, source: ModelSource, path: pathlib.Path, kind: InstanceKind, device_id: int
    ) -> BatchSessions:
        """Make the sessions of an instance, or of those that share them, of the ONNX file in `path`.

        Raises:
            InferenceError: they cannot be made; the message is for the index.
        """
        config = source.config
        plan = plan_session(config, source.options, kind=kind, device_id=device_id)
        preload(plan)
        on_gpu = kind is InstanceKind.GPU
        label = f"model '{config.name}'" + (f" on GPU {device_id}" if on_gpu else "")
        if config.message.optimization.cuda.graphs and on_gpu:
            graphs = captured(source, plan, path, pool=self._pool, device_id=device_id, label=label)
            if graphs is not None:
                fill = fill_of(config, source.options)
                rows = rows_of(graphs.planned, config, fill)
                costs = {
                    each: graphs.runner.warm_up(each, self.clock.monotonic_ns) or 0 for each in rows
                }
                by_size = dict.fromkeys(rows, graphs.runner)
                return BatchSessions(graphs.runner, by_size, costs, label=label)
        return make_sessions(
            lambda: self._runner(source, plan, path),
            sizes_for(source, plan, path),
            LoadContext(
                now_ns=self.clock.monotonic_ns,
                memory=lambda: self._memory_of(device_id) if on_gpu else None,
                stopping=lambda: self._closed,
            ),
            label=label,
        )

    def _runner(self, source: ModelSource, plan: SessionPlan, path: pathlib.Path) -> SessionRunner:
        config = source.config
        session = make_session(path, plan, model=config.name, pool=self._pool)
        signature = signature_of(session, path)
        check_session(config, signature)
        return SessionRunner(session, run_options(plan), config=config, signature=signature)


class OnnxModel(LoadedModel):
    """A model version: its sessions, and what its instances know of it. The sessions that CPU instances share are made at once.

    Args:
        path: the ONNX file, which sessions on a GPU are made of later.

    Raises:
        InferenceError: as `Backend.load`.
    """

    def __init__(
        self, source: ModelSource, backend: OnnxRuntimeBackend, path: pathlib.Path
    ) -> None:
        self._source = source
        self._path = path
        self._backend = backend
        kinds = {group.kind for group in source.config.instance_groups}
        shares = bool(kinds - {InstanceKind.GPU})
        self._shared = backend.sessions(source, path, InstanceKind.CPU, 0) if shares else None

    @override
    def make_instance(self, spec: InstanceSpec) -> Instance:
        """Make an instance; on a GPU that makes sessions."""
        sessions = self._shared
        if sessions is None or spec.kind is InstanceKind.GPU:
            sessions = self._backend.sessions(self._source, self._path, spec.kind, spec.device_id)
        return OnnxInstance(spec.name, sessions, clock=self._backend.clock)

    @override
    def close(self) -> None:
        """Drop the shared sessions; onnxruntime frees them with the last reference."""
        self._shared = None


def sizes_for(source: ModelSource, plan: SessionPlan, path: pathlib.Path) -> tuple[int, ...]:
    """The sizes that batches of a model are filled up to."""
    config = source.config
    if is_ragged(config):
        return ()
    fill = fill_of(config, source.options)
    on_cuda = fill.mode == "auto" and plan.providers[0].name == CUDA
    candidates = sizes_of(config, fill, pays=on_cuda)
    if candidates and on_cuda and not _has_convolutions(path):
        return ()  # walking a large graph takes a second, so it comes last
    return candidates


def _has_convolutions(path: pathlib.Path) -> bool:
    try:
        return onnx_graph.has_operator(path, batch_sizes.CONVOLUTIONS)
    except onnx_graph.OnnxFileError:
        return False  # a format of onnxruntime's own; loading says what else is wrong


class OnnxInstance(Instance):
    """An instance: runs batches on its sessions."""

    prefetches = True

    def __init__(self, name: str, sessions: BatchSessions, *, clock: Clock) -> None:
        self._name = name
        self._sessions: BatchSessions | None = sessions
        self._now_ns = clock.monotonic_ns

    @override
    def execute(self, batch: collections.abc.Sequence[Call]) -> Execution[Response]:
        """Run a batch. A request whose text is not UTF-8 fails alone, before the run.

        Raises:
            InferenceError: INTERNAL: the run failed, or the model gave what its config does not say; no request gets a response.
        """
        sessions = self._sessions
        assert sessions is not None, "closed"
        if sessions.first.has_text:
            return self._execute_text(sessions, batch)
        return self._execute(sessions, batch, [call.request.inputs for call in batch])

    @override
    def ready(self) -> bool:
        """Whether it was not closed: onnxruntime itself has no say in this."""
        return self._sessions is not None

    @override
    def close(self) -> None:
        self._sessions = None

    def _execute(
        self,
        sessions: BatchSessions,
        batch: collections.abc.Sequence[Call],
        inputs: collections.abc.Sequence[collections.abc.Sequence[InputTensor]],
    ) -> Execution[Response]:
        rows = 0
        for call in batch:
            rows += call.batch_size
        runs = sessions.runs(rows) if sessions.sizes else ()
        padding = sum(runs) - rows if runs else 0
        ragged = sessions.first.ragged
        feeds = batches.merge(inputs, padding) if ragged is None else ragged.merge(inputs)
        names = batches.wanted_names(batch, sessions.first.output_names)
        input_end_ns = self._now_ns()
        try:
            arrays = (
                sessions.run(names, feeds, rows=rows, runs=runs)
                if runs
                else sessions.runner(rows).run(names, feeds)
            )
        except Exception as error:
            if not padding or device_errors.unrecoverable(error) is not None:
                raise self._failed(sessions.first, error) from error
            arrays = self._run_again(sessions, names, batches.merge(inputs), rows, error)
            padding = 0
        else:
            if padding:
                sessions.filled()
        output_start_ns = self._now_ns()
        checked = sessions.first.checked(names, arrays, rows=rows)
        if ragged is None:
            parts = batches.split(batch, checked)
        else:
            parts = ragged.split(batch, inputs, checked)
        responses = [Response(outputs, _NO_PARAMETERS) for outputs in parts]
        return Execution(responses, input_end_ns, output_start_ns, padding)

    def _execute_text(
        self, sessions: BatchSessions, batch: collections.abc.Sequence[Call]
    ) -> Execution[Response]:
        """`execute` for a model with BYTES inputs: each request's text is decoded before the batch is made."""
        return text.execute_decoded(
            batch,
            functools.partial(self._execute, sessions),
            of="ONNX strings",
            now_ns=self._now_ns,
        )

    def _run_again(
        self,
        sessions: BatchSessions,
        names: list[str],
        feeds: dict[str, Any],
        rows: int,
        first_error: Exception,
    ) -> list[Array]:
        """Run a batch without the added rows that it failed with.

        Raises:
            InferenceError: INTERNAL: it fails without them as well.
        """
        try:
            arrays = sessions.runner(rows).run(names, feeds)
        except Exception as error:
            raise self._failed(sessions.first, error) from error
        sessions.failed(first_error)
        return arrays

    def _failed(self, runner: SessionRunner, error: Exception) -> InferenceError:
        return batches.broken(
            f"{reasons.explained(error)} (running model '{runner.model}', instance '{self._name}')"
        )
