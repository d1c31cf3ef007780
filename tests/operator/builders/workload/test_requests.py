"""Default requests: for what nothing is said of, in new pods alone."""

import dataclasses
import typing

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.builders.workload import image, pod, requests
from tests.support import manifests

Object = dict[str, typing.Any]
DEFAULTS = {"cpu": "100m", "memory": "256Mi"}


def containers(**predictor: typing.Any) -> dict[str, Object]:
    """The resources of a service's containers, by their names."""
    facts = dataclasses.replace(manifests.facts(), requests=DEFAULTS)
    made = pod.template(service.parse(manifests.resource(**predictor)), facts)["spec"]
    every = [*made.get("initContainers", []), *made["containers"]]
    return {one["name"]: one.get("resources", {}) for one in every}


def test_a_pod_of_which_nothing_is_said_is_not_best_effort() -> None:
    assert containers(accelerator={"type": "none"}) == {"server": {"requests": DEFAULTS}}
    gpu = containers()["server"]
    assert gpu["requests"] == DEFAULTS
    assert gpu["limits"] == {"nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ({"requests": {"cpu": "2"}}, {"cpu": "2", "memory": "256Mi"}),
        ({"requests": {"cpu": "2", "memory": "1Gi"}}, {"cpu": "2", "memory": "1Gi"}),
        # Kubernetes takes the limit for the request, which the default could be above.
        ({"limits": {"memory": "128Mi"}}, {"cpu": "100m"}),
    ],
)
def test_what_the_service_says_stays(resources: Object, wanted: Object) -> None:
    assert containers(resources=resources)["server"]["requests"] == wanted


def test_what_a_pod_template_says_stays() -> None:
    patch = {
        "containers": [
            {"name": "server", "resources": {"limits": {"memory": "128Mi"}, "requests": {"cpu": "1"}}},
            {"name": "proxy", "image": "proxy:1"},
        ]
    }  # fmt: skip
    made = containers(accelerator={"type": "none"}, podTemplate={"spec": patch})
    assert made["server"] == {"limits": {"memory": "128Mi"}, "requests": {"cpu": "1"}}
    assert made["proxy"] == {}, "containers of the user's are the user's"
    whole = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    made = containers(accelerator={"type": "none"}, podTemplate={"spec": whole})
    assert made["server"] == {}


def test_containers_that_fetch_models_have_them_too() -> None:
    made = containers(model={"storageUri": "s3://models/production", "delivery": "init"})
    assert made["fetch-0"]["requests"] == DEFAULTS


def test_pods_keep_what_they_were_made_with_until_an_edit() -> None:
    before = service.parse(manifests.resource())
    edited = service.parse(manifests.resource(args=["--log-verbose=1"]))
    for recorded in ("", "cpu=1"):
        made_from = image.Recorded("server:1", image.pods_hash(before), requests=recorded)
        assert requests.chosen(before, DEFAULTS, made_from) == requests.read(recorded)
        assert requests.chosen(edited, DEFAULTS, made_from) == DEFAULTS
    assert requests.chosen(before, DEFAULTS, None) == DEFAULTS


def test_they_are_read_as_they_are_written() -> None:
    assert requests.read(" memory=1024Mi, cpu=0.1,") == {"memory": "1Gi", "cpu": "100m"}
    assert requests.read("") == {}
    assert requests.write({"memory": "1Gi", "cpu": "100m"}) == "cpu=100m,memory=1Gi"


@pytest.mark.parametrize("text", ["cpu", "gpu=1", "cpu=-1", "cpu=lots", "memory=1GB", "cpu = 1"])
def test_a_wrong_text_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}'"):
        requests.read(text)
