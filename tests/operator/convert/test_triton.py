"""`naiad-operator convert`: what becomes of plain Triton Deployments, and what is listed."""

import pathlib
import subprocess
import sys

import pytest

from naiad_operator import cli
from naiad_operator.api.manifests import yaml_text
from tests.operator.convert.triton import RUN, Object, deployment, listed, service
from tests.support import generated

NEED_AN_EDIT = {
    "onprem-chart": "a repository on NFS",
    "init-copy": "a file of packages, which stays in the bucket",
    "host-path": "a folder of the node, which a platform must allow",
}
"""The shapes that no service can have as they are, and what of them."""
SHAPES = sorted(generated.CONVERTED.glob("*.yaml"))


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_check_says_of_a_typical_file_what_convert_said(
    path: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a user sees of each is in tests/data/convert/expected."""
    status = cli.main(["convert", "-f", str(path)])
    made = tmp_path / "naiad.yaml"
    made.write_text(capsys.readouterr().out)
    assert cli.main(["check", "-q", "-f", str(made)]) <= status
    assert status == (1 if path.stem in NEED_AN_EDIT else 0)


@pytest.mark.parametrize("stem", NEED_AN_EDIT)
def test_one_sentence_says_why_no_service_has_a_shape(
    stem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["convert", "-f", str(generated.CONVERTED / f"{stem}.yaml")])
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if line.startswith("the result needs an edit: ")]) == 1


def test_a_platform_may_allow_folders_of_the_node(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(generated.CONVERTED / "host-path.yaml")
    assert cli.main(["convert", "--pod-template=Allow", "-f", path]) == 0
    made = tmp_path / "naiad.yaml"
    made.write_text(capsys.readouterr().out)
    assert cli.main(["check", "-q", "--pod-template=Allow", "-f", str(made)]) == 0
    assert cli.main(["check", "-q", "--pod-template=Restricted", "-f", str(made)]) == 1


def test_nothing_of_a_file_is_lost_without_a_word(convert: RUN) -> None:
    strange = deployment({"strangeOfContainer": 1}, {"strangeOfPod": {"a": 1}}, {"strange": [1]})
    strange["metadata"]["namespace"] = "models"
    strange |= {"replicas": 2}
    converted = convert(strange)
    for field, advice in (
        ("containers[0].strangeOfContainer", "write it in predictor.podTemplate, under spec.containers"),
        ("spec.strangeOfPod.a", "write it in predictor.podTemplate.spec"),
        ("spec.strange", "there is no such field in Naiad: leave it out"),
        ("replicas", "Kubernetes has no such field: write it in spec if it is meant"),
    ):  # fmt: skip
        assert listed(converted, f"{field}: not converted: {advice}"), field


def test_what_check_calls_wrong_needs_an_edit(convert: RUN) -> None:
    """Kubernetes refused it as well, or it was never meant."""
    converted = convert(deployment({"resources": {"limits": {"memory": "512m"}}}))
    assert converted.status == 1
    assert listed(converted, "InferenceService demo: spec.predictor.resources.limits[memory]: is")


def test_words_and_variables_that_are_not_lists_are_listed(convert: RUN) -> None:
    fields = {"command": "tritonserver", "args": "--model-repository=/m", "env": {"A": "b"}}
    converted = convert(deployment(fields))
    for field in fields:
        assert listed(converted, f"containers[0].{field}: left out: "), field


def test_claims_of_devices_are_a_field(convert: RUN) -> None:
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}
    converted = convert(deployment({"resources": {"claims": [{"name": "gpu"}]}}, claims))
    for field in ("spec.resourceClaims", "containers[0].resources.claims"):
        assert listed(converted, f"{field}: not converted: write accelerator.strategy: dra"), field


def test_annotations_of_the_deployment_are_listed(convert: RUN) -> None:
    source = deployment()
    source["metadata"]["annotations"] = {"reloader.stakater.com/auto": "true", "deployment.kubernetes.io/revision": "3"}  # fmt: skip
    assert listed(convert(source), "metadata.annotations: left out: reloader.stakater.com/auto:")


def test_what_the_api_server_fills_in_says_nothing(convert: RUN) -> None:
    """The Deployment as `kubectl get -o yaml` prints it."""
    dump = deployment(
        {
            "imagePullPolicy": "IfNotPresent", "resources": {}, "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        },
        {
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        },
        {
            "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10, "replicas": 1,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        },
    )  # fmt: skip
    dump["metadata"] |= {"uid": "1", "resourceVersion": "1", "generation": 1, "annotations": {"deployment.kubernetes.io/revision": "1"}}  # fmt: skip
    dump["spec"]["template"]["metadata"]["creationTimestamp"] = None
    dump["status"] = {"replicas": 1}
    converted = convert(dump)
    assert [line.split(":")[0] for line in converted.lines] == [
        "metadata.name",
        "spec.template.metadata.labels",
        "spec.template.spec.containers[0].image",
    ]
    assert converted.predictor == {
        "model": {"storageUri": "s3://acme/models"},
        "accelerator": {"type": "none"},
        "replicas": 1,
    }


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet", "DaemonSet", "Pod"])
def test_other_kinds_with_the_same_pods(convert: RUN, kind: str) -> None:
    source = deployment(spec={"replicas": 3})
    source["kind"] = kind
    if kind == "Pod":
        source["spec"] = source["spec"]["template"]["spec"]
    if kind == "DaemonSet":
        del source["spec"]["replicas"]
    converted = convert(source)
    assert converted.status == 0
    assert converted.predictor.get("replicas", 1) == (
        3 if kind in ("StatefulSet", "ReplicaSet") else 1
    )
    assert ("placement" in converted.predictor) == (kind == "DaemonSet")


def test_a_stateful_set_has_names_and_claims_that_pods_lose(convert: RUN) -> None:
    claims = [
        {"metadata": {"name": "cache"}, "spec": {"accessModes": ["ReadWriteOnce"]}},
        {"metadata": {"name": "models"}, "spec": {}},
    ]
    mounts = [{"name": "cache", "mountPath": "/c"}, {"name": "models", "mountPath": "/models"}]
    init = {
        "name": "fetch",
        "command": ["sh", "-c", "aws s3 sync s3://$BUCKET/${FOLDER} /models"],
        "env": [{"name": "BUCKET", "value": "acme"}, {"name": "FOLDER", "value": "m"}],
        "volumeMounts": [{"name": "models", "mountPath": "/models"}],
    }
    container = {"args": ["tritonserver", "--model-repository=/models"], "volumeMounts": mounts}
    spec = {
        "serviceName": "peers",
        "updateStrategy": {"type": "OnDelete"},
        "volumeClaimTemplates": claims,
    }
    source = deployment(container, {"initContainers": [init]}, spec)
    source["kind"] = "StatefulSet"
    converted = convert(source)
    assert converted.status == 0
    assert converted.predictor["model"] == {"storageUri": "s3://acme/m"}
    [volume] = converted.predictor["podTemplate"]["spec"]["volumes"]
    claim = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}
    # The name cache is one of the operator's own.
    assert volume == {"name": "cache-own", "ephemeral": claim}
    for field in ("serviceName: left out: peers", "updateStrategy: left out", "volumeClaimTemplates: pods"):  # fmt: skip
        assert listed(converted, f"spec.{field}"), field


def test_a_server_is_found_by_its_probes_and_torchserve_is_another_one(convert: RUN) -> None:
    probe = {"httpGet": {"path": "/v2/health/ready", "port": 8000}}
    script: Object = {"image": "acme/triton-trt-llm:1", "args": ["python3", "server.py"], "readinessProbe": probe}  # fmt: skip
    claim = {"name": "m", "persistentVolumeClaim": {"claimName": "engines"}}
    script["volumeMounts"] = [{"name": "m", "mountPath": "/engines"}]
    converted = convert(deployment(script, {"volumes": [claim]}))
    assert listed(converted, "has no --model-repository: write model.storageUri, e.g. pvc://engines")  # fmt: skip
    del script["readinessProbe"]
    assert convert(deployment(script)).services == []
    torchserve = {"image": "pytorch/torchserve", "args": ["torchserve", "--model-store=/m"]}
    assert convert(deployment(torchserve)).services == []


def test_a_number_of_pods_in_quotes(convert: RUN) -> None:
    rolling = {"maxSurge": "1", "maxUnavailable": "0"}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    converted = convert(deployment(spec={"strategy": strategy}))
    assert converted.predictor["deploymentStrategy"] == {
        "type": "RollingUpdate",
        "maxSurge": 1,
        "maxUnavailable": 0,
    }


@pytest.mark.parametrize(
    "part",
    [
        {"env": [{"name": ["a"]}, 7]},
        {"args": "tritonserver"},
        {"ports": [{"containerPort": {}, "name": []}]},
        {"volumeMounts": [{"name": {}, "mountPath": 7}]},
        {"resources": [1], "livenessProbe": 7, "lifecycle": {"preStop": {"exec": {"command": 7}}}},
        {"securityContext": "root", "command": {"a": 1}},
    ],
)
def test_what_has_a_wrong_type_is_not_a_bug(convert: RUN, part: Object) -> None:
    odd = service({"ports": [{"port": [], "targetPort": {}}], "type": "NodePort"})
    assert convert(deployment(part), odd, {"kind": {}, "spec": 7}).lines


def test_only_objects_that_a_user_wrote_are_converted(convert: RUN) -> None:
    """`kubectl get all -o yaml` also prints what Deployments make, and what this operator has made."""
    made = deployment()
    made["metadata"] |= {
        "name": "demo-1",
        "ownerReferences": [{"kind": "Deployment", "name": "demo"}],
    }
    ours = deployment()
    ours["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "naiad-operator"}
    converted = convert({"kind": "List", "apiVersion": "v1", "items": [deployment(), made, ours]})
    assert len(converted.services) == 1
    assert listed(converted, "Deployment demo-1: not converted: it is made by Deployment demo")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, "ConfigMap a: not converted: it stays as it is"),
        ({"kind": "Deployment", "metadata": {"name": "a"}}, "Deployment a: not converted: none of its containers runs tritonserver"),
        ({"kind": "Application", "metadata": {"name": "a"}}, "Application a: not converted: there is no rule for it"),
        ({"kind": "Role", "metadata": {"name": "a"}}, "Role a: not converted: it stays as it is"),
        ({"kind": "LLMInferenceService", "metadata": {"name": "a"}}, "it is a server of vLLM's own: write a model with backend vllm (docs/language-models.md), and an InferenceService for its repository"),
        ({"kind": "TrainedModel", "metadata": {"name": "a"}, "spec": {"inferenceService": "b"}}, "a folder of the repository of InferenceService b"),
        ({"kind": "Rollout", "metadata": {"name": "a"}, "spec": deployment()["spec"]}, "Rollout a: not converted: its pods run tritonserver, but"),
        ({"kind": "Job", "metadata": {"name": "a"}, "spec": deployment()["spec"]}, "Job a: not converted: its pods end"),
        ({"kind": "InferenceService", "metadata": {"name": "a"}}, "InferenceService a: not converted: its apiVersion is None, which is not KServe's"),
        ({"kind": "Kustomization"}, "render it first (kubectl kustomize FOLDER)"),
        ({"apiVersion": "serving.naiad.dev/v1alpha1", "kind": "InferenceService"}, "it is Naiad's already"),
    ],
)  # fmt: skip
def test_what_is_not_converted_is_named(convert: RUN, value: Object, words: str) -> None:
    converted = convert(value)
    assert (converted.status, converted.services) == (1, [])
    assert listed(converted, words), converted.lines
    assert converted.lines[-1].startswith("no InferenceService of KServe")


def test_two_services_of_one_name_need_an_edit(convert: RUN) -> None:
    """When both are applied, the later one replaces the earlier one."""
    other = deployment()
    other["kind"] = "StatefulSet"
    converted = convert(deployment(), other)
    assert converted.status == 1
    assert listed(converted, "InferenceService demo: metadata.name: another object of the files")
    other["metadata"]["namespace"] = "elsewhere"
    assert convert(deployment(), other).status == 0


def test_a_full_disk_is_said(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "triton.yaml"
    path.write_text(yaml_text.write([deployment()]))
    command = [sys.executable, "-m", "naiad_operator", "convert", "-f", str(path)]
    with pathlib.Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "standard output: the services cannot be written: No space left on device"
    )


def test_several_files_and_folders(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Service in another file belongs to the Deployment as well."""
    (tmp_path / "b.yaml").write_text(yaml_text.write([service({"type": "NodePort"})]))
    (tmp_path / "a.json").write_text(yaml_text.write([deployment()]))
    assert cli.main(["convert", "-f", str(tmp_path)]) == 0
    [made] = yaml_text.read(capsys.readouterr().out)
    assert made["spec"]["service"] == {"type": "NodePort"}
    broken = tmp_path / "c.yaml"
    broken.write_text("a: [")
    assert cli.main(["convert", "-f", str(tmp_path / "a.json"), "-f", str(broken)]) == 1
    assert f"{broken}:1: is not valid YAML" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (deployment(), "warning: is a Deployment that runs Triton, which is not checked: naiad-operator convert -f"),
        ({"apiVersion": "machinelearning.seldon.io/v1", "kind": "SeldonDeployment"}, "warning: is a SeldonDeployment of another system"),
        ({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime"}, "warning: is a ServingRuntime of another system"),
    ],
)  # fmt: skip
def test_check_names_other_model_servers(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], value: Object, words: str
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(yaml_text.write([value]))
    assert cli.main(["check", "-f", str(path)]) == 1
    first, last = capsys.readouterr().err.splitlines()
    assert words in first
    assert last == f"nothing to check: no InferenceService in {path}"
