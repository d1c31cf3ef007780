"""`naiad-operator check` on documents with values of any type anywhere: it always reports findings, and never ends with an exception."""

import argparse
import collections.abc
import copy
import typing

import hypothesis
import pytest
from hypothesis import strategies

from naiad_operator.api import names
from naiad_operator.api.manifests import yaml_text
from naiad_operator.check import command, service
from tests.support import fast_yaml, manifests

Object = dict[str, typing.Any]
Steps = tuple[typing.Any, ...]

VALUES: tuple[typing.Any, ...] = (
    None, True, 0, -1, 1.5, 10**30, "", "a", "a b", "s3://", "0%", "9" * 400, "$(A)", "\n",
    [], {}, [1], [None], [{}], [["a"]], ["--"], ["--http-restricted-api"], {"a": 1}, {"": ""}, {"name": None}, {"name": ["a"], "type": "cpu"},
    [{"name": {"a": 1}}], [{"name": "server"}],
)  # fmt: skip
PROFILE: Object = {
    "apiVersion": names.API_VERSION,
    "kind": names.PROFILE_KIND,
    "metadata": {"name": "platform", "labels": {"team": "a"}},
    "spec": {
        "image": "a:1",
        "args": ["--log-verbose=1"],
        "env": [{"name": "A", "value": "b"}],
        "resources": {"requests": {"cpu": 1}, "limits": {"memory": "4Gi"}},
        "storage": {"s3": {"secretName": "a"}},
        "cache": {"type": "emptyDir", "size": "1Gi"},
        "prometheus": {"address": "http://a", "auth": {"name": "a"}},
        "tolerations": [{"key": "a"}],
        "affinity": {"nodeAffinity": {}},
        "podTemplate": {"metadata": {"labels": {}}, "spec": {"containers": [{"name": "server"}]}},
        "labels": {"team": "a"},
        "nodeSelector": {"pool": "a"},
    },
}


def places(value: typing.Any, above: Steps = ()) -> collections.abc.Iterator[Steps]:
    """Where a document has a value."""
    items: collections.abc.Iterable[tuple[typing.Any, typing.Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for step, inner in items:
        yield (*above, step)
        yield from places(inner, (*above, step))


@strategies.composite
def documents(draw: strategies.DrawFn, valid: Object) -> Object:
    """A valid document in which up to three values are replaced."""
    changed = copy.deepcopy(valid)
    for _ in range(draw(strategies.integers(1, 3))):
        *above, last = draw(strategies.sampled_from(list(places(changed))))
        parent = changed
        for step in above:
            parent = parent[step]
        parent[last] = copy.deepcopy(draw(strategies.sampled_from(VALUES)))
    return changed


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    return parser.parse_args(["-f", "-"])


@pytest.mark.parametrize("path", manifests.INPUTS, ids=lambda path: path.stem)
@hypothesis.settings(max_examples=hypothesis.settings().max_examples // 3)  # there are sixty inputs
@hypothesis.given(data=strategies.data())
def test_a_service_with_any_value_anywhere(path: typing.Any, data: strategies.DataObject) -> None:
    document = data.draw(documents(fast_yaml.read(path.read_text())[0]))
    children, findings = service.examine(document, options())
    yaml_text.write(children)
    assert children or any(not one.is_warning for one in findings)


@hypothesis.given(document=documents(PROFILE))
@hypothesis.settings(max_examples=hypothesis.settings().max_examples * 3)
def test_a_profile_with_any_value_anywhere(document: Object) -> None:
    assert all(str(one) for one in service.examine_profile(document, options()))


@pytest.mark.parametrize(
    "predictor",
    [
        {"env": -1, "model": {"storageUri": "s3://a", "storage": {"endpoint": "https://a:9000"}}},
        {"resources": {"limits": {"memory": 10**30}}},
        {"autoscaling": {"class": "hpa", "metrics": [{"type": "Resource", "resource": {"name": ["a"], "target": {"type": "Utilization"}}}]}},
        {"autoscaling": {"class": "keda", "triggers": [{"type": ["cpu"], "metadata": [1]}]}},
    ],
)  # fmt: skip
def test_values_that_once_ended_it(predictor: Object) -> None:
    _, findings = service.examine(manifests.resource(**predictor), options())
    assert all(str(one) for one in findings)
