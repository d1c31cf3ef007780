"""What a status says of a canary, and that a canary does not count for the service."""

import typing

import pytest

from naiad_operator.api.parsing import validation
from naiad_operator.api.schema import openapi
from naiad_operator.api.types.status import Status
from naiad_operator.builders.facts import CanaryFacts
from naiad_operator.status import ApiError, Conflict, ModelState
from naiad_operator.status.observed import AWAITED
from tests.operator.api.specs import gateway
from tests.support import manifests
from tests.support.observations import READY_MODEL, condition, deployment, ended, of_canary, status

Manifest = dict[str, typing.Any]

SERVES = manifests.facts(canary=CanaryFacts(serves=True))
ACCEPTED = {
    "status": {
        "parents": [
            {
                "parentRef": {"name": "g"},
                "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted"}],
            }
        ]
    }
}


def resource(**canary: typing.Any) -> Manifest:
    made = gateway(canary={"weight": 10, **canary})
    made["spec"]["predictor"]["replicas"] = 2
    return made


def shown(
    beside: Manifest | None,
    *,
    wanted: Manifest | None = None,
    facts: typing.Any = SERVES,
    **observed: typing.Any,
) -> Manifest:
    """The status with a Deployment of the canary, which is valid as the definition has it."""
    children = {
        ("HTTPRoute", "demo"): ACCEPTED,
        ("Service", "demo-canary"): {},
        ("Deployment", "demo-canary"): beside,
    }
    made = status(wanted or resource(), children=children, facts=facts, **observed)
    assert validation.problems_of(openapi.schema_of(Status), made, "status") == []
    return made


def test_a_canary_that_serves_is_ready_and_shows_its_share() -> None:
    made = shown(deployment(1), canary_models=(READY_MODEL, READY_MODEL))
    assert condition(made, "CanaryReady") == ("True", "Ready", "the canary gets 10 of 100 requests")
    assert condition(made, "CanaryModelsLoaded")[0] == "True"
    assert condition(made) == ("True", "Ready", "")
    assert made["replicas"] == 2
    beside = made["canary"]
    assert (beside["weight"], beside["replicas"], beside["readyReplicas"]) == (10, 1, 1)
    assert (beside["modelCount"], made["modelCount"]) == ("2/2", "1/1")
    assert beside["image"] == manifests.DEFAULTS.image


def test_a_service_without_a_canary_says_nothing_of_one() -> None:
    made = status()
    assert "canary" not in made
    assert not [one for one in made["conditions"] if "Canary" in one["type"]]


def test_a_canary_that_fails_is_reported_and_the_service_is_ready() -> None:
    pods = [of_canary(ended("error: no such tensor\n"))]
    made = shown(deployment(1, ready=0), pods=pods, canary_models=None, facts=manifests.facts())
    value, reason, message = condition(made, "CanaryReady")
    assert (value, reason) == ("False", "CrashLoopBackOff")
    assert message.endswith("error: no such tensor")
    assert condition(made) == ("True", "Ready", "")
    assert made["modelStatus"]["copies"]["failedCopies"] == 0
    assert made["canary"]["weight"] == 0


def test_a_service_that_fails_leaves_its_canary_ready() -> None:
    made = shown(deployment(1), pods=[ended("error: no such tensor\n")], models=None)
    made_of_main = status(
        resource(),
        children={("Deployment", "demo"): deployment(2, ready=0), ("HTTPRoute", "demo"): ACCEPTED},
        pods=[ended("error: no such tensor\n")],
        models=None,
    )
    assert condition(made_of_main)[1] == "CrashLoopBackOff"
    assert condition(made, "CanaryReady")[0] == "True"


def test_a_model_that_fails_in_the_canary_is_the_canarys() -> None:
    bad = ModelState(name="m", version="2", state="UNAVAILABLE", reason="no file model.onnx")
    made = shown(deployment(1, ready=0), canary_models=(READY_MODEL, bad), facts=manifests.facts())
    assert condition(made, "CanaryModelsLoaded")[:2] == ("False", "ModelFailed")
    assert condition(made, "CanaryReady")[1:] == (
        "ModelFailed",
        "model m version 2: no file model.onnx",
    )
    assert condition(made, "ModelsLoaded")[0] == "True"
    assert condition(made)[0] == "True"


@pytest.mark.parametrize("kind", ["Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget"])
def test_an_object_of_the_canary_that_is_in_the_way_is_the_canarys(kind: str) -> None:
    there = None if kind == "Deployment" else deployment(1)
    made = shown(there, conflicts=[Conflict(kind, "demo-canary", "")])
    assert condition(made, "CanaryReady")[:2] == ("False", "ResourceConflict")
    assert condition(made) == ("True", "Ready", "")


def test_a_refused_object_of_the_service_is_not_the_canarys() -> None:
    made = shown(deployment(1), errors=[ApiError("Service", "demo", "no address left")])
    assert condition(made)[1] == "ApplyFailed"
    assert condition(made, "CanaryReady")[0] == "True"


def test_a_pod_of_a_removed_canary_that_still_ends_is_not_the_services() -> None:
    made = status(pods=[of_canary(ended("error: gone\n"))])
    assert condition(made) == ("True", "Ready", "")


def test_a_pod_of_the_canary_that_ends_does_not_fail_a_rollout_of_the_service() -> None:
    rolling = {("Deployment", "demo"): deployment(2, ready=1)}
    made = status(children=rolling, pods=[of_canary(ended("error: bad\n"))], models=None)
    assert condition(made)[1] == "RollingOut"
    made = status(children=rolling, pods=[ended("error: bad\n")], models=None)
    assert condition(made)[1] == "CrashLoopBackOff"


def test_an_autoscaler_of_the_canary_that_cannot_scale_is_the_canarys() -> None:
    wanted = resource(autoscaling={"class": "keda", "pendingRequests": 8})
    facts = manifests.facts(
        missing=["keda.sh/v1alpha1/ScaledObject"], canary=CanaryFacts(serves=True)
    )
    made = shown(deployment(1), wanted=wanted, facts=facts)
    assert condition(made, "CanaryReady")[1] == "KedaMissing"
    assert condition(made)[0] == "True"


def test_a_suspended_service_has_a_suspended_canary() -> None:
    wanted = resource()
    wanted["spec"]["suspend"] = True
    made = shown(deployment(0), wanted=wanted, facts=manifests.facts())
    assert condition(made, "CanaryReady")[:2] == ("False", "Suspended")


def test_while_the_canarys_first_response_is_awaited_its_status_stays() -> None:
    wanted = resource()
    broken = ModelState(name="m", version="1", state="UNAVAILABLE", reason="no such file")
    wanted["status"] = shown(deployment(1), wanted=wanted, canary_models=(READY_MODEL, broken))
    assert condition(wanted["status"], "CanaryModelsLoaded")[1] == "ModelFailed"
    assert shown(deployment(1), wanted=wanted, canary_models=AWAITED) == wanted["status"]
