"""Values of the chart that fit it to a cluster: placement, access, names, OpenShift, volumes, and the page that lists all values."""

import json
import re
import typing

import kubernetes_validate
import pytest

from naiad_operator.api.manifests import yaml_text
from naiad_operator.api.parsing import service
from tests.support import helm

pytestmark = helm.needed

Manifest = dict[str, typing.Any]

NAMESPACED: Manifest = {"watchNamespaces": ["team-a"]}
CA: Manifest = {
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
}
POLICY: Manifest = {"networkPolicy": {"enabled": True}}
PEER: Manifest = {"podSelector": {"matchLabels": {"app": "prometheus"}}}


def of_kind(values: Manifest, kind: str, **release: str) -> list[Manifest]:
    return [one for one in helm.manifests(values, **release) if one["kind"] == kind]


def pod(values: Manifest) -> Manifest:
    (deployment,) = of_kind(values, "Deployment")
    spec: Manifest = deployment["spec"]["template"]["spec"]
    return spec


def selector() -> Manifest:
    (deployment,) = of_kind({}, "Deployment")
    labels: Manifest = deployment["spec"]["selector"]
    return labels


@pytest.mark.parametrize(
    "values",
    [
        {"replicas": 2, "affinity": {"nodeAffinity": {}}},
        {"openshift": True, **CA},
        {"defaultProfile": {"image": "x:1"}, **CA},
        POLICY,
        {"networkPolicy": {"enabled": True, "ingressFrom": [PEER]}, "prometheusNamespace": "1"},
        {**NAMESPACED, "nodeInspection": "always"},
        {"fullnameOverride": "models"},
        {"nodeCache": {"enabled": True}},
        {"nodeCache": {"enabled": True, "fill": [{"namespace": "a", "uri": "s3://b/c"}]}},
    ],
    ids=str,
)
def test_every_object_is_strictly_valid(values: Manifest) -> None:
    for manifest in helm.manifests(values):
        if manifest["kind"] != "CustomResourceDefinition":
            kubernetes_validate.validate(
                manifest, kubernetes_validate.latest_version(), strict=True
            )


def test_two_replicas_prefer_different_nodes_and_are_evicted_one_by_one() -> None:
    node = {"nodeAffinity": {"a": 1}}
    affinity = pod({"replicas": 2, "affinity": node})["affinity"]
    (preferred,) = affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["podAffinityTerm"] == {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": selector(),
    }
    assert affinity["nodeAffinity"] == node["nodeAffinity"]
    (budget,) = of_kind({"replicas": 2}, "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"] == selector()


def test_placement_of_your_own_takes_precedence_and_one_replica_needs_none() -> None:
    own: Manifest = {"podAntiAffinity": {}}
    assert pod({"replicas": 2, "affinity": own})["affinity"] == own
    assert "affinity" not in pod({})
    assert of_kind({}, "PodDisruptionBudget") == []
    off: Manifest = {"replicas": 2, "podDisruptionBudget": {"enabled": False}}
    assert of_kind(off, "PodDisruptionBudget") == []


def test_the_port_is_reached_by_prometheus_and_the_given_peers_only() -> None:
    assert of_kind({}, "NetworkPolicy") == []
    (closed,) = of_kind(POLICY, "NetworkPolicy")
    assert closed["spec"] == {
        "podSelector": selector(),
        "policyTypes": ["Ingress"],
        "ingress": [],
    }
    values = {
        "networkPolicy": {"enabled": True, "ingressFrom": [PEER]},
        "prometheusNamespace": "monitoring",
    }
    (policy,) = of_kind(values, "NetworkPolicy")
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    assert policy["spec"]["ingress"] == [
        {
            "ports": [{"port": "http", "protocol": "TCP"}],
            "from": [{"namespaceSelector": namespace}, PEER],
        }
    ]


@pytest.mark.parametrize(
    ("values", "release", "name"),
    [
        ({}, "naiad", "naiad"),
        ({}, "blue", "blue-naiad"),
        ({"nameOverride": "serving"}, "blue", "blue-serving"),
        ({"nameOverride": "blue"}, "blue", "blue"),
        ({"fullnameOverride": "models"}, "blue", "models"),
    ],
    ids=str,
)
def test_names_of_objects_can_be_chosen(values: Manifest, release: str, name: str) -> None:
    objects = helm.manifests({**values, "replicas": 2}, name=release)
    names = [
        one["metadata"]["name"] for one in objects if one["kind"] != "CustomResourceDefinition"
    ]
    assert all(n == name or n.startswith(f"{name}-") for n in names), names
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    assert f"--lease-name={name}" in template["spec"]["containers"][0]["args"]
    # Network policies of services select the operator by it.
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "naiad-operator"


def test_openshift_chooses_the_users_of_the_operator_and_of_services() -> None:
    restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod({"openshift": True})["securityContext"] == restricted
    (config,) = of_kind({"openshift": True}, "ConfigMap")
    (profile,) = yaml_text.read(config["data"]["profile.yaml"])
    assert service.default_profile(profile).spec.pod_security_context == restricted

    resources = {"requests": {"cpu": "1"}}
    both = of_kind({"openshift": True, "defaultProfile": {"resources": resources}}, "ConfigMap")
    (profile,) = yaml_text.read(both[0]["data"]["profile.yaml"])
    assert profile == {"resources": resources, "podSecurityContext": restricted}

    own: Manifest = {"podSecurityContext": {"runAsUser": 5}}
    (config,) = of_kind({"openshift": True, "defaultProfile": own}, "ConfigMap")
    assert yaml_text.read(config["data"]["profile.yaml"]) == [own]


