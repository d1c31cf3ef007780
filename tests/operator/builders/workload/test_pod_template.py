"""`podTemplate` as a user gets it wrong: told where, in words, and never a bug of the operator's."""

import typing

import pytest

from naiad_operator.api import names
from naiad_operator.api.parsing import service
from naiad_operator.builders import build
from naiad_operator.errors import InvalidSpec
from tests.support import manifests


def built(patch: typing.Any) -> dict[str, typing.Any]:
    manifest = manifests.resource(podTemplate=patch)
    template: dict[str, typing.Any] = build(service.parse(manifest), manifests.facts())[0]["spec"][
        "template"
    ]
    return template


@pytest.mark.parametrize(
    ("patch", "path", "message"),
    [
        ({"containers": []}, "containers", "write spec.containers"),
        ({"metadata": []}, "metadata", "write a mapping"),
        ({"metadata": {"labels": ["a"]}}, "metadata.labels", "write a mapping"),
        ({"metadata": {"annotations": "a"}}, "metadata.annotations", "write a mapping"),
        ({"spec": "x"}, "spec", "write a mapping"),
        ({"spec": {"containers": {}}}, "spec.containers", "write a list"),
        ({"spec": {"volumes": [{"emptyDir": {}}]}}, "spec.volumes[0].name", "identified by"),
    ],
)
def test_a_patch_that_is_not_a_pod_template_is_refused_with_its_field(
    patch: dict[str, typing.Any], path: str, message: str
) -> None:
    with pytest.raises(InvalidSpec) as refused:
        built(patch)
    (problem,) = refused.value.problems
    assert problem.path == f"spec.predictor.podTemplate.{path}"
    assert message in problem.message


@pytest.mark.parametrize(
    "patch",
    [
        {},
        {"metadata": None},
        {"metadata": {"labels": None}},
        {"metadata": {"labels": {"app.kubernetes.io/instance": "other"}}},
    ],
)
def test_the_labels_that_find_the_pods_stay_whatever_the_patch_says(
    patch: dict[str, typing.Any],
) -> None:
    """Also the patch of a profile, which every service gets."""
    profile = service.parse_profile(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.PROFILE_KIND,
            "metadata": {"name": "platform"},
            "spec": {"podTemplate": patch},
        }
    )
    parsed = service.parse(manifests.resource(), profile)
    with_profile = build(parsed, manifests.facts())[0]["spec"]["template"]
    for template in (built(patch), with_profile):
        assert template["metadata"]["labels"]["app.kubernetes.io/instance"] == "demo"


def test_a_sidecar_a_taint_and_a_volume_of_ones_own_are_added() -> None:
    spec = built(
        {
            "metadata": {"labels": {"team": "a"}, "annotations": {"x": "y"}},
            "spec": {
                "containers": [{"name": "sidecar", "image": "b"}],
                "tolerations": [{"operator": "Exists"}],
                "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
            },
        }
    )["spec"]
    assert [one["name"] for one in spec["containers"]] == ["server", "sidecar"]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["volumes"][0] == {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}


@pytest.mark.parametrize(
    ("anti", "message"),
    [
        ("x", "podAntiAffinity: is 'x': write a mapping"),
        ({"requiredDuringSchedulingIgnoredDuringExecution": "x"}, "is 'x': write a list"),
    ],
)
def test_an_affinity_that_is_not_a_mapping_is_reported(anti: typing.Any, message: str) -> None:
    manifest = manifests.resource(placement="onePerNode", affinity={"podAntiAffinity": anti})
    with pytest.raises(InvalidSpec, match=message):
        build(service.parse(manifest), manifests.facts())


def placed(**predictor: typing.Any) -> typing.Any:
    manifest = manifests.resource(**predictor)
    return build(service.parse(manifest), manifests.facts())[0]["spec"]["template"]["spec"]


def test_pods_spread_over_nodes_whether_or_not_the_nodes_have_a_zone() -> None:
    """For a node without the label of any constraint the scheduler ignores all constraints: the zone is a wish of another kind."""
    spec = placed()
    (constraint,) = spec["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "kubernetes.io/hostname"
    assert constraint["matchLabelKeys"] == ["pod-template-hash"]
    (wish,) = spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert wish["podAffinityTerm"]["topologyKey"] == "topology.kubernetes.io/zone"
    assert wish["podAffinityTerm"]["labelSelector"] == constraint["labelSelector"]
    assert wish["podAffinityTerm"]["matchLabelKeys"] == constraint["matchLabelKeys"], (
        "a pod that is replaced weighs against no node"
    )


def test_a_service_with_an_anti_affinity_of_its_own_keeps_it() -> None:
    own: dict[str, list[typing.Any]] = {"preferredDuringSchedulingIgnoredDuringExecution": []}
    assert placed(affinity={"podAntiAffinity": own})["affinity"]["podAntiAffinity"] == own
