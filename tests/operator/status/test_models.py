"""Reports of models and what ModelsLoaded says of them. tests/seams holds the reports against the server's own."""

import typing

import pytest

from naiad_operator.status import ModelReport, ModelState
from naiad_operator.status.observed import AWAITED
from tests.support import manifests
from tests.support.observations import POD, READY_MODEL, condition, pod, status

Manifest = dict[str, typing.Any]


def state(
    name: str, state_: str = "UNAVAILABLE", reason: str = "", version: str = "1"
) -> ModelState:
    return ModelState(name=name, version=version, state=state_, reason=reason)


EXPLICIT = manifests.resource(
    replicas=2,
    model={"storageUri": "s3://a/b", "load": {"mode": "explicit", "models": ["magika", "typo"]}},
)
NOTHING = manifests.resource(
    replicas=2, model={"storageUri": "s3://a/b", "load": {"mode": "explicit", "models": []}}
)

CASES: dict[str, tuple[list[ModelState], tuple[str, str, str], str]] = {
    "one": ([READY_MODEL], ("True", "Loaded", "1 model is ready"), "1/1"),
    "a version that a newer one has replaced": (
        [READY_MODEL, state("m", reason="unloaded"), state("m", "READY", version="2")],
        ("True", "Loaded", "2 models are ready"),
        "2/2",
    ),
    "a version that is being replaced": (
        [state("m", "UNLOADING"), state("m", "READY", version="2")],
        ("True", "Loaded", "1 model is ready"),
        "1/1",
    ),
    "models that made room": (
        [READY_MODEL, state("a", reason="evicted"), state("b", "UNLOADING", "evicted")],
        ("True", "Loaded", "1 model is ready, 2 made room for them (--model-memory-limit)"),
        "1/1",
    ),
    "an evicted model is loaded for a request": (
        [READY_MODEL, state("a", "LOADING", "evicted")],
        ("True", "Loaded", "1 model is ready, 1 made room for them (--model-memory-limit)"),
        "1/1",
    ),
    "no model is left": (
        [state("a", reason="evicted")],
        (
            "True",
            "Loaded",
            "no model is loaded: each made room for another (--model-memory-limit), and is loaded again by its next request",
        ),
        "0/0",
    ),
    "a model loads": (
        [READY_MODEL, state("big", "LOADING", "fetching", version="")],
        ("False", "Loading", "loading model big"),
        "1/2",
    ),
    "a config cannot be used": (
        [READY_MODEL, state("m", reason="config.pbtxt:3: no such field", version="")],
        ("False", "ModelFailed", "model m: config.pbtxt:3: no such field"),
        "1/2",
    ),
    "many fail": (
        [state(name, reason="x", version="") for name in "abcd"],
        ("False", "ModelFailed", "model a: x; model b: x; model c: x; and 1 more"),
        "0/4",
    ),
    "none is ready": ([state("a")], ("False", "NoModelReady", "no model is ready"), "0/0"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_condition_and_the_count(case: str) -> None:
    models, expected, count = CASES[case]
    given = status(models=models)
    assert condition(given, "ModelsLoaded") == expected
    assert given["modelCount"] == count


def test_unloaded_versions_block_nothing() -> None:
    given = status(models=[READY_MODEL, state("m", reason="unloaded")])
    assert given["modelStatus"]["transitionStatus"] == "UpToDate"
    assert [entry["name"] for entry in given["models"]] == ["magika", "m"]


def test_a_name_that_the_repository_does_not_hold_is_reported() -> None:
    given = status(EXPLICIT, pods=[pod(phase="Running")])
    assert condition(given, "ModelsLoaded")[1:] == (
        "ModelNotFound",
        "model typo: not in the repository, although predictor.model.load.models names it",
    )
    assert condition(given)[0] == "True", "the others serve"


def test_a_pod_of_an_older_template_says_nothing_about_new_names() -> None:
    new = pod("demo-7777-aaaaa", phase="Pending")
    given = status(EXPLICIT, pods=[new], models=ModelReport(pod=POD, models=(READY_MODEL,)))
    assert condition(given, "ModelsLoaded")[1] == "Loaded"


def test_a_server_under_explicit_control_may_have_no_model() -> None:
    assert condition(status(NOTHING, models=[]), "ModelsLoaded")[:2] == ("True", "Loaded")
    assert condition(status(NOTHING, models=[]))[0] == "True"


def test_without_a_report_the_condition_is_unknown_and_says_why() -> None:
    silent = ModelReport(problem="pod a does not respond within 1 s")
    assert condition(status(models=silent), "ModelsLoaded") == (
        "Unknown",
        "NoPodReachable",
        "pod a does not respond within 1 s",
    )
    starting = ModelReport(pod="a", is_starting=True, problem="pod a has not listed its models yet")
    assert condition(status(models=starting), "ModelsLoaded")[:2] == ("Unknown", "Pending")
    assert condition(status(models=None), "ModelsLoaded")[:2] == ("Unknown", "NoPodReachable")


def test_while_the_first_response_is_awaited_the_status_stays() -> None:
    """After a restart the operator has no report yet; that changes nothing."""
    broken = state("m", reason="no such file")
    resource = manifests.resource(replicas=2)
    for models in ([READY_MODEL, broken], [broken], ModelReport(problem="pod a is silent")):
        resource["status"] = status(resource, models=models)
        assert status(resource, models=AWAITED) == resource["status"]


def test_a_new_service_whose_first_response_is_awaited_has_no_report() -> None:
    given = status(models=AWAITED)
    assert condition(given, "ModelsLoaded")[:2] == ("Unknown", "NoPodReachable")
    assert "models" not in given


def test_a_reason_of_another_release_does_not_stay() -> None:
    resource = manifests.resource(replicas=2)
    resource["status"] = status(resource)
    for one in resource["status"]["conditions"]:
        one["reason"] = "OfAnotherRelease"
    given = status(resource, models=AWAITED)
    assert condition(given, "ModelsLoaded")[:2] == ("Unknown", "NoPodReachable")
