"""Fields that a profile enforces: a service changes them neither in its own fields nor by podTemplate."""

import typing

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.api.types.policy import Enforceable
from naiad_operator.builders import build
from naiad_operator.builders.policy import enforced
from naiad_operator.errors import InvalidSpec
from tests.operator.builders.policy.test_restricted import profile
from tests.support import manifests

Object = dict[str, typing.Any]

HELD: Object = {
    "image": "platform:1", "serviceAccountName": "models", "automountServiceAccountToken": False, "priorityClassName": "low", "runtimeClassName": "gvisor",
    "nodeSelector": {"pool": "tenants"}, "tolerations": [{"key": "tenants", "operator": "Exists"}], "affinity": {"nodeAffinity": {}},
    "labels": {"cost": "a"}, "annotations": {"audit": "yes"}, "env": [{"name": "PROXY", "value": "http://proxy"}], "args": ["--log-verbose=0"],
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "4Gi"}}, "imagePullSecrets": [{"name": "registry"}],
    "envFrom": [{"configMapRef": {"name": "platform"}}], "storage": {"s3": {"secretName": "s3"}}, "cache": {"size": "1Gi"},
    "prometheus": {"address": "http://platform"}, "podSecurityContext": {"runAsNonRoot": True}, "serverVersion": "0.2.0",
}  # fmt: skip


def holding(*fields: str, **held: typing.Any) -> service.Profile:
    policy = {"namespaces": {"names": ["models"]}, "enforced": list(fields)}
    return profile(policy=policy, **(held or HELD))


def refused(given: Object, of: service.Profile) -> dict[str, str]:
    try:
        build(service.parse(given, of), manifests.facts())
    except InvalidSpec as invalid:
        return {problem.path: problem.message for problem in invalid.problems}
    return {}


KEDA: Object = {"class": "keda", "queueTimeMs": 5}
S3: Object = {"storageUri": "s3://a"}
CHANGED: list[tuple[str, Object, str]] = [
    ("image", {"image": "mine:1"}, "image"),
    ("serverVersion", {"serverVersion": "0.1.0"}, "serverVersion"),
    ("serviceAccountName", {"serviceAccountName": "admin"}, "serviceAccountName"),
    ("automountServiceAccountToken", {"automountServiceAccountToken": True}, "automountServiceAccountToken"),
    ("priorityClassName", {"priorityClassName": "high"}, "priorityClassName"),
    ("runtimeClassName", {"runtimeClassName": "runc"}, "runtimeClassName"),
    ("nodeSelector", {"nodeSelector": {"pool": "others"}}, "nodeSelector[pool]"),
    ("tolerations", {"tolerations": [{"operator": "Exists"}]}, "tolerations"),
    ("affinity", {"affinity": {"podAffinity": {}}}, "affinity"),
    ("env", {"env": [{"name": "PROXY", "value": "mine"}]}, "env[PROXY]"),
    ("envFrom", {"envFrom": [{"secretRef": {"name": "a"}}]}, "envFrom"),
    ("args", {"args": ["--log-info=1", "--log-verbose=1"]}, "args[1]"),
    ("args", {"args": ["--log-verb=1"]}, "args[0]"),
    ("resources", {"resources": {"requests": {"cpu": "9"}}}, "resources.requests[cpu]"),
    ("resources", {"resources": {"limits": {"cpu": "9"}}}, "resources.limits[cpu]"),
    ("imagePullSecrets", {"imagePullSecrets": [{"name": "other"}]}, "imagePullSecrets"),
    ("storage", {"model": {**S3, "storage": {"secretName": "mine"}}}, "model.storage"),
    ("cache", {"model": {**S3, "cache": {"size": "9Gi"}}}, "model.cache"),
    ("prometheus", {"autoscaling": {**KEDA, "prometheusAddress": "http://mine"}}, "autoscaling.prometheusAddress"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "predictor", "path"), CHANGED, ids=lambda value: str(value)[:50])
def test_a_field_of_a_service_that_changes_what_is_enforced_is_named_with_the_profile(
    field: str, predictor: Object, path: str
) -> None:
    given = manifests.resource(**predictor)
    [(where, message)] = refused(given, holding(field)).items()
    assert where == f"spec.predictor.{path}"
    assert (
        message
        == f"the NaiadProfile platform enforces {field}, which a service cannot change: leave it out"
    )
    others = [one for one in typing.get_args(Enforceable) if one != field]
    assert refused(given, holding(*others)) == {}


@pytest.mark.parametrize("where", ["labels", "monitoring"])
def test_labels_are_enforced_wherever_a_service_has_some(where: str) -> None:
    given = manifests.resource()
    labels = {"cost": "mine", "team": "a"}
    given["spec"][where] = labels if where == "labels" else {"podMonitor": True, "labels": labels}
    path = "spec.labels[cost]" if where == "labels" else "spec.monitoring.labels[cost]"
    assert list(refused(given, holding("labels"))) == [path]


