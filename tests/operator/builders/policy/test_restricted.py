"""podTemplate Restricted: what a patch may not add to a pod, with the field and what to write instead."""

import dataclasses
import typing

import pytest
from hypothesis import given as given_values, settings, strategies as st

from naiad_operator.api import names
from naiad_operator.api.parsing import service
from naiad_operator.api.types.policy import PodTemplate, Triggers
from naiad_operator.builders import build
from naiad_operator.builders.facts import ClusterFacts, Policy
from naiad_operator.builders.policy import restricted
from naiad_operator.builders.workload import merge
from naiad_operator.errors import InvalidSpec
from tests.support import manifests

Object = dict[str, typing.Any]
HARDENED: Object = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def facts(
    *, pod_template: PodTemplate = "Restricted", triggers: Triggers = "Allow"
) -> ClusterFacts:
    given = manifests.facts()
    policy = Policy(pod_template=pod_template, triggers=triggers)
    return dataclasses.replace(given, defaults=dataclasses.replace(given.defaults, policy=policy))


def profile(**spec: typing.Any) -> service.Profile:
    metadata = {"name": "platform"}
    manifest = {
        "apiVersion": names.API_VERSION,
        "kind": names.PROFILE_KIND,
        "metadata": metadata,
        "spec": spec,
    }
    return service.parse_profile(manifest)


def refused(
    given: Object, of: service.Profile | None = None, **policy: typing.Any
) -> dict[str, str]:
    """The fields that are refused, with the messages."""
    try:
        build(service.parse(given, of), facts(**policy))
    except InvalidSpec as invalid:
        return {
            problem.path.removeprefix("spec.predictor."): problem.message
            for problem in invalid.problems
        }
    return {}


def patched(
    spec: Object, of: service.Profile | None = None, **predictor: typing.Any
) -> dict[str, str]:
    return refused(manifests.resource(podTemplate={"spec": spec}, **predictor), of)


def server(**fields: typing.Any) -> Object:
    return {"containers": [{"name": "server", **fields}]}


def volume(**source: typing.Any) -> Object:
    return {"volumes": [{"name": "mine", **source}]}


