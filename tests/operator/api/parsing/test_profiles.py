"""Which NaiadProfile a service gets, and what the two become together."""

import pathlib
import typing

import pytest

from naiad_operator.api.manifests.unreadable import marked
from naiad_operator.api.parsing import profiles, service
from naiad_operator.api.types.scaling import Autoscaling
from naiad_operator.builders import build
from naiad_operator.errors import InvalidSpec, ProfileNotFound
from tests.operator.api import specs
from tests.support import manifests

Manifest = dict[str, typing.Any]


def profile(
    name: str = "platform", created: str = "2026-01-01T00:00:00Z", **fields: typing.Any
) -> Manifest:
    manifest = specs.profile(**fields)
    manifest["metadata"] = {"name": name, "creationTimestamp": created}
    return manifest


def merged(fields: Manifest, manifest: Manifest) -> service.InferenceService:
    return service.parse(manifest, service.parse_profile(profile(**fields)))


def pod(fields: Manifest, manifest: Manifest) -> Manifest:
    """The pod of a service and a profile with these fields."""
    children = build(merged(fields, manifest), manifests.facts())
    deployment = next(child for child in children if child["kind"] == "Deployment")
    return dict(deployment["spec"]["template"]["spec"])


def test_a_service_gets_the_profile_that_it_names() -> None:
    known = [profile("a", default=True), profile("b", image="x:1")]
    chosen = profiles.choose(specs.spec(profile="b"), known)
    assert chosen is not None
    assert (chosen.name, chosen.spec.image) == ("b", "x:1")


def test_of_several_default_profiles_the_oldest_counts() -> None:
    """So a second one, made by mistake, restarts nothing."""
    known = [
        profile("new", "2026-02-01T00:00:00Z", default=True),
        profile("old", "2026-01-01T00:00:00Z", default=True),
        profile("oldest", "2025-01-01T00:00:00Z"),
    ]
    chosen = profiles.choose(specs.spec(), known)
    assert chosen is not None
    assert chosen.name == "old"


def test_the_operators_own_profile_comes_last() -> None:
    own = service.default_profile({"image": "x:1"})
    assert profiles.choose(specs.spec(), [profile("a")], fallback=own) is own
    assert profiles.choose(specs.spec(), [profile("a", default=True)], fallback=own) is not own
    assert profiles.choose(specs.spec(), [profile("a")]) is None


def test_a_profile_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(
        ProfileNotFound, match=r"there is no NaiadProfile gpu, .*\(there are a, b\)"
    ):
        profiles.choose(specs.spec(profile="gpu"), [profile("b"), profile("a", default=True)])


def test_without_reading_profiles_only_services_without_one_go_on() -> None:
    """A service whose status names a profile would be rolled out without its fields."""
    own = service.default_profile({})
    assert profiles.choose(specs.spec(), [], fallback=own, unreadable="no permission") is own
    before = {**specs.spec(), "status": {"profile": "a"}}
    for manifest in (specs.spec(profile="a"), before):
        with pytest.raises(
            ProfileNotFound, match=r"NaiadProfile a cannot be read, .*: no permission"
        ):
            profiles.choose(manifest, [], fallback=own, unreadable="no permission")


NEW: list[dict[str, typing.Any]] = [{}, {"status": {"observedGeneration": 1, "conditions": []}}]
"""The status of a service for which nothing was created: none, and one that says that it waits."""


@pytest.mark.parametrize("fields", NEW, ids=["no status", "waits"])
def test_a_new_service_waits_while_a_profile_may_bind_its_namespace(
    fields: dict[str, typing.Any],
) -> None:
    manifest = {**specs.spec(), **fields}
    with pytest.raises(ProfileNotFound, match="may bind this namespace, and they cannot be read, so nothing is created yet: no permission"):  # fmt: skip
        profiles.choose(manifest, [], unreadable="no permission", may_bind=True)
    bound = profile(
        "held", policy={"namespaces": {"names": [profiles.namespace_of(specs.spec())]}}, image="x:1"
    )
    chosen = profiles.choose(manifest, [bound], unreadable="no permission", may_bind=True)
    assert chosen is not None
    assert chosen.name == "held", "it is known, and there can be no other"
    other = profile("other", policy={"namespaces": {"names": ["elsewhere"]}})
    with pytest.raises(ProfileNotFound):
        profiles.choose(manifest, [other], unreadable="no permission", may_bind=True)
    served = {**specs.spec(), "status": {"selector": "a=b"}}
    own = service.default_profile({})
    assert (
        profiles.choose(served, [], fallback=own, unreadable="no permission", may_bind=True) is own
    )


