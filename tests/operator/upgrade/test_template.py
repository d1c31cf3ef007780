"""Templates that are compared, and what an operator owns of a live one."""

import typing

import pytest

from naiad_operator.upgrade.template import Difference, applied_part, differences

Object = dict[str, typing.Any]


def container(name: str = "server", **fields: typing.Any) -> Object:
    return {"spec": {"containers": [{"name": name, **fields}]}}


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({}, {}, []),
        (container(args=["a"]), container(args=["a", "b"]), ["spec.containers[server].args"]),
        (container(), container(image="x"), ["spec.containers[server].image"]),
        (container("old"), container("new"), ["spec.containers[old]", "spec.containers[new]"]),
        (container(env=[]), container(env=[{"name": "A"}]), ["spec.containers[server].env"]),
        (
            container(volumeMounts=[{"mountPath": "/a", "readOnly": True}]),
            container(volumeMounts=[{"mountPath": "/a", "readOnly": False}]),
            ["spec.containers[server].volumeMounts[/a].readOnly"],
        ),
        (
            container(ports=[{"name": "a"}, {"name": "a"}]),
            container(ports=[{"name": "a"}]),
            ["spec.containers[server].ports"],
        ),
    ],
)
def test_what_differs_is_named_by_its_path(before: Object, after: Object, paths: list[str]) -> None:
    assert [difference.path for difference in differences(before, after)] == paths


def test_a_difference_has_both_values() -> None:
    assert differences({"a": 1, "b": {"c": 2}}, {"b": {"c": 3}}) == [
        Difference("a", 1, None),
        Difference("b.c", 2, 3),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"cpu": "1000m"}, {"cpu": "1"}),
        ({"cpu": 1}, {"cpu": "1"}),
        ({"memory": "1024Mi"}, {"memory": "1Gi"}),
        ({"a": None}, {}),
    ],
)
def test_another_notation_is_no_difference(before: Object, after: Object) -> None:
    """A value as the API server stores it, and as it was written."""
    assert differences(before, after) == []
    assert differences(after, before) == []


def test_the_applied_part_leaves_out_defaults_and_other_managers_fields() -> None:
    live = {
        "metadata": {"annotations": {"ours": "1", "restartedAt": "now"}, "labels": {}},
        "spec": {
            "containers": [
                {
                    "name": "server",
                    "args": ["--a"],
                    "imagePullPolicy": "Always",
                    "ports": [{"containerPort": 8000, "protocol": "TCP", "name": "http"}],
                    "volumeMounts": [{"mountPath": "/a", "name": "a"}],
                },
                {"name": "sidecar", "image": "theirs"},
            ],
            "volumes": [{"name": "a", "emptyDir": {}}],
            "restartPolicy": "Always",
        },
    }
    fields = {
        "f:metadata": {"f:annotations": {"f:ours": {}}, "f:labels": {".": {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"server"}': {
                    ".": {},
                    "f:name": {},
                    "f:args": {},
                    "f:ports": {
                        'k:{"containerPort":8000,"protocol":"TCP"}': {
                            ".": {},
                            "f:containerPort": {},
                            "f:name": {},
                            "f:protocol": {},
                        }
                    },
                    "f:volumeMounts": {
                        'k:{"mountPath":"/a"}': {".": {}, "f:mountPath": {}, "f:name": {}}
                    },
                }
            },
            "f:volumes": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:emptyDir": {}}},
        },
    }
    assert applied_part(live, fields) == {
        "metadata": {"annotations": {"ours": "1"}, "labels": {}},
        "spec": {
            "containers": [
                {
                    "name": "server",
                    "args": ["--a"],
                    "ports": [{"containerPort": 8000, "protocol": "TCP", "name": "http"}],
                    "volumeMounts": [{"mountPath": "/a", "name": "a"}],
                }
            ],
            "volumes": [{"name": "a", "emptyDir": {}}],
        },
    }