SERVER = "podTemplate.spec.containers[0]"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"hostPID": True}, "podTemplate.spec.hostPID"),
        ({"hostIPC": True}, "podTemplate.spec.hostIPC"),
        ({"hostNetwork": True}, "podTemplate.spec.hostNetwork"),
        ({"nodeName": "master"}, "podTemplate.spec.nodeName"),
        ({"serviceAccountName": "admin"}, "podTemplate.spec.serviceAccountName"),
        ({"serviceAccount": "admin"}, "podTemplate.spec.serviceAccount"),
        ({"automountServiceAccountToken": True}, "podTemplate.spec.automountServiceAccountToken"),
        ({"automountServiceAccountToken": None}, "podTemplate.spec.automountServiceAccountToken"),
        ({"priorityClassName": "system-node-critical"}, "podTemplate.spec.priorityClassName"),
        ({"runtimeClassName": "host"}, "podTemplate.spec.runtimeClassName"),
        ({"schedulerName": "mine"}, "podTemplate.spec.schedulerName"),
        ({"imagePullSecrets": [{"name": "other"}]}, "podTemplate.spec.imagePullSecrets"),
        ({"securityContext": None}, "podTemplate.spec"),
        ({"securityContext": {"runAsNonRoot": False}}, "podTemplate.spec"),
        ({"securityContext": {"runAsUser": 0}}, "podTemplate.spec.securityContext.runAsUser"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "podTemplate.spec.securityContext.seccompProfile.type"),
        ({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}, "podTemplate.spec.securityContext.seLinuxOptions.type"),
        ({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, "podTemplate.spec.securityContext.appArmorProfile.type"),
        ({"securityContext": {"windowsOptions": {"hostProcess": True}}}, "podTemplate.spec.securityContext.windowsOptions.hostProcess"),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "podTemplate.spec.securityContext.sysctls"),
        (volume(hostPath={"path": "/"}), "podTemplate.spec.volumes[0].hostPath"),
        (volume(nfs={"server": "a", "path": "/"}), "podTemplate.spec.volumes[0].nfs"),
        (volume(secret={"secretName": "other"}), "podTemplate.spec.volumes[0].secret"),
        (volume(projected={"sources": [{"secret": {"name": "other"}}]}), "podTemplate.spec.volumes[0].projected.sources"),
        (volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}), "podTemplate.spec.volumes[0].projected.sources"),
        (volume(csi={"driver": "a", "nodePublishSecretRef": {"name": "other"}}), "podTemplate.spec.volumes[0].csi"),
        ({"volumes": [{"name": "tmp", "hostPath": {"path": "/"}}]}, "podTemplate.spec.volumes[0].hostPath"),
        (server(securityContext={"privileged": True}), f"{SERVER}.securityContext.privileged"),
        (server(securityContext={"allowPrivilegeEscalation": True}), f"{SERVER}.securityContext.allowPrivilegeEscalation"),
        (server(securityContext={"procMount": "Unmasked"}), f"{SERVER}.securityContext.procMount"),
        (server(securityContext={"capabilities": {"drop": []}}), f"{SERVER}.securityContext.capabilities.drop"),
        (server(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}), f"{SERVER}.securityContext.capabilities.add"),
        (server(securityContext={"runAsNonRoot": False}), f"{SERVER}.securityContext.runAsNonRoot"),
        (server(securityContext=None), f"{SERVER}.securityContext"),
        (server(ports=[{"containerPort": 9000, "hostPort": 9000}]), f"{SERVER}.ports"),
        (server(livenessProbe={"httpGet": {"host": "169.254.169.254"}}), f"{SERVER}.livenessProbe.httpGet.host"),
        (server(lifecycle={"preStop": {"tcpSocket": {"port": 1, "host": "a"}}}), f"{SERVER}.lifecycle.preStop.tcpSocket.host"),
        (server(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}}]), f"{SERVER}.env[0]"),
        (server(envFrom=[{"secretRef": {"name": "other"}}]), f"{SERVER}.envFrom"),
        ({"containers": [{"name": "sidecar", "image": "a"}]}, SERVER),
        ({"initContainers": [{"name": "init", "image": "a", "securityContext": {**HARDENED, "privileged": True}}]}, "podTemplate.spec.initContainers[0].securityContext.privileged"),
    ],
    ids=lambda value: str(value)[:70],
)  # fmt: skip
def test_what_gives_a_pod_rights_is_refused_with_its_field(spec: Object, field: str) -> None:
    found = patched(spec)
    assert any(one.startswith(field) for one in found), found
    assert all("Restricted here (the operator's options --pod-template" in one for one in found.values())  # fmt: skip
    assert refused(manifests.resource(podTemplate={"spec": spec}), pod_template="Allow") == {}


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "sidecar", "image": "a", "securityContext": HARDENED}]},
        {"initContainers": [{"name": "init", "image": "a", "securityContext": {**HARDENED, "runAsUser": 7}}]},
        {"terminationGracePeriodSeconds": 90, "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a"]}]},
        {"tolerations": [{"operator": "Exists"}], "hostNetwork": False, "shareProcessNamespace": True},
        {"securityContext": {"fsGroup": 5, "sysctls": [{"name": "net.ipv4.tcp_fin_timeout", "value": "1"}]}},
        volume(persistentVolumeClaim={"claimName": "a"}),
        volume(configMap={"name": "a"}),
        server(securityContext={"capabilities": {"add": ["NET_BIND_SERVICE"]}}),
        server(env=[{"name": "A", "value": "b"}], volumeMounts=[{"name": "tmp", "mountPath": "/more"}]),
    ],
    ids=lambda value: str(value)[:70],
)  # fmt: skip
def test_what_gives_no_rights_is_allowed(spec: Object) -> None:
    assert patched(spec) == {}


def test_a_secret_and_an_account_that_the_service_names_may_be_named_again() -> None:
    model = {"storageUri": "s3://models", "storage": {"secretName": "keys"}}
    spec = {"serviceAccountName": "mine", **volume(secret={"secretName": "keys"})}
    assert patched(spec, model=model, serviceAccountName="mine") == {}


def test_a_patch_does_not_take_away_the_runtime_of_the_profile() -> None:
    of = profile(runtimeClassName="gvisor")
    assert list(patched({"runtimeClassName": None}, of)) == ["podTemplate.spec.runtimeClassName"]


AGENT: Object = {"name": "agent", "image": "a", "securityContext": {"privileged": True}}
OF_PLATFORM = {
    "podTemplate": {
        "spec": {
            "hostNetwork": True,
            "containers": [AGENT],
            "volumes": [{"name": "node", "hostPath": {"path": "/var/cache"}}],
        }
    }
}


def test_a_profile_may_have_what_a_service_may_not() -> None:
    assert patched({"terminationGracePeriodSeconds": 90}, profile(**OF_PLATFORM)) == {}


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "agent", "command": ["sh"]}]},
        {"volumes": [{"name": "node", "hostPath": {"path": "/"}}]},
        server(volumeMounts=[{"name": "node", "mountPath": "/node"}]),
    ],
    ids=["another command", "another path", "a mount"],
)
def test_a_service_does_not_make_what_its_profile_has_its_own(spec: Object) -> None:
    assert patched(spec, profile(**OF_PLATFORM))


