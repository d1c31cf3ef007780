"""Environments of models: EXECUTION_ENV_PATH as a folder and as a tarball, and invalid paths (row 15.30).

The worker's interpreter is not part of the comparison: the reference's stub holds one, and Naiad takes the environment's.
"""

import json

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, infer
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers.environments import WORD


def _asks(variable: str) -> dict[str, object]:
    return {"inputs": [value("VARIABLE", "BYTES", [1], [variable])]}


def _reported(target: Target, model: str) -> Answer:
    return target.infer(model, _asks("ENV_WORD")).report()


def _refused(target: Target, model: str) -> Answer:
    index = json.loads(target.http("POST", "/v2/repository/index").body)
    entries = [entry for entry in index if entry["name"] == model]
    told = [line for line in target.process.output().splitlines() if model in line]
    return {
        "served": any(entry.get("state") == "READY" for entry in entries),
        "error": " ".join(str(entry.get("reason", "")) for entry in entries) + "\n".join(told),
    }


SERVED = [
    Scenario(
        f"environment: {name}",
        ("15.30",),
        lambda target, model=model: _reported(target, model),  # type: ignore[misc]  # a default binds it
        expect={"report.ENV_WORD": word},
        server="environments",
    )
    for name, model, word in (
        ("a folder", "env_folder", WORD),
        ("a tarball in the model's folder", "env_tarball", WORD),
        ("an empty path does not count", "env_none", None),
    )
]

REFUSED = [
    Scenario(
        f"environment refused: {name}",
        ("15.30",),
        lambda target, model=model: _refused(target, model),  # type: ignore[misc]  # as above
        says=says or None,
        expect={"served": False},
        server="environments",
    )
    for name, model, says in (
        ("nothing there", "env_missing", "Failed to get the canonical path for"),
        ("no activate", "env_no_activate", "should contain an 'activate' script"),
        ("outside of the model's folder", "env_outside", ""),
    )
]

SCENARIOS = [
    *SERVED,
    *REFUSED,
    infer(
        "environment: others are served beside broken ones",
        "15.30",
        "env_none",
        _asks("NONESUCH"),
        status=200,
        server="environments",
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_environments_of_models_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