def test_annotations_are_enforced_wherever_a_service_has_some() -> None:
    given = manifests.resource()
    mine = {"audit": "no", "x": "y"}
    given["spec"] |= {
        "annotations": mine,
        "service": {"annotations": mine},
        "ingress": {"enabled": True, "host": "a.example.com", "grpcHost": "b.example.com", "annotations": mine, "grpcAnnotations": mine},
    }  # fmt: skip
    assert list(refused(given, holding("annotations"))) == [
        "spec.annotations[audit]", "spec.service.annotations[audit]", "spec.ingress.annotations[audit]", "spec.ingress.grpcAnnotations[audit]",
    ]  # fmt: skip


PATCHES: list[tuple[str, Object]] = [
    ("image", {"containers": [{"name": "server", "image": "mine"}]}),
    ("image", {"containers": [{"name": "server", "command": ["sh"]}]}),
    ("args", {"containers": [{"name": "server", "args": ["--log-verbose=1"]}]}),
    ("env", {"containers": [{"name": "server", "env": [{"name": "PROXY", "value": "mine"}]}]}),
    ("envFrom", {"containers": [{"name": "server", "envFrom": None}]}),
    ("resources", {"containers": [{"name": "server", "resources": {"limits": {"memory": "64Gi"}}}]}),
    ("resources", {"containers": [{"name": "server", "$patch": "delete"}]}),
    ("nodeSelector", {"nodeSelector": {"pool": None}}),
    ("nodeSelector", {"nodeName": "master"}),
    ("tolerations", {"tolerations": [{"operator": "Exists"}]}),
    ("affinity", {"affinity": None}),
    ("priorityClassName", {"priorityClassName": "high"}),
    ("runtimeClassName", {"runtimeClassName": None}),
    ("serviceAccountName", {"serviceAccountName": "admin"}),
    ("automountServiceAccountToken", {"automountServiceAccountToken": True}),
    ("imagePullSecrets", {"imagePullSecrets": [{"name": "other"}]}),
    ("podSecurityContext", {"securityContext": {"runAsUser": 5}}),
    ("cache", {"volumes": [{"name": "cache", "emptyDir": {"sizeLimit": "1Ti"}}]}),
]  # fmt: skip


@pytest.mark.parametrize(("field", "spec"), PATCHES, ids=lambda value: str(value)[:50])
def test_a_patch_does_not_change_what_is_enforced(field: str, spec: Object) -> None:
    given = manifests.resource(podTemplate={"spec": spec})
    [(where, message)] = refused(given, holding(field)).items()
    assert where == "spec.predictor.podTemplate"
    assert message.endswith(f"of the pods: the NaiadProfile platform enforces {field}, which a service cannot change")  # fmt: skip


def test_what_is_repeated_or_added_beside_what_is_enforced_is_allowed() -> None:
    every = holding(*typing.get_args(Enforceable))
    repeated = {
        "image": "platform:1",
        "priorityClassName": "low",
        "resources": {"requests": {"cpu": "1"}},
    }
    added = {
        "nodeSelector": {"disk": "ssd"},
        "env": [{"name": "A", "value": "b"}],
        "args": ["--model-load-thread-count=2"],
    }
    given = manifests.resource(**repeated, **added)
    given["spec"]["labels"] = {"team": "a"}
    assert refused(given, every) == {}
    patch = {"spec": {"containers": [{"name": "server", "env": [{"name": "B", "value": "c"}]}]}}
    assert refused(manifests.resource(podTemplate=patch), every) == {}


@pytest.mark.parametrize(("field", "predictor", "path"), CHANGED, ids=lambda value: str(value)[:50])
def test_a_field_that_is_enforced_and_that_the_profile_does_not_have_may_not_be_set(
    field: str, predictor: Object, path: str
) -> None:
    given = manifests.resource(**predictor)
    found = refused(given, holding(field, default=False))
    assert f"spec.predictor.{path}" in found


def test_the_fields_of_a_canary_are_the_predictor_s() -> None:
    given = manifests.resource()
    given["spec"] |= {
        "gateway": {"parentRefs": [{"name": "a"}], "hostnames": ["a.example.com"]},
        "canary": {"weight": 5, "image": "mine:2"},
    }
    assert list(refused(given, holding("image"))) == ["spec.canary.image"]


def test_every_field_that_can_be_enforced_is_looked_for_in_the_pods() -> None:
    assert enforced._POD_FIELDS.keys() == set(typing.get_args(Enforceable))