def test_a_patch_without_rights_is_refused_where_none_is_allowed_and_that_of_a_profile_is_not() -> (
    None
):
    given = manifests.resource(podTemplate={"metadata": {"labels": {"a": "b"}}})
    [(field, message)] = refused(given, pod_template="Refuse").items()
    assert field == "podTemplate"
    assert message.startswith("is refused here (the operator's options --pod-template")
    of = profile(podTemplate={"spec": {"hostPID": True}})
    assert refused(manifests.resource(), of, pod_template="Refuse") == {}


def test_fields_beside_the_patch_give_no_rights_of_the_kind_either() -> None:
    given = manifests.resource(priorityClassName="system-node-critical")
    given["spec"]["annotations"] = {"container.apparmor.security.beta.kubernetes.io/server": "unconfined", "a": "b"}  # fmt: skip
    expected = {"priorityClassName", "spec.annotations[container.apparmor.security.beta.kubernetes.io/server]"}  # fmt: skip
    assert refused(given).keys() == expected
    assert refused(given, pod_template="Allow") == {}
    own = profile(priorityClassName="system-node-critical")
    assert refused(manifests.resource(), own) == {}, "the platform may"


def test_the_policy_of_the_profile_counts_before_the_options_of_the_operator() -> None:
    namespaces = {"names": ["models"]}
    given = manifests.resource(podTemplate={"spec": {"hostPID": True}})
    strict = profile(policy={"namespaces": namespaces, "podTemplate": "Restricted"})
    found = refused(given, strict, pod_template="Allow")
    assert (
        "podTemplate is Restricted here (the NaiadProfile platform)"
        in found["podTemplate.spec.hostPID"]
    )
    free = profile(policy={"namespaces": namespaces, "podTemplate": "Allow"})
    assert refused(given, free, pod_template="Refuse") == {}
    silent = profile(policy={"namespaces": namespaces, "triggers": "Refuse"})
    assert refused(given, silent, pod_template="Refuse").keys() == {"podTemplate"}
    triggered = manifests.resource(autoscaling={"class": "keda", "triggers": [TRIGGER]})
    [message] = refused(triggered, silent).values()
    assert message.startswith("is refused here (the NaiadProfile platform)")


TRIGGER: Object = {"type": "metrics-api", "metadata": {"url": "http://10.0.0.1"}}
CLUSTER: Object = {"name": "thanos", "kind": "ClusterTriggerAuthentication"}


@pytest.mark.parametrize("of", ["predictor", "canary"])
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"triggers": [{"type": "cpu", "metricType": "Utilization"}, TRIGGER]}, "triggers[1]"),
        ({"triggers": [{"type": "cron", "metadata": {"timezone": "Etc/UTC"}}]}, ""),
        ({"triggers": [{"type": "cron", "authenticationRef": CLUSTER}]}, "triggers[0]"),
        ({"queueTimeMs": 5, "prometheusAddress": "http://mine", "prometheusAuth": CLUSTER}, "prometheusAuth.kind"),
        ({"queueTimeMs": 5, "prometheusAuth": CLUSTER}, ""),
        ({"queueTimeMs": 5, "prometheusAddress": "http://mine", "prometheusAuth": {"name": "own"}}, ""),
    ],
)  # fmt: skip
def test_scalers_with_the_rights_of_the_cluster_are_refused(
    fields: Object, field: str, of: str
) -> None:
    given = manifests.resource()
    given["spec"]["gateway"] = {"parentRefs": [{"name": "a"}], "hostnames": ["a.example.com"]}
    given["spec"].setdefault(of, {"weight": 10})["autoscaling"] = {"class": "keda", **fields}
    found = refused(given, pod_template="Allow", triggers="Refuse")
    where = "autoscaling" if of == "predictor" else "spec.canary.autoscaling"
    assert list(found) == ([f"{where}.{field}"] if field else [])
    assert refused(given, pod_template="Allow") == {}


def test_the_address_and_the_credentials_of_a_profile_are_allowed() -> None:
    given = manifests.resource(autoscaling={"class": "keda", "queueTimeMs": 5})
    of = profile(prometheus={"address": "http://platform", "auth": CLUSTER})
    assert refused(given, of, triggers="Refuse") == {}


