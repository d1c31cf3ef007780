"""The engine in front of a scripted repository: readiness, look-ups, statistics, metadata."""

from typing import Any, ClassVar

import pytest
from typing_extensions import override

from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse
from naiad.engine.api import IndexEntry
from naiad.engine.engine import Phase, ServingEngine
from naiad.errors import ErrorCode, InferenceError, invalid, not_found
from naiad.metrics.statistics import ModelStatistics
from naiad.repository.control_mode import ControlMode
from naiad.repository.lifecycle import State
from naiad.repository.loading.progress import LoadProgress, Phase as LoadPhase
from naiad.repository.manager import VersionState
from naiad.repository.requests.overrides import Parameters
from tests.support.inferences import make_config


class FakeModel:
    """A model; `known` is whether its readiness is known without calling it."""

    def __init__(self, *, ready: bool = True, known: bool = False) -> None:
        self.calls = 0
        self._known = known
        self.config = make_config()
        self.version = 1
        self.statistics = ModelStatistics()
        self.inputs = ()
        self.outputs = ()
        self._ready = ready

    def ready_now(self) -> bool | None:
        return self._ready if self._known else None

    async def ready(self) -> bool:
        self.calls += 1
        return self._ready


class FakeRepository:
    """One model `m` with version 1, and the given states."""

    latest: ClassVar[dict[str, FakeModel]] = {}

    def __init__(self, *states: VersionState, ready: bool = True) -> None:
        self._model = FakeModel(ready=ready)
        self.others: list[FakeModel] = []
        self.changes: list[tuple[str | bool, ...]] = []
        self._states = list(states) or [
            VersionState(name="m", version=1, state=State.READY, reason="")
        ]
        self.loads: list[LoadProgress] = []

    def unloading(self) -> list[FakeModel]:
        return []

    def load_progress(self) -> list[LoadProgress]:
        return self.loads

    def get(self, name: str, version: int = LATEST) -> FakeModel:
        if name != "m" or version not in (LATEST, 1):
            raise not_found(f"'{name}' is not found")
        return self._model

    def ready_versions(self, name: str) -> list[int]:
        return [1] if name == "m" else []

    def served(self) -> list[tuple[str, int, FakeModel]]:
        return [("m", number, model) for number, model in enumerate((self._model, *self.others), 1)]

    def states(self) -> list[VersionState]:
        return self._states

    async def listings(self, *, names: bool) -> list[tuple[list[VersionState], list[str]]]:
        return [(self._states, ["a", "m", "z"] if names else [])]

    async def load(self, name: str, parameters: Parameters, *, requested_by: str = "") -> None:
        self.changes.append(("load", name, *parameters))

    async def unload(self, name: str, *, with_dependents: bool, requested_by: str = "") -> None:
        self.changes.append(("unload", name, with_dependents))


def make(
    repository: FakeRepository,
    *,
    strict: bool = True,
    phase: Phase = Phase.SERVING,
    mode: ControlMode = ControlMode.NONE,
) -> ServingEngine:
    known: Any = repository
    engine = ServingEngine(
        repository=known,
        server_id="s",
        version="1",
        strict_readiness=strict,
        control_mode=mode,
    )
    engine.phase = phase
    return engine


FAILED = VersionState(name="x", version=None, state=State.UNAVAILABLE, reason="no config")
UNLOADED = VersionState(name="y", version=1, state=State.UNAVAILABLE, reason="unloaded")
EVICTED = [
    VersionState(name="y", version=1, state=state, reason="evicted")
    for state in (State.UNLOADING, State.UNAVAILABLE, State.LOADING)
]


@pytest.mark.parametrize(
    ("repository", "strict", "phase", "ready"),
    [
        (FakeRepository(), True, Phase.SERVING, True),
        (FakeRepository(FAILED), True, Phase.SERVING, False),
        (FakeRepository(FAILED), False, Phase.SERVING, True),
        (FakeRepository(UNLOADED), True, Phase.SERVING, True),
        (FakeRepository(*EVICTED), True, Phase.SERVING, True),
        (FakeRepository(ready=False), True, Phase.SERVING, False),
        (FakeRepository(), True, Phase.STARTING, False),
        (FakeRepository(), True, Phase.DRAINING, False),
        (FakeRepository(FAILED), False, Phase.DRAINING, False),
    ],
)
async def test_readiness_follows_phase_models_and_strictness(
    repository: FakeRepository, *, strict: bool, phase: Phase, ready: bool
) -> None:
    assert await make(repository, strict=strict, phase=phase).server_ready() is ready


@pytest.mark.parametrize("ready", [True, False])
async def test_only_models_whose_readiness_is_not_known_are_called(*, ready: bool) -> None:
    repository = FakeRepository(ready=ready)
    known = [FakeModel(known=True) for _ in range(3)]
    repository.others.extend(known)
    assert await make(repository).server_ready() is ready
    assert [model.calls for model in known] == [0, 0, 0]
    assert repository.get("m").calls == 1


async def test_a_model_that_is_unloaded_while_it_is_called_does_not_count() -> None:
    repository = FakeRepository()
    leaving = FakeModel(ready=False)
    repository.others.append(leaving)

    async def leave() -> bool:
        repository.others.clear()
        return False

    leaving.ready = leave  # type: ignore[method-assign]
    assert await make(repository).server_ready()


async def test_one_model_that_is_known_not_to_be_ready_is_enough() -> None:
    repository = FakeRepository()
    repository.others.append(FakeModel(ready=False, known=True))
    assert not await make(repository).server_ready()
    assert repository.get("m").calls == 0


