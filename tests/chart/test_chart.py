"""The chart: what it makes, what its values may be, and that the plain manifests are the same."""

import argparse
import importlib.util
import tomllib
import typing

import kubernetes_validate
import pytest

from naiad_operator import options
from naiad_operator.api.manifests import yaml_text
from naiad_operator.api.parsing import service, validation
from naiad_operator.api.schema import crd, resources
from naiad_operator.builders import KINDS
from tests.support import generated, helm

pytestmark = helm.needed

Manifest = dict[str, typing.Any]

EVERYTHING: Manifest = {
    "replicas": 2,
    "image": {"digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "registry"}],
    "serverImage": "registry.example.com/server:1",
    "prometheusAddress": "http://prometheus.monitoring:9090",
    "prometheusNamespace": "monitoring",
    "ingressNamespace": "ingress",
    "extraArgs": ["--log-level=debug"],
    "env": [{"name": "A", "value": "b"}],
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "system-cluster-critical",
    "podLabels": {"team": "ml"},
    "podAnnotations": {"a": "b"},
    "serviceAccount": {"annotations": {"a": "b"}},
    "monitoring": {
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "alerts": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True},
        "adapterRules": {"enabled": True},
    },
}
NAMESPACED: Manifest = {"watchNamespaces": ["team-a", "team-b"]}
CUSTOM = ("monitoring.coreos.com/", "apiextensions.k8s.io/")


def of_kind(objects: list[Manifest], kind: str) -> list[Manifest]:
    return [one for one in objects if one["kind"] == kind]


def arguments(objects: list[Manifest]) -> list[str]:
    (deployment,) = of_kind(objects, "Deployment")
    args: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    return args


def test_the_plain_manifests_are_what_the_chart_makes() -> None:
    assert generated.INSTALL.read_text() == generated.install(), "run `make generate`"


@pytest.mark.parametrize(
    "values", [{}, EVERYTHING, NAMESPACED], ids=["defaults", "everything", "namespaced"]
)
def test_every_object_is_strictly_valid(values: Manifest) -> None:
    for manifest in helm.manifests(values):
        if not manifest["apiVersion"].startswith(CUSTOM):
            kubernetes_validate.validate(
                manifest, kubernetes_validate.latest_version(), strict=True
            )