@pytest.mark.parametrize("wrong", [0, 1.5, "x", [], ["x"], {}, {"x": 1}, True], ids=repr)
@pytest.mark.parametrize(
    "fields",
    [
        ("hostPID",), ("securityContext", "runAsUser"), ("securityContext", "sysctls"), ("serviceAccountName",), ("volumes",), ("imagePullSecrets",),
        ("containers", "securityContext"), ("containers", "ports"), ("containers", "env"), ("containers", "envFrom"), ("containers", "volumeMounts"),
    ],
    ids=".".join,
)  # fmt: skip
def test_a_value_of_a_wrong_type_is_refused_or_left_to_the_api_server(
    fields: tuple[str, ...], wrong: typing.Any
) -> None:
    first, *rest = fields
    spec: Object = {first: wrong}
    if first == "containers":
        spec = server(**{rest[0]: wrong})
    elif rest:
        spec = {first: {rest[0]: wrong}}
    patched(spec)  # an InvalidSpec or nothing: no other exception


_NAMES = st.sampled_from(["server", "sidecar", "agent"])
_SECRET = st.builds(lambda name: {"name": name}, st.sampled_from(["mine", "models"]))
_CONTAINER = st.fixed_dictionaries(
    {"name": _NAMES},
    optional={
        "securityContext": st.sampled_from([HARDENED, {"privileged": True}, {"runAsUser": 0}, {**HARDENED, "runAsNonRoot": False}]),
        "env": st.lists(st.builds(lambda secret: {"name": "A", "valueFrom": {"secretKeyRef": {**secret, "key": "k"}}}, _SECRET), max_size=1),
        "envFrom": st.lists(st.builds(lambda secret: {"secretRef": secret}, _SECRET), max_size=1),
        "volumeMounts": st.lists(st.sampled_from([{"name": "node", "mountPath": "/node"}, {"name": "own", "mountPath": "/own"}]), max_size=2),
        "ports": st.sampled_from([[{"containerPort": 1, "hostPort": 1}], [{"containerPort": 1}]]),
        "startupProbe": st.sampled_from([{"httpGet": {"host": "a", "port": 1}}, {"httpGet": {"port": 1}}]),
        "command": st.just(["sleep"]),
    },
)  # fmt: skip
_VOLUME = st.sampled_from(
    [{"name": "own", "emptyDir": {}}, {"name": "node", "hostPath": {"path": "/"}}, {"name": "own", "secret": {"secretName": "mine"}}]
)  # fmt: skip
_POD = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(_CONTAINER, max_size=3),
        "initContainers": st.lists(_CONTAINER, max_size=2),
        "volumes": st.lists(_VOLUME, max_size=2),
        "hostPID": st.booleans(),
        "serviceAccountName": st.sampled_from(["a", "b"]),
        "automountServiceAccountToken": st.sampled_from([False, None]),
        "imagePullSecrets": st.lists(_SECRET, max_size=1),
        "securityContext": st.sampled_from([{"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}, {"sysctls": [{"name": "a", "value": "b"}]}]),
        "nodeSelector": st.just({"a": "b"}),
    },
)  # fmt: skip
_ANNOTATIONS = st.dictionaries(
    st.sampled_from(["a", "container.apparmor.security.beta.kubernetes.io/server"]),
    st.sampled_from(["unconfined", "runtime/default"]),
    max_size=2,
)


@settings(max_examples=settings().max_examples * 4, deadline=None)
@given_values(_POD, _POD, _ANNOTATIONS)
def test_looking_at_what_a_patch_changed_alone_finds_the_same_as_comparing_everything(
    profile_patch: Object, patch: Object, annotations: dict[str, str]
) -> None:
    made = _base()
    before = merge.strategic(made, {"spec": profile_patch})
    after = merge.strategic(before, {"spec": patch, "metadata": {"annotations": annotations}})
    assert restricted.added(before, after) == restricted.compared(before, after)


def _base() -> Object:
    """The pod template of an ordinary service."""
    deployment = next(
        one
        for one in build(service.parse(manifests.resource()), facts())
        if one["kind"] == "Deployment"
    )
    template: Object = deployment["spec"]["template"]
    return template


def test_an_ordinary_patch_is_not_compared_with_the_whole_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which is most of what a policy would cost in a reconcile: `benchmarks.operator.policy_cost` prints how much."""
    monkeypatch.delattr(restricted, "compared")
    mounted = {"name": "server", "volumeMounts": [{"name": "own", "mountPath": "/own"}]}
    sidecar = {"name": "sidecar", "image": "a:1", "securityContext": HARDENED}
    spec = {
        "volumes": [{"name": "own", "emptyDir": {}}],
        "containers": [mounted, sidecar],
        "terminationGracePeriodSeconds": 90,
    }
    assert patched(spec) == {}