async def test_at_the_very_end_health_is_an_error() -> None:
    engine = make(FakeRepository(), phase=Phase.EXITING)
    with pytest.raises(InferenceError, match="Server exiting"):
        engine.server_live()
    with pytest.raises(InferenceError, match="Server exiting"):
        await engine.server_ready()


def test_it_is_live_while_it_starts_and_drains() -> None:
    for phase in (Phase.STARTING, Phase.SERVING, Phase.DRAINING):
        assert make(FakeRepository(), phase=phase).server_live()


def test_a_request_for_an_unknown_model_is_answered_and_not_raised() -> None:
    answers: list[InferResponse] = []
    handle = make(FakeRepository()).infer(
        InferRequest("x", LATEST, "id", [], [], {}), answers.append
    )
    assert handle is None
    (answer,) = answers
    assert answer.error is not None
    assert (answer.error.code, answer.id, answer.final) == (ErrorCode.NOT_FOUND, "id", True)
    assert answer.error.__traceback__ is None, "it would hold the request as long as the answer"


def test_requests_that_found_no_model_are_counted_by_any_error() -> None:
    class Refusing(FakeRepository):
        @override
        def get(self, name: str, version: int = LATEST) -> FakeModel:
            raise invalid("not a name")

    engine = make(Refusing())
    answers: list[InferResponse] = []
    assert engine.infer(InferRequest("x", LATEST, "id", [], [], {}), answers.append) is None
    assert [answer.error and answer.error.message for answer in answers] == ["not a name"]
    with pytest.raises(InferenceError, match="not a name"):
        engine.look_up("x")
    assert engine.not_served[ErrorCode.INVALID_ARG] == 2
    assert engine.not_served[ErrorCode.NOT_FOUND] == 0


@pytest.mark.parametrize(
    ("name", "version", "fragment"),
    [("x", LATEST, "requested model 'x' is not available"), ("m", 7, "requested model version is not available for model 'm'")],
)  # fmt: skip
def test_statistics_of_a_model_that_is_not_ready_are_refused(
    name: str, version: int, fragment: str
) -> None:
    with pytest.raises(InferenceError) as caught:
        make(FakeRepository()).statistics(name, version)
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert fragment in caught.value.message


async def test_the_index_lists_reasons_and_can_be_limited_to_ready_versions() -> None:
    repository = FakeRepository(
        VersionState(name="m", version=1, state=State.READY, reason=""), FAILED
    )
    engine = make(repository)
    ready = IndexEntry(name="m", version=1, state="READY")
    assert await engine.index(ready_only=True) == [ready]
    refused = IndexEntry(name="x", state="UNAVAILABLE", reason="no config")
    assert await engine.index() == [ready, refused]


async def test_the_index_shows_how_far_the_warmup_of_a_load_is() -> None:
    repository = FakeRepository(
        VersionState(name="m", version=1, state=State.LOADING, reason=""),
        VersionState(name="m", version=2, state=State.READY, reason=""),
    )
    repository.loads = [
        LoadProgress(
            name="m", version=version, phase=LoadPhase.WARMING, bytes_done=0, bytes_total=0, elapsed_seconds=1,
            reason="", warmups_begun=3, warmups_total=10,
        )
        for version in (1, 2)
    ]  # fmt: skip
    entries = await make(repository).index()
    assert [entry.reason for entry in entries] == ["warming 3/10", ""]


async def test_in_mode_explicit_the_index_lists_the_names_of_models_that_were_never_loaded() -> (
    None
):
    engine = make(FakeRepository(), mode=ControlMode.EXPLICIT)
    ready = IndexEntry(name="m", version=1, state="READY")
    assert await engine.index() == [IndexEntry(name="a"), ready, IndexEntry(name="z")]
    assert await engine.index(ready_only=True) == [ready]


async def test_the_index_leaves_out_models_that_left_the_repository_and_no_longer_serve() -> None:
    gone = VersionState(name="gone", version=1, state=State.UNAVAILABLE, reason="unloaded")
    leaving = VersionState(name="leaving", version=1, state=State.UNLOADING, reason="")
    engine = make(FakeRepository(gone, leaving), mode=ControlMode.EXPLICIT)
    names = [entry.name for entry in await engine.index()]
    assert names == ["a", "leaving", "m", "z"]


@pytest.mark.parametrize("mode", [ControlMode.NONE, ControlMode.POLL])
@pytest.mark.parametrize("change", ["load_model", "unload_model"])
async def test_only_mode_explicit_allows_load_and_unload_requests(
    change: str, mode: ControlMode
) -> None:
    repository = FakeRepository()
    with pytest.raises(InferenceError, match=f"--model-control-mode={mode.value}") as caught:
        await getattr(make(repository, mode=mode), change)("m")
    assert caught.value.code is ErrorCode.UNAVAILABLE
    fragment = "explicit model load / unload is not allowed if polling is enabled"
    assert fragment in caught.value.message
    assert not repository.changes


async def test_in_mode_explicit_changes_reach_the_repository() -> None:
    repository = FakeRepository()
    engine = make(repository, mode=ControlMode.EXPLICIT)
    await engine.load_model("m", {"config": "{}"})
    await engine.unload_model("m", unload_dependents=True)
    assert repository.changes == [("load", "m", "config"), ("unload", "m", True)]


def test_metadata_names_the_platform_or_else_the_backend() -> None:
    metadata = make(FakeRepository()).model_metadata("m")
    config = make_config()
    assert metadata.platform == (config.platform or config.backend)
    assert metadata.versions == (1,)
