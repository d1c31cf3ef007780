"""What a status says of a transformer and an explainer: Ready waits for them, and their pods are not the service's."""

import typing

from naiad_operator.api.parsing import validation
from naiad_operator.api.schema import openapi
from naiad_operator.api.types.status import Status
from naiad_operator.builders.facts import CanaryFacts, ClusterFacts
from naiad_operator.status import ApiError, Conflict
from tests.support import manifests
from tests.support.observations import condition, deployment, ended, status

Manifest = dict[str, typing.Any]
IMAGE = "registry.example.com/qa:1"


def shown(
    transformer: Manifest | None, *, serves: bool = True, before: Manifest | None = None, spec: Manifest | None = None, **observed: typing.Any
) -> Manifest:  # fmt: skip
    wanted = manifests.resource(replicas=2)
    wanted["spec"] |= {"transformer": {"image": IMAGE}, **(spec or {})}
    if before is not None:
        wanted["status"] = before
    given = manifests.facts()
    facts = ClusterFacts(
        apis=given.apis,
        image=given.image,
        defaults=given.defaults,
        components={"transformer": CanaryFacts(serves=serves)},
        canary=CanaryFacts(serves=True),
    )
    children = {
        **(observed.pop("more", None) or {}),
        ("Service", "demo-transformer"): {},
        ("Deployment", "demo-transformer"): transformer,
    }
    made = status(wanted, children=children, facts=facts, **observed)
    assert validation.problems_of(openapi.schema_of(Status), made, "status") == []
    return made


def test_a_service_is_ready_with_its_transformer() -> None:
    made = shown(deployment(1))
    assert condition(made, "TransformerReady") == ("True", "Ready", "")
    assert condition(made)[0] == "True"
    assert made["transformer"] == {
        "url": "http://demo-transformer.models.svc:8080",
        "leads": True,
        "replicas": 1,
        "readyReplicas": 1,
        "updatedReplicas": 1,
        "availableReplicas": 1,
    }
    assert made["replicas"] == 2, "the servers'"
    assert made["url"] == "http://demo-transformer.models.svc:8080"


def test_ready_says_what_is_in_the_way_of_a_transformer() -> None:
    pod = ended("demo-transformer-1")
    pod["metadata"]["labels"] |= {"app.kubernetes.io/component": "transformer"}
    made = shown(deployment(1, ready=0), pods=[pod], serves=False)
    state, reason, message = condition(made, "TransformerReady")
    assert state == "False"
    assert condition(made) == ("False", reason, f"transformer: {message}")
    assert condition(made, "Available")[0] == "True"
    assert condition(made, "Progressing")[1] == "Complete", "the servers' pods are complete"


def test_a_child_of_a_transformer_that_is_refused_is_the_transformers() -> None:
    refusal = ApiError("Service", "demo-transformer", "no")
    made = shown(deployment(1), errors=[refusal])
    assert condition(made, "TransformerReady")[:2] == ("False", "ApplyFailed")
    assert condition(made, "NetworkReady")[0] == "True"


GATEWAY = {"parentRefs": [{"name": "public"}]}


def test_a_canary_is_ready_with_its_transformer_which_the_service_does_not_wait_for() -> None:
    spec = {"canary": {"weight": 10}, "gateway": GATEWAY}
    more = {("Service", "demo-canary"): {}, ("Deployment", "demo-canary"): deployment(1)}
    in_front = ("Deployment", "demo-canary-transformer")
    made = shown(deployment(1), spec=spec, more={**more, in_front: deployment(1, ready=0)})
    state, _, message = condition(made, "CanaryReady")
    assert (state, message.partition(":")[0]) == ("False", "transformer")
    assert condition(made, "TransformerReady")[0] == "True"
    assert made["canary"]["weight"] == 0
    made = shown(deployment(1), spec=spec, more={**more, in_front: deployment(1)})
    assert condition(made, "CanaryReady")[0] == "True"


def test_what_is_refused_of_the_canarys_transformer_is_the_canarys() -> None:
    spec = {"canary": {"weight": 10}, "gateway": GATEWAY}
    more = {("Service", "demo-canary"): {}, ("Deployment", "demo-canary"): deployment(1)}
    refusal = ApiError("Service", "demo-canary-transformer", "no")
    made = shown(deployment(1), spec=spec, more=more, errors=[refusal])
    assert condition(made, "CanaryReady")[:2] == ("False", "ApplyFailed")
    assert condition(made, "TransformerReady")[0] == "True"


def test_a_transformer_whose_name_another_service_has_gets_no_requests() -> None:
    taken = Conflict("Service", "demo-transformer", "belongs to InferenceService demo-transformer")
    made = shown(None, serves=False, conflicts=[taken])
    assert made["transformer"]["leads"] is False
    assert made["transformer"]["url"] == ""
    assert made["url"] == made["address"]["url"] == "http://demo.models.svc:8000"
    state, reason, message = condition(made, "TransformerReady")
    assert (state, reason) == ("False", "ResourceConflict")
    assert "Service demo-transformer exists already" in message
    assert condition(made) == ("False", reason, f"transformer: {message}")


def test_a_transformer_leads_for_ever_once_it_has() -> None:
    before = {"url": "http://a", "conditions": [], "observedGeneration": 3}
    assert shown(deployment(1), serves=False, before=before)["transformer"]["leads"] is False
    led = {**before, "transformer": {"leads": True}}
    assert shown(deployment(1), serves=False, before=led)["transformer"]["leads"] is True