@pytest.mark.parametrize("fields", NEW, ids=["no status", "waits"])
def test_a_profile_that_cannot_be_read_holds_those_alone_whom_it_may_concern(
    fields: dict[str, typing.Any],
) -> None:
    """Where even its namespaces cannot be read, all new ones."""
    manifest = {**specs.spec(), **fields}
    unknown = marked({"metadata": profile("bad")["metadata"]}, "it is too deep")
    with pytest.raises(InvalidSpec, match="NaiadProfile bad: the operator cannot read this object"):
        profiles.choose(manifest, [unknown])

    def known(**spec: typing.Any) -> dict[str, typing.Any]:
        return marked(profile("bad", **spec), "it is too deep")

    elsewhere = {"namespaces": {"names": ["elsewhere"]}}
    for harmless in (known(), known(policy=elsewhere), known(policy=elsewhere, default=True)):
        assert profiles.choose(manifest, [harmless]) is None
    here = known(policy={"namespaces": {"names": [profiles.namespace_of(specs.spec())]}})
    for concerned in (here, known(default=True)):
        with pytest.raises(InvalidSpec, match="NaiadProfile bad: the operator cannot read"):
            profiles.choose(manifest, [concerned])


def test_an_invalid_profile_is_reported_with_its_name() -> None:
    with pytest.raises(InvalidSpec, match=r"NaiadProfile a: spec.image: is 1: write a text"):
        profiles.choose(specs.spec(profile="a"), [profile("a", image=1)])


@pytest.mark.parametrize(
    "field", ["image", "serviceAccountName", "priorityClassName", "runtimeClassName"]
)
def test_a_field_of_the_service_takes_precedence(field: str) -> None:
    predictor = merged({field: "theirs"}, manifests.resource(**{field: "own"})).spec.predictor
    assert "own" in (
        predictor.image,
        predictor.service_account_name,
        predictor.priority_class_name,
        predictor.runtime_class_name,
    )
    predictor = merged({field: "theirs"}, manifests.resource()).spec.predictor
    assert "theirs" in (
        predictor.image,
        predictor.service_account_name,
        predictor.priority_class_name,
        predictor.runtime_class_name,
    )


def test_the_servers_version_belongs_to_the_image_of_the_profile() -> None:
    fields = {"image": "mirror:7", "serverVersion": "0.2.0"}
    assert merged(fields, manifests.resource()).spec.predictor.server_version == "0.2.0"
    own = manifests.resource(image="own:1")
    assert merged(fields, own).spec.predictor.server_version is None
    own = manifests.resource(serverVersion="0.1.0")
    assert merged(fields, own).spec.predictor.server_version == "0.1.0"


def test_a_service_may_keep_the_token_out_that_its_profile_lets_in() -> None:
    fields = {"automountServiceAccountToken": True}
    assert pod(fields, manifests.resource())["automountServiceAccountToken"]
    own = manifests.resource(automountServiceAccountToken=False)
    assert not pod(fields, own)["automountServiceAccountToken"]


def test_a_resource_that_the_service_names_is_its_own_in_requests_and_limits() -> None:
    """A default request above the service's limit would be refused with every pod."""
    fields = {
        "resources": {
            "requests": {"cpu": 4, "memory": "8Gi"},
            "limits": {"memory": "8Gi", "ephemeral-storage": "9Gi"},
        }
    }
    own = manifests.resource(
        accelerator={"type": "none"},
        resources={"limits": {"cpu": 2}, "requests": {"memory": "16Gi"}},
    )
    assert pod(fields, own)["containers"][0]["resources"] == {
        "requests": {"memory": "16Gi"},
        "limits": {"cpu": "2", "ephemeral-storage": "9Gi"},
    }


