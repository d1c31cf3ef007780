"""The transformer and the explainer: KServe's arguments, their own selectors, who gets which requests, and what a platform holds them to."""

import typing

import pytest

from naiad_operator.api.parsing import service as services
from naiad_operator.builders import build
from naiad_operator.builders.facts import CanaryFacts, ClusterFacts, Policy
from naiad_operator.errors import InvalidSpec
from naiad_operator.versions import Version
from tests.support import manifests

Object = dict[str, typing.Any]
IMAGE = "registry.example.com/qa:2"


def resource(*, status: Object | None = None, **spec: typing.Any) -> Object:
    made = manifests.resource()
    made["spec"] |= spec
    return made | ({"status": status} if status else {})


def built(manifest: Object, *, profile: Object | None = None, **facts: typing.Any) -> dict[tuple[str, str], Object]:  # fmt: skip
    held = None
    if profile is not None:
        kind = {"apiVersion": "serving.naiad.dev/v1alpha1", "kind": "NaiadProfile"}
        held = services.parse_profile({**kind, "metadata": {"name": "held"}, "spec": profile})
    given = manifests.facts()
    defaults = facts.pop("defaults", given.defaults)
    image = facts.pop("image", given.image)
    given = ClusterFacts(apis=given.apis, image=image, defaults=defaults, **facts)
    children = build(services.parse(manifest, held), given)
    return {(one["kind"], one["metadata"]["name"]): one for one in children}


def container(children: dict[tuple[str, str], Object], name: str) -> Object:
    found: Object = children["Deployment", name]["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize(
    ("component", "wanted"),
    [
        ({}, ["--model_name", "demo", "--predictor_host", "demo.models:8000", "--http_port", "8080"]),
        ({"protocol": "grpc-v2", "port": 9000}, ["--model_name", "demo", "--predictor_host", "demo.models:8001", "--predictor_protocol", "grpc-v2", "--http_port", "9000"]),
        ({"args": ["--model_name=bert", "--http-port", "8080"]}, ["--model_name=bert", "--http-port", "8080", "--predictor_host", "demo.models:8000"]),
        ({"command": ["python", "-m", "qa", "--model_name", "bert"], "args": ["--http_port=8080"]}, ["--http_port=8080", "--predictor_host", "demo.models:8000"]),
        ({"protocol": "v2"}, ["--model_name", "demo", "--predictor_host", "demo.models:8000", "--predictor_protocol", "v2", "--http_port", "8080"]),
        ({"protocol": "grpc-v2", "args": ["--protocol", "grpc-v2"]}, ["--protocol", "grpc-v2", "--model_name", "demo", "--predictor_host", "demo.models:8001", "--http_port", "8080"]),
    ],
    ids=["contract", "grpc", "own", "in its command", "v2", "the option's old name"],
)  # fmt: skip
def test_a_component_gets_what_kserve_gives_it_behind_its_own(
    component: Object, wanted: list[str]
) -> None:
    children = built(resource(transformer={"image": IMAGE, **component}))
    assert container(children, "demo-transformer")["args"] == wanted


STORAGE: Object = {"secretName": "keys", "endpoint": "http://minio.store:9000"}


def pod(children: dict[tuple[str, str], Object], name: str) -> Object:
    found: Object = children["Deployment", name]["spec"]["template"]["spec"]
    return found


def test_the_files_of_a_component_are_fetched_by_the_servers_image_and_only_that_gets_the_keys() -> None:  # fmt: skip
    wanted = {"image": IMAGE, "storageUri": "s3://bucket/vocabulary", "storage": STORAGE, "imagePullSecrets": [{"name": "own"}]}  # fmt: skip
    manifest = resource(transformer=wanted)
    manifest["spec"]["predictor"] |= {"image": "acme/server:0.2.0", "imagePullSecrets": [{"name": "acme"}]}  # fmt: skip
    children = built(manifest, image="acme/server:0.2.0")
    spec = pod(children, "demo-transformer")
    [fetch] = spec["initContainers"]
    assert fetch["image"] == "acme/server:0.2.0"
    assert [*fetch["command"], *fetch["args"]] == [
        "naiad", "fetch", "s3://http://minio.store:9000/bucket/vocabulary", "--files", "--to=/mnt/fetched/files",
    ]  # fmt: skip
    assert "AWS_SECRET_ACCESS_KEY" in {one["name"] for one in fetch["env"]}
    [program] = spec["containers"]
    assert program["image"] == IMAGE
    assert program["env"] == [{"name": "STORAGE_URI", "value": "/mnt/models"}]
    mount = {"name": "fetched", "mountPath": "/mnt/models", "subPath": "files", "readOnly": True}
    assert program["volumeMounts"] == [mount]
    volumes = {one["name"] for one in spec["volumes"]}
    assert volumes == {one["name"] for one in (*fetch["volumeMounts"], mount)}
    assert spec["imagePullSecrets"] == [{"name": "acme"}, {"name": "own"}]
    assert "initContainers" not in pod(children, "demo")


