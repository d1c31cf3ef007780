"""TensorFlow models: SavedModels and GraphDefs, one batch at a time per instance. Importing this imports TensorFlow.

The instances of a model on one device share a session, which may run several batches at once: its weights are there once. The parameter
MAX_SESSION_SHARE_COUNT says how many share one, for models that keep state in variables.
"""

import collections.abc
from typing import Any

import numpy as np
from typing_extensions import override

from naiad.backends import batch as batches, reasons
from naiad.backends.backend import ModelSource
from naiad.backends.batch import Array, OutputRule
from naiad.backends.instance import Call, Execution, Instance, InstanceSpec, LoadedModel, Response
from naiad.backends.plugin import BackendContext
from naiad.backends.ragged import output_rules, ragged_batches
from naiad.backends.tensorflow.session import ModelSession, make_session
from naiad.backends.tensorflow.settings import settings_of
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.core.clock import Clock

_NO_PARAMETERS: dict[str, Any] = {}


def make(context: BackendContext) -> "TensorflowBackend":
    """Make the backend."""
    return TensorflowBackend(clock=context.clock)


class TensorflowBackend:
    """The backend `tensorflow`."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock

    def load(self, source: ModelSource) -> "TensorflowModel":
        """Load a model version."""
        return TensorflowModel(source, clock=self._clock)


class TensorflowModel(LoadedModel):
    """A model version: its sessions, made with the first instance that needs one.

    Raises:
        InferenceError: as `Backend.load`.
    """

    def __init__(self, source: ModelSource, *, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._settings = settings_of(source.config, source.options)
        self._sessions: dict[tuple[InstanceKind, int], list[ModelSession]] = {}
        self._uses: dict[tuple[InstanceKind, int], int] = {}

    @override
    def make_instance(self, spec: InstanceSpec) -> Instance:
        device = (spec.kind, spec.device_id)
        sessions = self._sessions.setdefault(device, [])
        used = self._uses.get(device, 0)
        sharing = self._settings.sharing
        if not sessions or (sharing and used and used % sharing == 0):
            sessions.append(
                make_session(
                    self._source.version_dir,
                    self._source.config,
                    self._settings,
                    kind=spec.kind,
                    device_id=spec.device_id,
                )
            )
        self._uses[device] = used + 1
        return TensorflowInstance(spec.name, sessions[-1], self._source.config, clock=self._clock)

    @override
    def close(self) -> None:
        for sessions in self._sessions.values():
            for session in sessions:
                session.close()
        self._sessions.clear()


class TensorflowInstance(Instance):
    """An instance: runs batches on its session."""

    prefetches = True

    def __init__(
        self, name: str, session: ModelSession, config: ModelConfig, *, clock: Clock
    ) -> None:
        self._name = name
        self._session: ModelSession | None = session
        self._model = config.name
        self._now_ns = clock.monotonic_ns
        self._ragged = ragged_batches(config)
        rules = enumerate(output_rules(config).values())
        # By name, the order of responses in Triton, by which some clients read them.
        self._rules = sorted(rules, key=lambda numbered: numbered[1].spec.name)

    @override
    def execute(self, batch: collections.abc.Sequence[Call]) -> Execution[Response]:
        """Run a batch.

        Raises:
            InferenceError: INTERNAL: the run failed, or the model gave what its config does not say; no request gets a response.
        """
        session = self._session
        assert session is not None, "closed"
        ragged = self._ragged
        inputs = [call.request.inputs for call in batch]
        feeds = batches.merge(inputs) if ragged is None else ragged.merge(inputs)
        rows = sum(call.batch_size for call in batch)
        for name in session.scalars:  # requests have them with one dimension
            feeds[name] = feeds[name].reshape(())
        input_end_ns = self._now_ns()
        try:
            results = session.run(*[feeds[name] for name in session.input_names])
        except Exception as error:
            raise batches.broken(
                f"TensorFlow execute failure: {reasons.explained(error)} (running model '{self._model}', instance '{self._name}')"
            ) from error
        output_start_ns = self._now_ns()
        wanted = batches.wanted_names(batch, session.output_names)
        outputs: list[tuple[OutputRule, Array]] = []
        for index, rule in self._rules:
            if rule.spec.name in wanted:
                outputs.append((rule, self._checked(rule, results[index], rows)))
        parts = (
            batches.split(batch, outputs)
            if ragged is None
            else ragged.split(batch, inputs, outputs)
        )
        responses = [Response(each, _NO_PARAMETERS) for each in parts]
        return Execution(responses, input_end_ns, output_start_ns)

    @override
    def ready(self) -> bool:
        return self._session is not None

    @override
    def close(self) -> None:
        self._session = None

    def _checked(self, rule: OutputRule, result: Any, rows: int) -> Array:
        """An output as the config says it; a scalar in the config's dims."""
        text = isinstance(result, bytes)  # of a scalar
        array: Array = np.asarray(result, dtype=object if text else None)
        return rule.checked(array, rows=rows, model=self._model)