def test_the_chart_upgrades_the_definition_and_keeps_it() -> None:
    definitions = of_kind(helm.manifests(), "CustomResourceDefinition")
    by_kind = {definition["spec"]["names"]["kind"]: definition for definition in definitions}
    for resource in (resources.SERVICE, resources.PROFILE):
        definition = by_kind.pop(resource.kind)
        assert definition["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        assert definition["spec"] == crd.definition(resource)["spec"]
    assert not by_kind
    assert of_kind(helm.manifests({"crds": {"install": False}}), "CustomResourceDefinition") == []


def test_versions_are_those_of_the_distribution() -> None:
    text = (generated.ROOT / "pyproject.toml").read_text()
    version = tomllib.loads(text)["project"]["version"]
    (chart,) = yaml_text.read((helm.CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == version
    assert f"--default-image=naiad-server:{version}" in arguments(helm.manifests())


@pytest.mark.parametrize(
    "values", [{}, EVERYTHING, NAMESPACED], ids=["defaults", "everything", "namespaced"]
)
def test_the_operator_knows_its_arguments(values: Manifest) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    options.add_to(parser, {})
    options.read(parser, parser.parse_args(arguments(helm.manifests(values))))


def test_a_default_profile_is_a_file_that_the_operator_reads() -> None:
    spec = {"resources": {"requests": {"cpu": "1"}}, "podSecurityContext": {"runAsNonRoot": True}}
    objects = helm.manifests({"defaultProfile": spec, "podAnnotations": {"a": "b"}})
    (config,) = of_kind(objects, "ConfigMap")
    (written,) = yaml_text.read(config["data"]["profile.yaml"])
    assert service.default_profile(written).values == {"default": False, **spec}
    template = of_kind(objects, "Deployment")[0]["spec"]["template"]
    [volume] = template["spec"]["volumes"]
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    [mount] = template["spec"]["containers"][0]["volumeMounts"]
    assert f"--default-profile={mount['mountPath']}/profile.yaml" in arguments(objects)
    other = of_kind(helm.manifests({"defaultProfile": {"image": "x:1"}}), "Deployment")[0]
    annotations = other["spec"]["template"]["metadata"]["annotations"]
    assert annotations != template["metadata"]["annotations"], "a change restarts the operator"


def test_profiles_are_read_with_a_cluster_role_of_their_own() -> None:
    for values, reads in (
        ({}, True),
        (NAMESPACED, False),
        ({**NAMESPACED, "profiles": "always"}, True),
        ({"profiles": "never"}, False),
    ):
        objects = helm.manifests(values)
        roles = {role["metadata"]["name"] for role in of_kind(objects, "ClusterRole")}
        assert ("naiad-profiles" in roles) is reads
        assert f"--profiles={str(reads).lower()}" in arguments(objects)


def test_two_replicas_take_turns_by_a_lease() -> None:
    one, two = helm.manifests(), helm.manifests({"replicas": 2})
    assert "--leader-election=false" in arguments(one)
    assert "--leader-election=true" in arguments(two)
    assert of_kind(one, "Deployment")[0]["spec"]["strategy"] == {"type": "Recreate"}
    (lease,) = of_kind(two, "Role")
    assert lease["metadata"]["namespace"] == "naiad-system"


def test_two_releases_in_one_namespace_do_not_take_turns_with_each_other() -> None:
    values: Manifest = {"replicas": 2, "watchNamespaces": ["team-a"]}
    objects = helm.manifests(values, name="blue")
    assert "--lease-name=blue-naiad" in arguments(objects)
    named = [rule["resourceNames"] for rule in rules(objects) if "resourceNames" in rule]
    assert named == [["blue-naiad"]]


RBAC = ("ClusterRole", "Role")


def rules(objects: list[Manifest]) -> list[Manifest]:
    return [rule for kind in RBAC for role in of_kind(objects, kind) for rule in role["rules"]]


@pytest.mark.parametrize(
    "values", [{}, EVERYTHING, NAMESPACED], ids=["defaults", "everything", "namespaced"]
)
def test_permissions_are_named_one_by_one_and_secrets_are_not_among_them(values: Manifest) -> None:
    for rule in rules(helm.manifests(values)):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert "secrets" not in rule["resources"]


def test_the_operator_may_do_its_work_with_every_kind_of_child() -> None:
    allowed = {
        (group, resource): set(rule["verbs"])
        for rule in rules(helm.manifests())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    for kind in KINDS:
        group = kind.api_version.rpartition("/")[0]
        verbs = {"get", "list", "watch", "create", "patch", "delete"}
        assert allowed[group, kind.plural] == verbs, kind
    assert allowed["", "events"] == {"list", "create"}, "each Event is a new object"


def test_in_chosen_namespaces_there_are_roles_only() -> None:
    objects = helm.manifests(NAMESPACED)
    assert of_kind(objects, "ClusterRole") == of_kind(objects, "ClusterRoleBinding") == []
    assert of_kind(objects, "ValidatingAdmissionPolicy") == []
    wide = {one["metadata"]["name"]: one["rules"] for one in of_kind(helm.manifests(), "ClusterRole")}  # fmt: skip
    roles = of_kind(objects, "Role")
    assert sorted((one["metadata"]["namespace"], one["metadata"]["name"]) for one in roles) == [
        (namespace, name)
        for namespace in ("team-a", "team-b")
        for name in ("naiad", "naiad-editor", "naiad-user")
    ]
    assert all(role["rules"] == wide[role["metadata"]["name"]] for role in roles)
    assert "--watch-namespaces=team-a,team-b" in arguments(objects)
    assert "--inspect-nodes=false" in arguments(objects)


def test_the_right_to_a_pod_template_can_be_turned_off_and_holds_in_chosen_namespaces() -> None:
    def actions(values: Manifest) -> list[str]:
        bindings = of_kind(helm.manifests(values), "ValidatingAdmissionPolicyBinding")
        return [action for one in bindings for action in one["spec"]["validationActions"]]

    assert actions({}) == ["Deny"]
    assert actions({"rbac": {"podTemplateRight": "Warn"}}) == ["Warn"]
    for rbac in ({"podTemplateRight": "Off"}, {"userRoles": False}, {"create": False}):
        assert actions({"rbac": rbac}) == []
    chosen = {**NAMESPACED, "rbac": {"podTemplateRight": "Deny"}}
    (binding,) = of_kind(helm.manifests(chosen), "ValidatingAdmissionPolicyBinding")
    [label] = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert label["values"] == ["team-a", "team-b"]


def test_every_binding_binds_the_operators_account() -> None:
    for objects in (helm.manifests(), helm.manifests(NAMESPACED)):
        (account,) = of_kind(objects, "ServiceAccount")
        names = {role["metadata"]["name"] for kind in RBAC for role in of_kind(objects, kind)}
        for binding in of_kind(objects, "ClusterRoleBinding") + of_kind(objects, "RoleBinding"):
            assert binding["subjects"][0]["name"] == account["metadata"]["name"]
            assert binding["roleRef"]["name"] in names


def test_the_operators_pod_is_restricted_and_found_by_network_policies() -> None:
    (deployment,) = of_kind(helm.manifests(), "Deployment")
    template = deployment["spec"]["template"]
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "naiad-operator"
    assert template["spec"]["securityContext"]["runAsNonRoot"] is True
    container = template["spec"]["containers"][0]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def test_a_cluster_that_chooses_users_by_itself_is_left_to_it() -> None:
    chosen: Manifest = {"podSecurityContext": {"runAsUser": None, "runAsGroup": None}}
    (deployment,) = of_kind(helm.manifests(chosen), "Deployment")
    assert deployment["spec"]["template"]["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_monitoring_objects_hold_the_files_of_the_manifests() -> None:
    objects = helm.manifests(EVERYTHING)
    folder = generated.ROOT / "manifests" / "monitoring"
    (alerts,) = of_kind(objects, "PrometheusRule")
    assert alerts["spec"] == yaml_text.read((folder / "alerts.yaml").read_text())[0]["spec"]
    maps = {one["metadata"]["name"]: one["data"] for one in of_kind(objects, "ConfigMap")}
    assert (
        maps["naiad-dashboard"]["naiad.json"].strip()
        == (folder / "dashboard.json").read_text().strip()
    )
    (adapter,) = yaml_text.read((folder / "prometheus-adapter-values.yaml").read_text())
    assert yaml_text.read(maps["naiad-adapter-rules"]["config.yaml"]) == [
        {"rules": adapter["rules"]["custom"]}
    ]


@pytest.mark.parametrize(
    "values",
    [
        {"replica": 2},
        {"replicas": "2"},
        {"image": {"digest": "latest"}},
        {"log": {"level": "loud"}},
        {"watchNamespaces": ["Team A"]},
        {"watchNamespaces": "team-a"},
        {"prometheusAddress": "prometheus:9090"},
        {"prometheusAddress": "http://prometheus:9090 #main"},
        {"serverImage": "registry.example.com/server: 1"},
        {"image": {"tag": "1 2"}},
        {"ingressNamespace": "Ingress Nginx"},
        {"serviceAccount": {"name": "Bad Name"}},
        {"resources": {"limits": {"memory": "lots"}}},
        {"resources": {"requests": {"cpu": -1}}},
        {"podLabels": {"app.kubernetes.io/name": "mine"}},
        {"podAnnotations": {"serving.naiad.dev/default-profile": "mine"}},
        {"imagePullSecrets": ["registry"]},
        {"imagePullSecrets": [{"secretName": "registry"}]},
        {"env": [{"value": "b"}]},
        {"podSecurityContext": {"runAsUser": "root"}},
        {"monitoring": {"alerts": {"enabled": True, "labels": {"app.kubernetes.io/name": "mine"}}}},
        {"monitoring": {"podMonitor": {"interval": "soon"}}},
        {"monitoring": {"alert": {"enabled": True}}},
    ],
    ids=str,
)
def test_wrong_values_are_refused(values: Manifest) -> None:
    with pytest.raises(helm.HelmError):
        helm.render(values)


def test_the_notes_tell_the_next_command() -> None:
    notes = helm.render(NAMESPACED).get("NOTES.txt")
    if notes is None:
        pytest.skip("helm template leaves the notes out")
    assert "kubectl -n team-a get infsvc demo --watch" in notes
    assert "kubectl -n naiad-system rollout status deployment/naiad" in notes


def test_the_service_of_the_notes_is_right() -> None:
    text = (helm.CHART / "templates" / "NOTES.txt").read_text()
    # A shell's here-document ends only at a line with nothing but EOF: users copy the notes.
    manifest, end, _ = text.partition("<<'EOF'\n")[2].partition("\nEOF\n")
    assert end
    (example,) = yaml_text.read(manifest)

    assert validation.check(example) == []


@pytest.mark.skipif(
    importlib.util.find_spec("helm_python") is None, reason="the command's own lint is for people"
)
def test_the_chart_has_nothing_to_lint() -> None:
    import helm_python  # noqa: PLC0415 - 80 MB that only this pays

    report = helm_python.chart.lint(helm.CHART, strict=True)
    # An icon would be a picture somewhere on the web.
    assert [m["error"] for m in report["messages"]] == ["icon is recommended"]
    assert report["errors"] == []


def test_a_release_of_another_name_keeps_its_objects_apart() -> None:
    names = {
        one["metadata"]["name"]
        for one in helm.manifests(name="blue")
        if one["kind"] == "Deployment"
    }
    assert names == {"blue-naiad"}


@pytest.mark.parametrize("word", ["123", "1e3", "true", "on", "null", "y"])
def test_names_that_look_like_numbers_or_words_of_yaml_stay_texts(word: str) -> None:
    """YAML would make a number or a boolean of them, which no API server takes."""
    values: Manifest = {
        "watchNamespaces": [word],
        "replicas": 2,
        "priorityClassName": word,
        "serviceAccount": {"name": word},
        "monitoring": {"podMonitor": {"enabled": True, "labels": {"release": word}}},
        "networkPolicy": {"enabled": True},
    }
    named: Manifest = {"fullnameOverride": word} if word.isalpha() else {}
    for one in helm.manifests({**values, **named}, name=word, namespace=word):
        assert one["metadata"].get("namespace", "") in ("", word), one["kind"]
        for subject in one.get("subjects", ()):
            assert (subject["name"], subject["namespace"]) == (word, word)
        if one["kind"] == "Deployment":
            assert one["spec"]["template"]["spec"]["priorityClassName"] == word
        if not one["apiVersion"].startswith(CUSTOM):
            version = kubernetes_validate.latest_version()
            kubernetes_validate.validate(one, version, strict=True)


def test_images_and_addresses_stay_texts() -> None:
    values: Manifest = {
        "image": {"repository": "*a"},
        "serverImage": "x:",
        "prometheusAddress": "http://x:",
    }
    objects = helm.manifests(values)
    assert {"--default-image=x:", "--prometheus-address=http://x:"} <= set(arguments(objects))
    (deployment,) = of_kind(objects, "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"].startswith("*a:")


def test_a_chart_that_depends_on_this_one_may_have_conditions_and_global_values() -> None:
    values: Manifest = {"enabled": True, "global": {"registry": "x"}}
    assert helm.manifests(values) == helm.manifests()


def test_no_security_context_at_all_can_be_chosen() -> None:
    for values in ({}, {"openshift": True}):
        objects = helm.manifests({"podSecurityContext": None, **values})
        assert (
            of_kind(objects, "Deployment")[0]["spec"]["template"]["spec"]["securityContext"] == {}
        )
