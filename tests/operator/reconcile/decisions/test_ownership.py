"""Which of a manifest's fields are still ours, told from the API server's own field sets."""

from typing import Any

import pytest

from naiad_operator.reconcile.decisions.ownership import owns, unowned_fields

MANIFEST: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "demo",
        "namespace": "ns",
        "labels": {"app": "x"},
        "ownerReferences": [{"uid": "u1", "name": "demo", "controller": True}],
    },
    "spec": {
        "replicas": 2,
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "server",
                        "args": ["a", "b"],
                        "ports": [{"containerPort": 8000}],
                        "env": [{"name": "X", "value": ""}],
                    }
                ],
                "volumes": [{"name": "tmp", "emptyDir": {}}],
            }
        },
        "finalizers": ["one"],
    },
}


def fields() -> dict[str, Any]:
    """The set that an API server keeps after applying MANIFEST."""
    container: dict[str, Any] = {
        ".": {},
        "f:name": {},
        "f:args": {},
        "f:ports": {'k:{"containerPort":8000,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
        "f:env": {'k:{"name":"X"}': {".": {}, "f:name": {}, "f:value": {}}},
    }
    pod = {
        "f:containers": {'k:{"name":"server"}': container},
        "f:volumes": {'k:{"name":"tmp"}': {".": {}, "f:name": {}, "f:emptyDir": {}}},
    }
    return {
        "f:metadata": {
            "f:labels": {"f:app": {}},
            "f:ownerReferences": {'k:{"uid":"u1"}': {}},
        },
        "f:spec": {
            "f:replicas": {},
            "f:template": {"f:spec": pod},
            "f:finalizers": {'v:"one"': {}},
        },
    }


def test_nothing_is_lost_after_an_apply() -> None:
    assert unowned_fields(MANIFEST, fields()) == []


def test_everything_is_lost_where_nothing_was_applied() -> None:
    assert unowned_fields(MANIFEST, {}) == ["metadata.labels", "metadata.ownerReferences", "spec"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("f:spec", "f:replicas"), "spec.replicas"),
        (("f:metadata", "f:labels", "f:app"), "metadata.labels.app"),
        (("f:metadata", "f:ownerReferences", 'k:{"uid":"u1"}'), "metadata.ownerReferences[demo]"),
        (("f:spec", "f:finalizers", 'v:"one"'), "spec.finalizers[one]"),
        (
            ("f:spec", "f:template", "f:spec", "f:containers", 'k:{"name":"server"}', "f:args"),
            "spec.template.spec.containers[server].args",
        ),
        (
            ("f:spec", "f:template", "f:spec", "f:volumes", 'k:{"name":"tmp"}'),
            "spec.template.spec.volumes[tmp]",
        ),
    ],
)
def test_a_field_that_another_client_took_over_is_named_by_its_path(
    path: tuple[str, ...], message: str
) -> None:
    taken = fields()
    node = taken
    for step in path[:-1]:
        node = node[step]
    # The empty set of a map means "all of it", so a map that loses its last field goes itself.
    node["f:other"] = {}
    del node[path[-1]]
    assert unowned_fields(MANIFEST, taken) == [message]


def test_a_null_in_a_manifest_is_ignored() -> None:
    assert unowned_fields({"spec": {"replicas": None}}, {"f:spec": {"f:other": {}}}) == []


def test_owns_takes_a_path() -> None:
    assert owns(fields(), "spec", "replicas")
    assert not owns(fields(), "spec", "paused")
    assert not owns({}, "spec", "replicas")
