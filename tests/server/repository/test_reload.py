"""Which versions a load leaves alone (rows 7.21, 7.22, 7.25)."""

import pathlib
from typing import Any

import pytest

from naiad.repository.plan import LoadedFrom, VersionPlan, untouched
from naiad.repository.polling.fingerprint import Fingerprint
from naiad.repository.store import LocalStore, StoredModel
from tests.server.repository.world import Config

HERE, ELSEWHERE = (StoredModel(LocalStore(root), "m") for root in ("/r", "/other"))


def plans(*versions: int, config: str = "config") -> list[VersionPlan]:
    any_config: Any = Config("m", config)
    return [
        VersionPlan(config=any_config, version=version, model_dir=pathlib.Path("/r/m"))
        for version in versions
    ]


def files(**times: int) -> Fingerprint:
    """An entry a keyword; its file was written then. `v1` is version 1, `config` the config file."""
    names = {"config": "config.pbtxt"}
    return {
        names.get(name, name.removeprefix("v")): frozenset([(name, time, 1)])
        for name, time in times.items()
    }


@pytest.mark.parametrize(
    ("planned", "now", "stay"),
    [
        (plans(1, 2), files(v1=1, v2=1, config=1), {1, 2}),
        (plans(1, 2, 3), files(v1=1, v2=1, v3=1, config=1), {1, 2}),
        (plans(2), files(v2=1, config=1), {2}),
        (plans(1, 2), files(v1=9, v2=1, config=1), {2}),
        (plans(1, 2), files(v1=1, v2=1, config=9), {1, 2}),
        (plans(1, 2, config="other"), files(v1=1, v2=1, config=9), set()),
        (plans(1, 2, config="config,2"), files(v1=1, v2=1, config=9), {1, 2}),
        (plans(1, 2), files(v1=1, v2=1, config=1, labels=1), set()),
    ],
    ids=[
        "nothing changed", "a version came", "a version went", "a version changed", "the config says the same",
        "the config says something else", "the config has other instances", "a shared file came",
    ],
)  # fmt: skip
def test_unchanged_versions_go_on_serving(
    planned: list[VersionPlan], now: Fingerprint, stay: set[int]
) -> None:
    serving = {plan.version: plan for plan in plans(1, 2)}
    before = files(v1=1, v2=1, config=1)
    source = LoadedFrom(HERE, now)
    assert untouched(planned, serving, before=LoadedFrom(HERE, before), now=source) == stay


def test_a_version_that_does_not_serve_is_loaded() -> None:
    same = LoadedFrom(HERE, files(v1=1, config=1))
    assert untouched(plans(1), {}, before=same, now=same) == frozenset()


def test_a_model_that_moved_to_another_repository_or_was_loaded_in_part_is_loaded() -> None:
    serving = {plan.version: plan for plan in plans(1)}
    same = files(v1=1, config=1)
    for before in (LoadedFrom(HERE, same), None):
        assert not untouched(plans(1), serving, before=before, now=LoadedFrom(ELSEWHERE, same))
