"""What a spec leaves out or refuses, beyond what the golden manifests show."""

import re
import typing

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.builders import KINDS, build
from naiad_operator.builders.facts import ClusterFacts, Defaults
from naiad_operator.builders.workload import accelerator
from naiad_operator.errors import InvalidSpec
from tests.support import manifests

Manifest = dict[str, typing.Any]


def built(resource: Manifest, facts: ClusterFacts | None = None) -> dict[str, Manifest]:
    """The children by kind and name."""
    children = build(service.parse(resource), facts or manifests.facts())
    return {f"{child['kind']} {child['metadata']['name']}": child for child in children}


def spec(**fields: typing.Any) -> Manifest:
    manifest = manifests.resource()
    manifest["spec"].update(fields)
    return manifest


def test_every_child_is_of_a_kind_that_the_operator_may_own() -> None:
    known = {(kind.api_version, kind.kind) for kind in KINDS}
    made = {
        (m["apiVersion"], m["kind"]) for path in manifests.INPUTS for m in manifests.built(path)
    }
    assert made == known, "and the examples show every kind"


def test_a_cluster_without_claims_refuses_them_rather_than_run_without_a_device() -> None:
    facts = manifests.facts(missing=["resource.k8s.io/v1/ResourceClaimTemplate"])
    with pytest.raises(InvalidSpec, match="write strategy: mixed"):
        built(manifests.resource(accelerator={"strategy": "dra"}), facts)


def test_a_claim_template_of_other_content_has_another_name() -> None:
    """It cannot be changed, so a new one is made beside the old until the pods have moved."""
    names = {
        key
        for profile in ("1g.10gb", "2g.20gb")
        for key in built(
            manifests.resource(accelerator={"type": "mig", "profile": profile, "strategy": "dra"})
        )
        if key.startswith("ResourceClaimTemplate")
    }
    assert len(names) == 2


@pytest.mark.parametrize(
    ("profile", "resource"),
    [
        ("1g.10gb", "nvidia.com/mig-1g.10gb"),
        ("1g.10gb+me", "nvidia.com/mig-1g.10gb.me"),
        ("1g.24gb+me.all", "nvidia.com/mig-1g.24gb.me.all"),
        ("1g.24gb-me", "nvidia.com/mig-1g.24gb-me"),
    ],
)
def test_a_profile_is_named_as_the_device_plugin_names_it(profile: str, resource: str) -> None:
    assert accelerator.mig_resource(profile) == resource


def test_a_product_that_has_its_suffix_already_is_left_alone() -> None:
    product = "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
    made = built(
        manifests.resource(
            accelerator={
                "type": "mig",
                "profile": "1g.10gb",
                "strategy": "single",
                "product": product,
            }
        )
    )
    pod = made["Deployment demo"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": product}
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}


GUARD = {"key": "nvidia.com/gpu.slices.gi", "operator": "DoesNotExist"}


def node_terms(resource: Manifest) -> list[Manifest]:
    """The node selector terms of the pods."""
    pod = built(resource)["Deployment demo"]["spec"]["template"]["spec"]
    node = pod.get("affinity", {}).get("nodeAffinity", {})
    terms: list[Manifest] = node.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get(
        "nodeSelectorTerms", []
    )
    return terms


@pytest.mark.parametrize(
    "fields",
    [
        {"accelerator": {"type": "none"}},
        {"accelerator": {"product": "NVIDIA-H100-80GB-HBM3"}},
        {"accelerator": {"type": "mig", "profile": "1g.10gb"}},
        {"accelerator": {"resourceName": "nvidia.com/gpu.shared"}},
        {"accelerator": {"strategy": "dra"}},
        {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}},
    ],
)
def test_only_whole_gpus_of_any_product_are_kept_from_slices(fields: Manifest) -> None:
    assert node_terms(manifests.resource(**fields)) == []


def test_each_of_the_users_terms_is_kept_from_slices() -> None:
    """They are alternatives: a node that fulfils one of them is enough."""
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    disk = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    terms = [{"matchExpressions": [zone]}, {"matchFields": [disk]}]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": [],
        }
    }
    assert node_terms(manifests.resource(affinity=affinity)) == [
        {"matchExpressions": [zone, GUARD]},
        {"matchFields": [disk], "matchExpressions": [GUARD]},
    ]
    assert node_terms(manifests.resource()) == [{"matchExpressions": [GUARD]}]


