"""Free fields with values of every wrong type: a service is built, or refused with the field's name; nothing else may happen."""

import collections.abc
import contextlib
import copy
import dataclasses
import typing

import msgspec
import pytest

from naiad_operator.api.parsing import service
from naiad_operator.builders.bundle import build
from naiad_operator.check import service as check
from naiad_operator.errors import InvalidSpec
from tests.operator.check.test_random import options
from tests.support import manifests

Object = dict[str, typing.Any]
Path = tuple[str | int, ...]

_WRONG: tuple[typing.Any, ...] = (
    None, True, 5, 1.5, -1, "x", "", [], [5], ["x"], [None], [[]], [{}], {}, {"x": 5}, {"x": None}, {"x": {"x": []}},
)  # fmt: skip

_POD: Object = {
    "metadata": {"labels": {"team": "a"}, "annotations": {"x": "y"}},
    "spec": {
        "serviceAccountName": "a",
        "nodeSelector": {"x": "y"},
        "tolerations": [{"key": "x", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        "imagePullSecrets": [{"name": "s"}],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "c", "persistentVolumeClaim": {"claimName": "c"}}],
        "initContainers": [{"name": "fetch-0", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        "containers": [
            {
                "name": "server",
                "image": "i",
                "env": [{"name": "A", "value": "b"}],
                "ports": [{"containerPort": 8000, "name": "http"}],
                "volumeMounts": [{"mountPath": "/x", "name": "c"}],
                "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1"}, "claims": [{"name": "c"}]},
            }
        ],
    },
}  # fmt: skip

_PREDICTORS: dict[str, Object] = {
    "podTemplate": {"podTemplate": _POD},
    "affinity": {
        "placement": "onePerNode",
        "accelerator": {"type": "mig", "profile": "1g.10gb"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Exists"}]}]
                }
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]},
        },
    },
    "spread": {"topologySpreadConstraints": [{"topologyKey": "x", "maxSkew": 1}]},
    "env": {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}], "envFrom": [{"secretRef": {"name": "s"}}]},
}  # fmt: skip

_SCALING: dict[str, Object] = {
    "metrics": {"class": "hpa", "metrics": [{"type": "Resource", "resource": {"name": "cpu"}}], "behavior": {"scaleUp": {"policies": []}}},
    "triggers": {"class": "keda", "triggers": [{"type": "cron", "metadata": {"timezone": "UTC"}, "authenticationRef": {"name": "a"}}]},
}  # fmt: skip


_OPTIONS = options()


def _paths(value: typing.Any, path: Path = ()) -> collections.abc.Iterator[Path]:
    if path:
        yield path
    items: typing.Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, child in items:
        yield from _paths(child, (*path, key))


def _with(value: Object, path: Path, wrong: typing.Any) -> Object:
    changed = copy.deepcopy(value)
    holder: typing.Any = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = wrong
    return changed


def _must_build_or_refuse(manifest: Object, where: str) -> None:
    facts = dataclasses.replace(manifests.facts(), requests={"cpu": "100m", "memory": "256Mi"})
    try:
        with contextlib.suppress(InvalidSpec):
            msgspec.json.encode(build(service.parse(manifest), facts))
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        pytest.fail(f"{where}: {type(error).__name__}: {error}")
    try:
        check.examine(manifest, _OPTIONS)
    except Exception as error:  # noqa: BLE001 - as above
        pytest.fail(f"check of {where}: {type(error).__name__}: {error}")


@pytest.mark.parametrize("name", _PREDICTORS)
def test_a_field_of_the_predictor(name: str) -> None:
    predictor = _PREDICTORS[name]
    for path in _paths(predictor):
        for wrong in _WRONG:
            manifest = manifests.resource(**_with(predictor, path, wrong))
            _must_build_or_refuse(manifest, f"{path}: {wrong!r}")


@pytest.mark.parametrize("name", _SCALING)
def test_a_field_of_scaling(name: str) -> None:
    for path in _paths(_SCALING[name]):
        for wrong in _WRONG:
            manifest = manifests.resource()
            manifest["spec"]["predictor"]["autoscaling"] = {
                "maxReplicas": 3,
                **_with(_SCALING[name], path, wrong),
            }
            _must_build_or_refuse(manifest, f"{path}: {wrong!r}")


@pytest.mark.parametrize("predictor", _PREDICTORS.values(), ids=_PREDICTORS)
def test_what_is_made_wrong_is_right_to_begin_with(predictor: Object) -> None:
    assert build(service.parse(manifests.resource(**predictor)), manifests.facts())


@pytest.mark.parametrize("scaling", _SCALING.values(), ids=_SCALING)
def test_scaling_that_is_made_wrong_is_right_to_begin_with(scaling: Object) -> None:
    manifest = manifests.resource()
    manifest["spec"]["predictor"]["autoscaling"] = {"maxReplicas": 3, **scaling}
    assert build(service.parse(manifest), manifests.facts())