def test_a_variable_of_the_component_counts_before_that_of_its_files() -> None:
    env = [{"name": "STORAGE_URI", "value": "/elsewhere"}]
    wanted = {"image": IMAGE, "storageUri": "gs://b/v", "env": env}
    assert container(built(resource(explainer=wanted)), "demo-explainer")["env"] == env


@pytest.mark.parametrize("path", ["", "deep/folder"])
def test_the_files_of_a_claim_are_mounted_and_nothing_is_fetched(path: str) -> None:
    uri = f"pvc://files/{path}" if path else "pvc://files"
    spec = pod(built(resource(transformer={"image": IMAGE, "storageUri": uri})), "demo-transformer")
    assert "initContainers" not in spec
    [volume] = spec["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "files", "readOnly": True}
    wanted = {"name": volume["name"], "mountPath": "/mnt/models", "readOnly": True}
    assert spec["containers"][0]["volumeMounts"] == [wanted | ({"subPath": path} if path else {})]


def test_a_profile_says_how_the_store_of_the_files_is_reached() -> None:
    profile = {"storage": {"s3": STORAGE}, "policy": {"namespaces": {"names": ["models"]}, "enforced": ["storage"]}}  # fmt: skip
    wanted: Object = {"image": IMAGE, "storageUri": "s3://bucket/vocabulary"}
    spec = pod(built(resource(transformer=wanted), profile=profile), "demo-transformer")
    [fetch] = spec["initContainers"]
    assert fetch["args"][0] == "s3://http://minio.store:9000/bucket/vocabulary"
    wanted["storage"] = {"secretName": "others"}
    with pytest.raises(InvalidSpec) as refused:
        built(resource(transformer=wanted), profile=profile)
    assert [one.path for one in refused.value.problems] == ["spec.transformer.storage"]


def test_servers_that_cannot_fetch_files_are_named_at_the_address() -> None:
    wanted = {"image": IMAGE, "storageUri": "s3://bucket/vocabulary"}
    with pytest.raises(InvalidSpec) as refused:
        built(resource(transformer=wanted), server_version=Version(0, 1, 0))
    [problem] = refused.value.problems
    assert problem.path == "spec.transformer.storageUri"
    assert "needs a server of version 0.2.0 or newer" in problem.message


def test_the_pods_of_a_component_are_selected_by_it_alone() -> None:
    children = built(resource(transformer={"image": IMAGE, "replicas": 2}, explainer={"image": IMAGE}))  # fmt: skip
    names = ("demo", "demo-transformer", "demo-explainer")
    labels = [children["Deployment", name]["spec"]["selector"]["matchLabels"] for name in names]
    selected = [children["Service", name]["spec"]["selector"] for name in names]
    assert labels == selected
    assert [each["app.kubernetes.io/component"] for each in labels] == ["server", "transformer", "explainer"]  # fmt: skip
    assert {each["app.kubernetes.io/instance"] for each in labels} == {"demo"}
    budget = children["PodDisruptionBudget", "demo-transformer"]["spec"]["selector"]["matchLabels"]
    assert budget == labels[1]
    assert ("PodDisruptionBudget", "demo-explainer") not in children


def test_a_component_is_scaled_by_its_own_processors() -> None:
    scaling = {"minReplicas": 2, "maxReplicas": 6, "cpuPercent": 70}
    children = built(resource(transformer={"image": IMAGE, "autoscaling": scaling}))
    spec = children["HorizontalPodAutoscaler", "demo-transformer"]["spec"]
    assert spec["scaleTargetRef"]["name"] == "demo-transformer"
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 6)
    target = {"type": "Utilization", "averageUtilization": 70}
    assert spec["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    assert "replicas" not in children["Deployment", "demo-transformer"]["spec"]


GATEWAY = {"parentRefs": [{"name": "public"}], "hostnames": ["a.example"], "grpcHostnames": ["g.example"]}  # fmt: skip
SERVED = {"url": "http://a.example", "conditions": [], "observedGeneration": 3}


def backends(children: dict[tuple[str, str], Object], kind: str) -> list[str]:
    rules = children[kind, "demo"]["spec"]["rules"]
    return [one["name"] for rule in rules for one in rule["backendRefs"]]


@pytest.mark.parametrize(
    ("status", "serves", "leads"),
    [
        (None, False, True),
        (SERVED, False, False),
        (SERVED, True, True),
        ({**SERVED, "transformer": {"leads": False}}, False, False),
        ({**SERVED, "transformer": {"leads": True}}, False, True),
    ],
    ids=["new service", "added, starts", "added, serves", "still starts", "fails later"],
)
def test_requests_go_to_a_transformer_that_was_added_once_it_serves_and_then_for_ever(
    status: Object | None, *, serves: bool, leads: bool
) -> None:
    """Raw requests of before reach the servers until then, and never after: the servers would misread what the transformer takes."""
    manifest = resource(status=status, transformer={"image": IMAGE}, gateway=GATEWAY)
    children = built(manifest, components={"transformer": CanaryFacts(serves=serves)})
    assert backends(children, "HTTPRoute") == ["demo-transformer" if leads else "demo"]
    assert backends(children, "GRPCRoute") == ["demo"], "it speaks HTTP"


BOTH: Object = {"gateway": GATEWAY, "canary": {"weight": 10}, "transformer": {"image": IMAGE, "protocol": "v1"}}  # fmt: skip


def weights(children: dict[tuple[str, str], Object], kind: str) -> dict[str, int]:
    [rule] = children[kind, "demo"]["spec"]["rules"]
    return {f"{one['name']}:{one['port']}": one["weight"] for one in rule["backendRefs"]}


@pytest.mark.parametrize(
    ("canary", "in_front", "share"),
    [(True, True, 10), (True, False, 0), (False, True, 0)],
    ids=["both serve", "its transformer does not", "its servers do not"],
)
def test_a_canary_has_a_transformer_of_its_own_and_both_tracks_divide_the_requests(
    *, canary: bool, in_front: bool, share: int
) -> None:
    """A Service has no weights: what the one transformer sends to the servers could not be divided."""
    children = built(
        resource(**BOTH),
        canary=CanaryFacts(serves=canary),
        components={"transformer": CanaryFacts(serves=True), "canary-transformer": CanaryFacts(serves=in_front)},
    )  # fmt: skip
    assert weights(children, "HTTPRoute") == {"demo-transformer:8080": 100 - share, "demo-canary-transformer:8080": share}  # fmt: skip
    assert weights(children, "GRPCRoute") == {"demo:8001": 100 - share, "demo-canary:8001": share}
    asked = container(children, "demo-canary-transformer")["args"]
    assert asked[asked.index("--predictor_host") + 1] == "demo-canary.models:8000"
    assert asked[asked.index("--model_name") + 1] == "demo", "the paths are those of the service"
    asked = container(children, "demo-transformer")["args"]
    assert asked[asked.index("--predictor_host") + 1] == "demo.models:8000"
    selectors = [children["Service", name]["spec"]["selector"] for name in ("demo-transformer", "demo-canary-transformer")]  # fmt: skip
    assert selectors[0] != selectors[1]
    deployed = children["Deployment", "demo-canary-transformer"]["spec"]
    assert deployed["selector"]["matchLabels"] == selectors[1]


def test_a_transformer_that_does_not_lead_yet_takes_nothing_from_the_canary() -> None:
    given: Object = {
        "canary": CanaryFacts(serves=True),
        "components": {"transformer": CanaryFacts()},
    }
    children = built(resource(status=SERVED, **BOTH), **given)
    assert weights(children, "HTTPRoute") == {"demo:8000": 90, "demo-canary:8000": 10}


def test_the_transformer_of_a_canary_may_have_an_image_of_its_own() -> None:
    children = built(resource(**{**BOTH, "canary": {"weight": 10, "transformerImage": "new"}}))
    assert container(children, "demo-canary-transformer")["image"] == "new"
    assert container(children, "demo-transformer")["image"] == IMAGE
    profile = {**HELD, "policy": {"namespaces": {"names": ["models"]}, "enforced": ["image"]}}
    transformer = {"image": HELD["image"]}
    canary = {"weight": 10, "transformerImage": "new"}
    manifest = resource(gateway=GATEWAY, canary=canary, transformer=transformer)
    assert refusals(manifest, profile=profile).keys() == {"spec.canary.transformerImage"}
    del canary["transformerImage"]
    assert ("Deployment", "demo-canary-transformer") in built(manifest, profile=profile)


def test_copies_of_what_a_transformer_takes_go_to_a_transformer() -> None:
    for given, names in (({}, ["demo-canary-transformer", "demo-canary"]), ({"service": "next"}, ["next-transformer", "next"])):  # fmt: skip
        children = built(resource(**BOTH, mirror=given))
        rules = [children[kind, "demo"]["spec"]["rules"][0] for kind in ("HTTPRoute", "GRPCRoute")]
        copies = [rule["filters"][0]["requestMirror"]["backendRef"] for rule in rules]
        assert [(one["name"], one["port"]) for one in copies] == [(names[0], 8080), (names[1], 8001)]  # fmt: skip


def test_explanations_go_to_the_explainer_and_nothing_else_does() -> None:
    explainer = {"image": IMAGE, "modelName": "bert", "port": 9000}
    children = built(resource(explainer=explainer, gateway=GATEWAY, pathPrefix="/qa"))
    first, second = children["HTTPRoute", "demo"]["spec"]["rules"]
    path = {"type": "Exact", "value": "/qa/v1/models/bert:explain"}
    assert first["matches"] == [{"path": path}]
    assert [(one["name"], one["port"]) for one in first["backendRefs"]] == [("demo-explainer", 9000)]  # fmt: skip
    [rewritten] = first["filters"]
    assert rewritten["urlRewrite"]["path"]["replaceFullPath"] == "/v1/models/bert:explain"
    assert [one["name"] for one in second["backendRefs"]] == ["demo"]


def test_an_ingress_leads_to_them_as_well() -> None:
    entry = {"enabled": True, "host": "a.example", "grpcHost": "g.example", "className": "nginx"}
    children = built(resource(transformer={"image": IMAGE}, explainer={"image": IMAGE}, ingress=entry))  # fmt: skip
    paths = children["Ingress", "demo"]["spec"]["rules"][0]["http"]["paths"]
    assert [(one["path"], one["pathType"], one["backend"]["service"]["name"]) for one in paths] == [
        ("/v1/models/demo:explain", "Exact", "demo-explainer"),
        ("/", "Prefix", "demo-transformer"),
    ]
    [grpc] = children["Ingress", "demo-grpc"]["spec"]["rules"][0]["http"]["paths"]
    assert grpc["backend"]["service"]["name"] == "demo-grpc"


def test_the_servers_pods_do_not_change_with_a_component() -> None:
    alone = built(resource())["Deployment", "demo"]
    beside = built(resource(transformer={"image": IMAGE}))["Deployment", "demo"]
    assert alone == beside


@pytest.mark.parametrize(
    ("controller", "parts", "words"),
    [
        ("nginx", (), '=~"demo(-grpc)?"'),
        ("nginx", ("transformer", "explainer"), '=~"demo(-grpc|-explainer|-transformer)?"'),
        ("traefik", ("transformer",), "models-demo-http|models-demo-grpc-grpc|models-demo-transformer-http"),
    ],
)  # fmt: skip
def test_requests_to_a_component_start_servers_that_were_scaled_to_zero(
    controller: str, parts: tuple[str, ...], words: str
) -> None:
    manifest = resource(
        ingress={"enabled": True, "host": "a.example", "className": controller},
        **{one: {"image": IMAGE} for one in parts},
    )
    manifest["spec"]["predictor"]["autoscaling"] = {"class": "keda", "minReplicas": 0}
    triggers = built(manifest)["ScaledObject", "demo"]["spec"]["triggers"]
    assert any(words in one["metadata"]["query"] for one in triggers)


HELD: Object = {
    "image": "registry.example.com/naiad-server:1",
    "args": ["--log-verbose=1"],
    "nodeSelector": {"pool": "team"},
    "env": [{"name": "PROXY", "value": "a"}],
    "podTemplate": {"spec": {"containers": [{"name": "server", "imagePullPolicy": "Always"}]}},
}


def test_a_profile_counts_for_the_pods_of_a_component_but_not_what_is_the_servers() -> None:
    component = {"image": IMAGE, "env": [{"name": "OWN", "value": "b"}]}
    children = built(resource(transformer=component), profile=HELD)
    pod = children["Deployment", "demo-transformer"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": "team"}
    [only] = pod["containers"]
    assert (only["image"], only["imagePullPolicy"]) == (IMAGE, "Always")
    assert {one["name"] for one in only["env"]} == {"PROXY", "OWN"}
    assert "--log-verbose=1" not in only["args"]


def refusals(manifest: Object, **given: typing.Any) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as raised:
        built(manifest, **given)
    return {one.path: one.message for one in raised.value.problems}


@pytest.mark.parametrize("name", ["transformer", "explainer"])
def test_what_a_profile_enforces_a_component_cannot_walk_around(name: str) -> None:
    profile = {**HELD, "policy": {"namespaces": {"names": ["models"]}, "enforced": ["image", "nodeSelector"]}}  # fmt: skip
    component = {"image": IMAGE, "nodeSelector": {"pool": "others"}}
    found = refusals(resource(**{name: component}), profile=profile)
    assert found.keys() == {f"spec.{name}.image", f"spec.{name}.nodeSelector[pool]"}
    assert "the NaiadProfile held enforces image" in found[f"spec.{name}.image"]
    patch = {"spec": {"nodeSelector": {"pool": "others"}}}
    profile["policy"]["enforced"] = ["nodeSelector"]
    found = refusals(resource(**{name: {"image": IMAGE, "podTemplate": patch}}), profile=profile)
    assert found.keys() == {f"spec.{name}.podTemplate"}


@pytest.mark.parametrize("field", ["image", "args"])
def test_a_component_runs_no_command_in_an_image_that_is_enforced(field: str) -> None:
    """The profile's image has other programs, e.g. a shell, that could write the profile's variables anywhere."""
    profile = {**HELD, "policy": {"namespaces": {"names": ["models"]}, "enforced": [field]}}
    component = {"image": HELD["image"], "command": ["sh", "-c", "env"]}
    found = refusals(resource(transformer=component), profile=profile)
    assert found.keys() == {"spec.transformer.command"}
    assert f"enforces {field}" in found["spec.transformer.command"]
    del component["command"]
    children = built(resource(transformer=component), profile=profile)
    assert container(children, "demo-transformer")["image"] == HELD["image"]


def test_the_limits_of_a_profile_stay_beside_a_components_own_requests() -> None:
    """As the servers' do: else a request of any CPU would leave out an enforced limit of memory."""
    held: Object = {
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "4Gi"}},
        "policy": {"namespaces": {"names": ["models"]}, "enforced": ["resources"]},
    }
    component = {"image": IMAGE, "resources": {"requests": {"cpu": "100m", "ephemeral-storage": "1Gi"}}}  # fmt: skip
    made = container(built(resource(transformer=component), profile=held), "demo-transformer")
    assert made["resources"]["limits"] == {"memory": "4Gi"}
    assert made["resources"]["requests"].items() >= {"cpu": "100m", "ephemeral-storage": "1Gi"}.items()  # fmt: skip


@pytest.mark.parametrize("name", ["transformer", "explainer"])
def test_a_pod_template_of_a_component_is_restricted_and_refused_as_the_predictors(
    name: str,
) -> None:
    patch = {"spec": {"hostPID": True, "containers": [{"name": "server", "securityContext": {"privileged": True}}]}}  # fmt: skip
    manifest = resource(**{name: {"image": IMAGE, "podTemplate": patch}})
    for allowed, words in (("Restricted", "podTemplate is Restricted here"), ("Refuse", "is refused here")):  # fmt: skip
        defaults = manifests.facts().defaults
        policy = Policy(pod_template=typing.cast("typing.Any", allowed), triggers="Allow")
        defaults = type(defaults)(image=defaults.image, policy=policy)
        found = refusals(manifest, defaults=defaults)
        assert found
        assert all(path.startswith(f"spec.{name}.podTemplate") for path in found)
        assert all(words in message for message in found.values())