def test_variables_and_secrets_merge_by_name_and_arguments_follow_each_other() -> None:
    fields = {
        "env": [{"name": "A", "value": "theirs"}, {"name": "B", "value": "theirs"}],
        "imagePullSecrets": [{"name": "registry"}],
        "args": ["--log-verbose=1"],
        "envFrom": [{"configMapRef": {"name": "theirs"}}],
        "nodeSelector": {"pool": "theirs", "zone": "a"},
    }
    own = manifests.resource(
        env=[{"name": "B", "value": "own"}],
        imagePullSecrets=[{"name": "registry"}, {"name": "own"}],
        args=["--log-verbose=2"],
        envFrom=[{"configMapRef": {"name": "own"}}],
        nodeSelector={"pool": "own"},
    )
    made = pod(fields, own)
    [container] = made["containers"]
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert (variables["A"], variables["B"]) == ("theirs", "own")
    assert made["imagePullSecrets"] == [{"name": "registry"}, {"name": "own"}]
    assert container["args"][-2:] == ["--log-verbose=1", "--log-verbose=2"]
    assert [one["configMapRef"]["name"] for one in container["envFrom"]] == ["theirs", "own"]
    assert made["nodeSelector"] == {"pool": "own", "zone": "a"}


def test_tolerations_are_added_to_that_of_nvidias_taint_and_replaced_by_the_services() -> None:
    fields = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    keys = [one["key"] for one in pod(fields, manifests.resource())["tolerations"]]
    assert keys == ["nvidia.com/gpu", "dedicated"]
    cpu = manifests.resource(accelerator={"type": "none"})
    assert [one["key"] for one in pod(fields, cpu)["tolerations"]] == ["dedicated"]
    own = manifests.resource(tolerations=[{"key": "own", "operator": "Exists"}])
    assert [one["key"] for one in pod(fields, own)["tolerations"]] == ["own"]


def test_the_security_context_is_replaced_and_the_services_patch_comes_last() -> None:
    fields = {
        "podSecurityContext": {"runAsNonRoot": True},
        "podTemplate": {
            "spec": {"dnsPolicy": "Default", "hostname": "theirs", "enableServiceLinks": None}
        },
    }
    own = manifests.resource(podTemplate={"spec": {"hostname": "own", "dnsPolicy": None}})
    made = pod(fields, own)
    assert made["securityContext"] == {"runAsNonRoot": True}
    assert made["hostname"] == "own"
    assert "dnsPolicy" not in made
    assert "enableServiceLinks" not in made


def test_a_store_without_storage_of_its_own_gets_the_profiles() -> None:
    fields = {
        "storage": {
            "s3": {"secretName": "s3", "endpoint": "https://minio.storage:9000"},
            "gs": {"secretName": "gs"},
        }
    }

    def storage(manifest: Manifest) -> list[str | None]:
        model = merged(fields, manifest).spec.predictor.model
        repositories = model.repositories or [model]
        return [one.storage.secret_name if one.storage else None for one in repositories]

    assert storage(specs.model(storageUri="s3://a/b")) == ["s3"]
    assert storage(specs.model(storageUri="pvc://a")) == [None]
    assert storage(specs.model(storageUri="s3://a/b", storage={"region": "x"})) == [None]
    assert storage(
        specs.repositories({"storageUri": "gs://a/b"}, {"storageUri": "as://a/b/c"})
    ) == ["gs", None]


def test_a_prometheus_is_for_services_whose_autoscaling_names_none() -> None:
    auth = {"name": "thanos", "kind": "ClusterTriggerAuthentication", "modes": ["bearer"]}
    fields = {"prometheus": {"address": "https://thanos:9091", "auth": auth}}

    def autoscaling(**own: typing.Any) -> Autoscaling | None:
        keda = {"class": "keda", "queueTimeMs": 5, **own}
        return merged(fields, manifests.resource(autoscaling=keda)).spec.predictor.autoscaling

    default = autoscaling()
    assert default is not None
    assert default.prometheus_address == "https://thanos:9091"
    assert default.prometheus_auth is not None
    assert default.prometheus_auth.name == "thanos"
    elsewhere = autoscaling(prometheusAddress="http://other:9090")
    assert elsewhere is not None
    assert elsewhere.prometheus_address == "http://other:9090"
    assert elsewhere.prometheus_auth is None, "the credentials are for the profile's Prometheus"
    own = autoscaling(prometheusAuth={"name": "mine"})
    assert own is not None
    assert own.prometheus_address == "https://thanos:9091"
    assert own.prometheus_auth is not None
    assert own.prometheus_auth.name == "mine"
    hpa = manifests.resource(autoscaling={"class": "hpa", "queueTimeMs": 5})
    without = merged(fields, hpa).spec.predictor.autoscaling
    assert without is not None
    assert without.prometheus_address is None


