"""`podTemplate`: what merges, what is replaced, what is taken away."""

import copy
import typing

import pytest

from naiad_operator.builders.workload.merge import PatchError, strategic

BASE: dict[str, typing.Any] = {
    "metadata": {"labels": {"a": "1"}},
    "spec": {
        "containers": [
            {
                "name": "server",
                "image": "one",
                "args": ["--a", "--b"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 8000, "name": "http"}],
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            }
        ],
        "tolerations": [{"key": "nvidia.com/gpu"}],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    },
}


def patched(spec: dict[str, typing.Any]) -> dict[str, typing.Any]:
    merged: dict[str, typing.Any] = strategic(BASE, {"spec": spec})["spec"]
    return merged


def test_a_container_merges_by_its_name() -> None:
    (server,) = patched({"containers": [{"name": "server", "env": [{"name": "B", "value": "3"}]}]})[
        "containers"
    ]
    assert server["image"] == "one"
    assert server["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]


def test_a_container_of_another_name_is_added() -> None:
    names = [c["name"] for c in patched({"containers": [{"name": "sidecar"}]})["containers"]]
    assert names == ["server", "sidecar"]


def test_mounts_merge_by_their_path_and_ports_by_their_number() -> None:
    patch = {
        "name": "server",
        "volumeMounts": [{"mountPath": "/tmp", "readOnly": True}],
        "ports": [{"containerPort": 9, "name": "x"}],
    }
    (server,) = patched({"containers": [patch]})["containers"]
    assert server["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp", "readOnly": True}]
    assert [port["containerPort"] for port in server["ports"]] == [8000, 9]


def test_lists_without_names_are_replaced() -> None:
    spec = patched({"tolerations": [], "containers": [{"name": "server", "args": ["--c"]}]})
    assert spec["tolerations"] == []
    assert spec["containers"][0]["args"] == ["--c"]


def test_null_takes_a_field_away() -> None:
    assert "tolerations" not in patched({"tolerations": None})


def test_a_mapping_in_place_of_a_text_is_taken_as_it_is() -> None:
    merged = strategic({"a": "text"}, {"a": {"b": 1, "c": None}})
    assert merged == {"a": {"b": 1}}


def test_nothing_of_the_input_is_changed() -> None:
    before = copy.deepcopy(BASE)
    patched({"containers": [{"name": "server", "env": [{"name": "B", "value": "3"}]}]})
    assert before == BASE


def test_a_list_of_which_nothing_is_left_is_dropped() -> None:
    gone = [{"name": "a", "$patch": "delete"}]
    assert strategic({}, {"initContainers": gone}) == {}
    assert strategic({"volumes": [{"name": "a"}]}, {"volumes": gone}) == {}


def test_an_entry_that_is_to_go_goes() -> None:
    spec = patched({"containers": [{"name": "server", "env": [{"name": "A", "$patch": "delete"}]}]})
    assert [v["name"] for v in spec["containers"][0]["env"]] == ["B"]
    spec = patched({"volumes": [{"name": "nothing", "$patch": "delete"}]})
    assert spec["volumes"] == BASE["spec"]["volumes"]


@pytest.mark.parametrize(
    ("patch", "path", "message"),
    [
        ({"containers": {"name": "server"}}, "containers", "write a list"),
        ({"containers": ["server"]}, "containers[0]", "write a mapping"),
        ({"containers": [{"image": "x"}]}, "containers[0].name", "identified by it"),
        ({"containers": [{"name": []}]}, "containers[0].name", "identified by it"),
        ({"containers": [{"name": "server", "env": "A=1"}]}, "containers[0].env", "write a list"),
        ({"tolerations": "all"}, "tolerations", "write a list"),
        ({"$patch": "replace"}, "$patch", "no other directives"),
        ({"x": {"$retainKeys": ["a"]}}, "x.$retainKeys", "no other directives"),
    ],
)
def test_a_patch_of_another_shape_is_refused_where_it_is(
    patch: dict[str, typing.Any], path: str, message: str
) -> None:
    with pytest.raises(PatchError) as refused:
        patched(patch)
    assert refused.value.path == f"spec.{path}"
    assert message in refused.value.message


def test_a_text_in_place_of_a_mapping_is_refused() -> None:
    with pytest.raises(PatchError, match="a: is 'text': write a mapping"):
        strategic({"a": {"b": 1}}, {"a": "text"})


def test_another_source_of_a_volume_or_a_variable_takes_the_place_of_the_first() -> None:
    claim = {"name": "tmp", "persistentVolumeClaim": {"claimName": "c"}}
    variable = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    spec = patched({"volumes": [claim], "containers": [{"name": "server", "env": [variable]}]})
    assert spec["volumes"] == [claim]
    assert spec["containers"][0]["env"][0] == variable
    spec = patched({"volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}]})
    assert spec["volumes"] == [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}]
