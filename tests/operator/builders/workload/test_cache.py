"""A cache that stays: on a claim, and on the node, where the pods of a namespace share what they download."""

import dataclasses
import typing

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.api.parsing.service import Profile
from naiad_operator.builders import build
from naiad_operator.builders.facts import STRICT
from naiad_operator.errors import InvalidSpec
from tests.support import manifests

Object = dict[str, typing.Any]

NODE = {"type": "hostPath", "path": "/var/lib/naiad", "size": "10Gi"}
DIRECTORY = "--repository-cache-directory=/var/cache/naiad/objects"
BYTES = f"--repository-cache-bytes={10 << 30}"


def profile(**fields: typing.Any) -> Profile:
    return service.parse_profile(
        {
            "apiVersion": "serving.naiad.dev/v1alpha1",
            "kind": "NaiadProfile",
            "metadata": {"name": "nodes"},
            "spec": fields,
        }
    )


def pod(of: Profile | None = None, **model: typing.Any) -> Object:
    """The pod's spec, as new installations have it."""
    facts = manifests.facts()
    facts = dataclasses.replace(facts, defaults=dataclasses.replace(facts.defaults, policy=STRICT))
    manifest = manifests.resource(
        model={"storageUri": "s3://a/b", **model}, accelerator={"type": "none"}
    )
    [made] = [
        one for one in build(service.parse(manifest, of), facts) if one["kind"] == "Deployment"
    ]
    found: Object = made["spec"]["template"]["spec"]
    return found


def test_a_profile_names_the_folder_and_each_namespace_has_its_own_part() -> None:
    made = pod(profile(cache=NODE))
    [volume] = [one for one in made["volumes"] if one["name"] == "cache"]
    assert volume["hostPath"] == {"path": "/var/lib/naiad", "type": "Directory"}
    [server] = made["containers"]
    [mount] = [one for one in server["volumeMounts"] if one["name"] == "cache"]
    assert mount == {"name": "cache", "mountPath": "/var/cache/naiad", "subPath": "models"}
    assert server["args"][1:3] == [DIRECTORY, BYTES]
    assert "ephemeral-storage" not in server.get("resources", {}).get("requests", {})


def test_a_service_cannot_name_a_folder_of_the_node() -> None:
    with pytest.raises(InvalidSpec) as refused:
        pod(cache=NODE)
    [problem] = refused.value.problems
    assert problem.path == "spec.predictor.model.cache.type"
    assert "ask for a profile that has this cache" in problem.message


def test_an_init_container_fetches_by_way_of_the_cache_into_a_folder_of_the_pod() -> None:
    made = pod(profile(cache=NODE), delivery="init")
    [fetch] = made["initContainers"]
    assert fetch["args"] == ["s3://a/b", "--to=/mnt/fetched/0", DIRECTORY, BYTES]
    [server] = made["containers"]
    assert "--model-repository=/mnt/fetched/0" in server["args"]
    assert DIRECTORY not in server["args"]


def test_a_claim_keeps_what_the_server_downloads() -> None:
    [server] = pod(cache={"type": "pvc", "claimName": "cache"})["containers"]
    assert server["args"][1] == DIRECTORY
    assert BYTES not in server["args"]


@pytest.mark.parametrize(
    "model",
    [
        {"cache": {"size": "1Gi"}},
        {"storageUri": "pvc://a", "cache": {"type": "pvc", "claimName": "cache"}},
        {"delivery": "init", "cache": {"type": "pvc", "claimName": "cache"}},
        {},
    ],
)
def test_others_need_no_folder_that_stays(model: Object) -> None:
    [server] = pod(**model)["containers"]
    assert DIRECTORY not in server["args"]