def test_a_cache_is_for_services_without_one() -> None:
    fields = {"cache": {"size": "9Gi"}}
    assert merged(fields, manifests.resource()).spec.predictor.model.cache.size == "9Gi"  # type: ignore[union-attr]
    own = specs.model(storageUri="s3://a/b", cache={"size": "1Gi"})
    assert merged(fields, own).spec.predictor.model.cache.size == "1Gi"  # type: ignore[union-attr]


def test_what_a_canary_sets_is_merged_as_well() -> None:
    """It replaces the fields of the service, and would lose the credentials and the proxy of the platform."""
    fields = {
        "image": "theirs:1",
        "env": [{"name": "HTTPS_PROXY", "value": "proxy"}],
        "storage": {"s3": {"secretName": "s3"}},
    }
    canary = {
        "weight": 10,
        "image": "own:2",
        "env": [{"name": "A", "value": "b"}],
        "model": {"storageUri": "s3://a/canary"},
    }
    gateway = {"parentRefs": [{"name": "g"}], "hostnames": ["a.example"]}
    made = merged(fields, specs.spec(canary=canary, gateway=gateway)).spec
    assert made.predictor.image == "theirs:1"
    assert made.canary is not None
    assert made.canary.image == "own:2"
    assert made.canary.args is None
    assert [one.name for one in made.canary.env or ()] == ["HTTPS_PROXY", "A"]
    assert made.canary.model is not None
    assert made.canary.model.storage is not None
    assert made.canary.model.storage.secret_name == "s3"


def test_labels_merge_by_key_and_are_on_every_object_and_pod() -> None:
    parsed = merged(
        {"labels": {"a": "theirs", "b": "theirs"}, "annotations": {"c": "theirs"}},
        specs.spec(labels={"b": "own"}),
    )
    for child in build(parsed, manifests.facts()):
        metadata = [child["metadata"]]
        if child["kind"] == "Deployment":
            metadata.append(child["spec"]["template"]["metadata"])
        for one in metadata:
            assert (one["labels"]["a"], one["labels"]["b"], one["annotations"]["c"]) == (
                "theirs",
                "own",
                "theirs",
            )
            assert one["labels"]["app.kubernetes.io/instance"] == "demo"


def test_a_rule_that_only_both_together_break_names_the_profile() -> None:
    own = manifests.resource(accelerator={"resourceName": "amd.com/gpu"})
    with pytest.raises(
        InvalidSpec,
        match=r"spec.predictor.resources: .* \(with the fields of the NaiadProfile platform\)",
    ):
        merged({"resources": {"limits": {"amd.com/gpu": 1}}}, own)


def test_a_patch_that_does_not_fit_is_reported_with_its_profile() -> None:
    with pytest.raises(
        InvalidSpec,
        match=r"NaiadProfile platform: spec.podTemplate.containers: there is no such field",
    ):
        pod({"podTemplate": {"containers": []}}, manifests.resource())


def test_a_file_is_read_or_refused_with_the_reason(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "profile.yaml"
    file.write_text("image: x:1\n")
    assert profiles.from_file(str(file)).spec.image == "x:1"
    file.write_text("imag: x:1\n")
    with pytest.raises(InvalidSpec, match=r"spec.imag: there is no such field: did you mean image"):
        profiles.from_file(str(file))
    for text in ("a: [", "- a\n"):
        file.write_text(text)
        with pytest.raises(InvalidSpec):
            profiles.from_file(str(file))
    with pytest.raises(InvalidSpec, match=r"cannot be read: .*No such file"):
        profiles.from_file(str(tmp_path / "none"))
    file.write_text(f"affinity: {'[' * 3000}{']' * 3000}")
    with pytest.raises(InvalidSpec, match="nested too deeply"):
        profiles.from_file(str(file))