def test_volumes_are_added_beside_the_default_profile() -> None:
    spec = pod({**CA, "defaultProfile": {"image": "x:1"}})
    assert [volume["name"] for volume in spec["volumes"]] == ["default-profile", "ca"]
    mounts = spec["containers"][0]["volumeMounts"]
    assert [mount["mountPath"] for mount in mounts] == ["/etc/naiad", "/etc/ca"]
    assert [volume["name"] for volume in pod(CA)["volumes"]] == ["ca"]


@pytest.mark.parametrize(
    ("values", "reads"),
    [
        ({}, True),
        ({"nodeInspection": False}, False),
        ({"nodeInspection": "always"}, True),
        (NAMESPACED, False),
        ({**NAMESPACED, "nodeInspection": "always"}, True),
    ],
    ids=str,
)
def test_nodes_are_read_with_a_cluster_role_of_their_own(values: Manifest, *, reads: bool) -> None:
    roles = {role["metadata"]["name"]: role["rules"] for role in of_kind(values, "ClusterRole")}
    assert ("naiad-nodes" in roles) is reads
    if reads:
        nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
        assert roles["naiad-nodes"] == [nodes]
    if values.get("watchNamespaces"):
        assert set(roles) <= {"naiad-nodes"}
    args = pod(values)["containers"][0]["args"]
    assert f"--inspect-nodes={str(reads).lower()}" in args


@pytest.mark.parametrize(
    "values",
    [
        {"nodeInspection": "auto"},
        {"fullnameOverride": "Models"},
        {"fullnameOverride": "m" * 41},
        {"nameOverride": "7"},
        {"openshift": "true"},
        {"extraVolumes": [{"emptyDir": {}}]},
        {"extraVolumes": [{"name": "default-profile", "emptyDir": {}}]},
        {"extraVolumeMounts": [{"name": "ca"}]},
        {"extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/naiad"}]},
        {"networkPolicy": {"ingressFrom": [{}]}},
        {"networkPolicy": {"from": []}},
        {"podDisruptionBudget": {"maxUnavailable": 1}},
    ],
    ids=str,
)
def test_wrong_values_are_refused(values: Manifest) -> None:
    with pytest.raises(helm.HelmError):
        helm.render(values)


def leaves(schema: Manifest, values: Manifest, path: str = "") -> dict[str, typing.Any]:
    """Each value's path and default: objects whose schema names all their fields are not values themselves."""
    defaults: dict[str, typing.Any] = {}
    # Values of charts that depend on this one.
    known = schema["properties"].keys() - ({"global", "enabled"} if not path else set())
    assert known == values.keys(), path
    for name in known:
        field = schema["properties"][name]
        if "$ref" in field:
            field = SCHEMA["definitions"][field["$ref"].rpartition("/")[2]]
        if "properties" in field and field.get("additionalProperties") is False:
            defaults |= leaves(field, values[name], f"{path}{name}.")
        else:
            defaults[path + name] = values[name]
    return defaults


SCHEMA: Manifest = json.loads((helm.CHART / "values.schema.json").read_text())


def test_the_page_lists_every_value_with_its_default() -> None:
    (values,) = yaml_text.read((helm.CHART / "values.yaml").read_text())
    page = (helm.CHART / "README.md").read_text()
    rows = re.findall(r"^\| `(\S+)` \| `(.*?)` \| \S", page, re.MULTILINE)
    assert {name: json.loads(default) for name, default in rows} == leaves(SCHEMA, values)


def test_a_cache_on_the_node_is_prepared_and_filled_per_namespace() -> None:
    assert of_kind({}, "DaemonSet") == []
    fill = {
        "namespace": "team-a",
        "uri": "s3://models/production",
        "everySeconds": 60,
        "envFrom": [{"secretRef": {"name": "store"}}],
        "secretName": "pull",
    }
    cache = {"enabled": True, "path": "/srv/cache", "size": 100 << 30, "fill": [fill]}
    [made] = of_kind({"nodeCache": cache}, "DaemonSet")
    spec = made["spec"]["template"]["spec"]
    [prepare] = spec["initContainers"]
    assert prepare["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["volumes"][0]["hostPath"] == {"path": "/srv/cache", "type": "DirectoryOrCreate"}
    [container] = spec["containers"]
    assert container["args"] == [
        "s3://models/production",
        "--repository-cache-directory=/cache/objects",
        f"--repository-cache-bytes={100 << 30}",
        "--every=60",
    ]
    assert container["securityContext"]["runAsUser"] == 1000
    assert container["volumeMounts"][0]["subPath"] == "team-a"
    assert container["envFrom"] == fill["envFrom"]
    assert container["volumeMounts"][-1]["mountPath"] == "/etc/naiad/credentials"
    assert spec["volumes"][-1] == {"name": "credentials-0", "secret": {"secretName": "pull"}}