def test_an_affinity_that_names_the_product_decides_alone() -> None:
    product = {"key": "nvidia.com/gpu.product", "operator": "Exists"}
    required = {"nodeSelectorTerms": [{"matchExpressions": [product]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert node_terms(manifests.resource(affinity=affinity)) == required["nodeSelectorTerms"]


@pytest.mark.parametrize(
    ("affinity", "message"),
    [
        ({"nodeAffinity": ["a"]}, r"nodeAffinity: is \['a'\]: write a mapping"),
        (
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": ["a"]}}},
            r"nodeSelectorTerms\[0\]: is 'a': write a mapping",
        ),
        (
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": {"a": 1}}]}}},
            r"matchExpressions: is \{'a': 1\}: write a list",
        ),
    ],
)  # fmt: skip
def test_an_affinity_of_another_form_is_refused_by_its_field(
    affinity: Manifest, message: str
) -> None:
    with pytest.raises(InvalidSpec, match=message):
        built(manifests.resource(affinity=affinity))


def test_one_of_several_products_is_enough() -> None:
    accelerator = {"type": "mig", "profile": "1g.10gb", "strategy": "single", "products": ["A", "B-MIG-1g.10gb"]}  # fmt: skip
    [term] = node_terms(manifests.resource(accelerator=accelerator))
    values = ["A-MIG-1g.10gb", "B-MIG-1g.10gb"]
    assert term == {
        "matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": values}]
    }
    dra = {"strategy": "dra", "products": ["NVIDIA A100", "NVIDIA H100"]}
    children = built(manifests.resource(accelerator=dra))
    [template] = [child for child in children.values() if child["kind"] == "ResourceClaimTemplate"]
    exactly = template["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    assert exactly["selectors"][0]["cel"]["expression"].endswith(
        ".productName in ['NVIDIA A100', 'NVIDIA H100']"
    )


def test_keda_without_an_address_of_prometheus_is_refused() -> None:
    facts = ClusterFacts(apis=manifests.EVERY_API, image="i", defaults=Defaults(image="i"))
    with pytest.raises(InvalidSpec, match=r"write one, e\.g\."):
        built(manifests.resource(autoscaling={"class": "keda", "queueTimeMs": 5}), facts)
    only_own = {"class": "keda", "triggers": [{"type": "cron"}]}
    assert "ScaledObject demo" in built(manifests.resource(autoscaling=only_own), facts)


@pytest.mark.parametrize(
    ("resource", "there"),
    [
        (manifests.resource(), False),
        (manifests.resource(replicas=2), True),
        (manifests.resource(autoscaling={"class": "hpa", "queueTimeMs": 5}), True),
        (
            manifests.resource(autoscaling={"class": "hpa", "queueTimeMs": 5, "maxReplicas": 1}),
            False,
        ),
    ],
    ids=["one pod", "two pods", "up to four", "up to one"],
)
def test_a_budget_is_there_when_there_can_be_two_pods(resource: Manifest, *, there: bool) -> None:
    assert ("PodDisruptionBudget demo" in built(resource)) is there


def test_an_ingress_that_is_off_leaves_nothing() -> None:
    made = built(spec(ingress={"enabled": False, "host": "a.example", "grpcHost": "g.example"}))
    assert set(made) == {"Deployment demo", "Service demo"}


def test_a_gateway_without_hosts_takes_every_host_of_its_listener() -> None:
    made = built(spec(gateway={"parentRefs": [{"name": "public"}]}))
    assert "hostnames" not in made["HTTPRoute demo"]["spec"]
    assert "GRPCRoute demo" not in made


def policy(defaults: Defaults) -> list[Manifest]:
    facts = ClusterFacts(apis=manifests.EVERY_API, image="i", defaults=defaults)
    rules: list[Manifest] = built(spec(networkPolicy={"enabled": True}), facts)[
        "NetworkPolicy demo"
    ]["spec"]["ingress"]
    return rules


def test_without_namespaces_to_name_a_policy_lets_in_its_own_namespace_and_all_scrapes() -> None:
    serving, metrics = policy(Defaults(image="i"))
    assert serving["from"] == [{"podSelector": {}}]
    assert "from" not in metrics


def test_the_operator_is_let_in_to_the_metrics_port_beside_prometheus() -> None:
    _, metrics = policy(manifests.DEFAULTS)
    namespaces = [
        peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        for peer in metrics["from"]
    ]
    assert namespaces == ["monitoring", "naiad-system"]
    assert [port["port"] for port in metrics["ports"]] == [8002]


def test_no_pod_sees_a_device_that_it_did_not_ask_for() -> None:
    """Devices are allocated by Kubernetes; a variable that names them would go past it."""
    for path in manifests.INPUTS:
        for manifest in manifests.built(path):
            if manifest["kind"] == "Deployment":
                container = manifest["spec"]["template"]["spec"]["containers"][0]
                names = {variable["name"] for variable in container.get("env", ())}
                assert not names & {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}


def test_labels_of_ours_cannot_be_patched_away() -> None:
    patch = {"metadata": {"labels": {"app.kubernetes.io/instance": "other", "team": "search"}}}
    template = built(manifests.resource(podTemplate=patch))["Deployment demo"]["spec"]["template"]
    assert template["metadata"]["labels"]["app.kubernetes.io/instance"] == "demo"
    assert template["metadata"]["labels"]["team"] == "search"


@pytest.mark.parametrize("length", [4, 46, 47, 48, 49, 50])
@pytest.mark.parametrize("digits", [8, 9, 10])
def test_keda_asks_for_the_pods_of_a_service_however_long_its_name(
    length: int, digits: int
) -> None:
    """As the API server makes up names: the ReplicaSet's and a dash, cut at 58 characters, and five more."""
    manifest = manifests.resource(autoscaling={"class": "keda", "queueTimeMs": 5})
    name = manifest["metadata"]["name"] = (
        ("demo-" + "x" * 50)[:length].rstrip("-").ljust(length, "y")
    )
    scaler = built(manifest)[f"ScaledObject {name}"]
    query = scaler["spec"]["triggers"][0]["metadata"]["query"]
    pattern = re.search('pod=~"([^"]*)"', query)
    assert pattern is not None
    pod = f"{name}-{'6' * digits}-"[:58] + "abcde"
    assert re.fullmatch(pattern[1], pod), pod
    others = f"{name}-other-{'6' * digits}-"[:58] + "abcde"
    if length < 40:
        assert not re.fullmatch(pattern[1], others), "another service's pods do not concern it"


@pytest.mark.parametrize("type_", ["NodePort", "LoadBalancer"])
def test_metrics_are_exposed_outside_the_cluster_only_on_request(type_: str) -> None:
    """They need no token, and a load balancer may be public."""
    for monitoring, wanted in (
        ({}, False),
        ({"podMonitor": True}, False),
        ({"serviceMonitor": True}, True),
    ):
        service_ = built(spec(service={"type": type_}, monitoring=monitoring))["Service demo"]
        names = [port["name"] for port in service_["spec"]["ports"]]
        assert ("metrics" in names) is wanted
