"""Errors of failed loads (rows 7.11, 7.12)."""

import pytest

from naiad.core.request import LATEST
from naiad.errors import ErrorCode
from naiad.repository.errors import failed_load, failed_plan, not_served
from naiad.repository.lifecycle import State
from naiad.repository.plan import ModelPlan
from naiad.repository.version import VersionState


def test_a_config_that_cannot_be_used_is_a_failed_poll() -> None:
    error = failed_plan(ModelPlan(name="m", reason="config.pbtxt:1:1: no"), serving=False)
    assert error.code is ErrorCode.INTERNAL
    assert error.message == (
        "failed to load 'm', failed to poll from model repository: config.pbtxt:1:1: no"
    )


def test_a_version_with_invalid_files_is_a_failed_load() -> None:
    error = failed_plan(
        ModelPlan(name="m", reason="model.py: no", failed_versions={3: "model.py: no"}),
        serving=True,
    )
    assert error.code is ErrorCode.INVALID_ARG
    assert error.message == (
        "load failed for model 'm': version 3 is at UNAVAILABLE state: model.py: no; What was loaded before goes on serving."
    )


@pytest.mark.parametrize("serving", [False, True])
def test_every_version_that_failed_is_named(*, serving: bool) -> None:
    message = failed_load("m", {1: "a", 2: "b"}, serving=serving).message
    versions = "version 1 is at UNAVAILABLE state: a;version 2 is at UNAVAILABLE state: b;"
    assert versions in message
    assert ("goes on serving" in message) is serving


def test_a_model_without_a_version_is_a_failed_load() -> None:
    plan = ModelPlan(name="m", reason="at least one version must be", without_version=True)
    error = failed_plan(plan, serving=False)
    assert error.code is ErrorCode.INVALID_ARG
    assert error.message == "load failed for model 'm': at least one version must be"


def test_the_reason_of_a_config_comes_before_those_of_versions_that_were_unloaded() -> None:
    unloaded = VersionState(name="m", version=1, state=State.UNAVAILABLE, reason="unloaded")
    plan = ModelPlan(name="m", reason="config.pbtxt:1:1: no")
    latest, first = (
        not_served("m", version, {1: unloaded}, plan=plan, ready=()) for version in (LATEST, 1)
    )
    assert latest.message == (
        "Request for unknown model: 'm' has no available versions: config.pbtxt:1:1: no"
    )
    assert first.code is ErrorCode.UNAVAILABLE
