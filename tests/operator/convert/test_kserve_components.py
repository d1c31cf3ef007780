"""KServe's transformers and explainers, of v1beta1 and of v1alpha2, as those of a service."""

import pytest
import yaml

from tests.operator.convert.triton import RUN, Object, listed

PREDICTOR: Object = {"model": {"modelFormat": {"name": "triton"}, "storageUri": "s3://b/m"}}


def kserve(**spec: Object) -> Object:
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "qa"},
        "spec": {"predictor": PREDICTOR, **spec},
    }


CONTAINER: Object = {"name": "kserve-container", "image": "t:1"}

TABLE: dict[str, tuple[Object, Object]] = {
    "the least": ({"containers": [CONTAINER]}, {"image": "t:1", "replicas": 1}),
    "what it runs": (
        {"containers": [{**CONTAINER, "command": ["python"], "args": ["-m", "qa"], "env": [{"name": "A", "value": "b"}], "envFrom": [{"secretRef": {"name": "s"}}]}]},
        {"image": "t:1", "command": ["python"], "args": ["-m", "qa"], "env": [{"name": "A", "value": "b"}], "envFrom": [{"secretRef": {"name": "s"}}], "replicas": 1},
    ),
    "its port and probe": (
        {"containers": [{**CONTAINER, "ports": [{"containerPort": 9000}], "readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": 9000}}}]},
        {"image": "t:1", "port": 9000, "healthPath": "/v2/health/ready", "replicas": 1},
    ),
    "files, by the variable": (
        {"containers": [{**CONTAINER, "env": [{"name": "A", "value": "b"}, {"name": "STORAGE_URI", "value": "gs://b/vocabulary"}]}]},
        {"image": "t:1", "env": [{"name": "A", "value": "b"}], "storageUri": "gs://b/vocabulary", "replicas": 1},
    ),
    "files, by the list": (
        {"containers": [CONTAINER], "storageUris": [{"uri": "hf://o/n@main/vocab.txt", "mountPath": "/mnt/models/"}]},
        {"image": "t:1", "storageUri": "hf://o/n@main/vocab.txt", "replicas": 1},
    ),
    "KServe's own port": ({"containers": [{**CONTAINER, "ports": [{"containerPort": 8080}]}]}, {"image": "t:1", "replicas": 1}),
    "pods by CPU": (
        {"containers": [CONTAINER], "minReplicas": 2, "maxReplicas": 5, "scaleMetric": "cpu", "scaleTarget": 60},
        {"image": "t:1", "autoscaling": {"minReplicas": 2, "maxReplicas": 5, "cpuPercent": 60}},
    ),
    "pods, without a word on what they are scaled by": (
        {"containers": [CONTAINER], "minReplicas": 0, "maxReplicas": 3},
        {"image": "t:1", "autoscaling": {"minReplicas": 1, "maxReplicas": 3, "cpuPercent": 80}},
    ),
    "so many pods": ({"containers": [CONTAINER], "minReplicas": 3, "maxReplicas": 3}, {"image": "t:1", "replicas": 3}),
    "where it runs": (
        {"containers": [CONTAINER], "nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}], "serviceAccountName": "c"},
        {"image": "t:1", "nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}], "serviceAccountName": "c", "replicas": 1},
    ),
    "a volume and a neighbour": (
        {"containers": [{"name": "proxy", "image": "p:1"}, {**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}], "volumes": [{"name": "v", "emptyDir": {}}]},
        {
            "image": "t:1",
            "replicas": 1,
            "podTemplate": {"spec": {
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{"name": "server", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}, {"name": "proxy", "image": "p:1"}],
            }},
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ["transformer", "explainer"])
@pytest.mark.parametrize("case", TABLE)
def test_a_component_becomes_one_that_check_accepts(convert: RUN, case: str, name: str) -> None:
    given, wanted = TABLE[case]
    converted = convert(kserve(**{name: given}))
    assert converted.services[0]["spec"][name] == wanted
    assert converted.status == 0
    assert not listed(converted, f"spec.{name}: not converted")


@pytest.mark.parametrize("name", ["transformer", "explainer"])
def test_the_same_of_v1alpha2(convert: RUN, name: str) -> None:
    default: Object = {
        "predictor": {"triton": {"storageUri": "s3://b/m"}},
        name: {"custom": {"container": {"name": "user-container", "image": "t:1"}}, "minReplicas": 2},
    }  # fmt: skip
    old = kserve() | {"apiVersion": "serving.kubeflow.org/v1alpha2", "spec": {"default": default}}
    converted = convert(old)
    assert converted.status == 0
    assert converted.services[0]["spec"][name] == {"image": "t:1", "replicas": 2}
    assert converted.predictor["model"] == {"storageUri": "s3://b/m"}
    default[name]["custom"]["container"]["strange"] = 1
    assert listed(convert(old), f"spec.default.{name}.custom.container.strange: not converted")


@pytest.mark.parametrize(("protocol", "wanted"), [("v1", None), ("v2", None), ("grpc-v2", "grpc-v2"), (None, None)])  # fmt: skip
def test_it_asks_the_grpc_port_of_a_predictor_that_speaks_grpc_and_else_what_it_is_written_for(
    convert: RUN, protocol: str | None, wanted: str | None
) -> None:
    model = {**PREDICTOR["model"], **({"protocolVersion": protocol} if protocol else {})}
    source = kserve(transformer={"containers": [CONTAINER]})
    source["spec"]["predictor"] = {"model": model}
    assert convert(source).services[0]["spec"]["transformer"].get("protocol") == wanted


@pytest.mark.parametrize(
    ("given", "words", "blocks"),
    [
        ({"containers": [{**CONTAINER, "args": ["--predictor_host", "qa-predictor.ns"]}]}, "spec.transformer.containers[0].args[0]: names the Service of KServe's predictor", True),
        ({"containers": [{**CONTAINER, "command": ["python", "--predictor_host=qa-predictor.ns"]}]}, "spec.transformer.containers[0].command[1]: names the Service of KServe's predictor", True),
        ({"containers": [{**CONTAINER, "env": [{"name": "A"}, {"name": "STORAGE_URI", "value": "https://h/t"}]}]}, "spec.transformer.containers[0].env[1]: is https://…, which a server reads, but not a service", True),
        ({"containers": [{**CONTAINER, "env": [{"name": "STORAGE_URI", "value": "gs://b/t.zip"}]}]}, "spec.transformer.containers[0].env[0]: KServe unpacks gs://b/t.zip, and nothing does here", False),
        ({"containers": [CONTAINER], "storageUris": [{"uri": "gs://b/t", "mountPath": "/data"}]}, "spec.transformer.storageUris[0]: not converted: gs://b/t", True),
        ({"containers": [CONTAINER], "storageUris": [{"uri": "gs://b/t"}, {"uri": "gs://b/u", "mountPath": "/mnt/models/u"}]}, "spec.transformer.storageUris[1]: not converted: gs://b/u", True),
        ({"containers": [{**CONTAINER, "env": [{"name": "STORAGE_URI", "value": "s3://b/t"}]}], "serviceAccountName": "sa"}, "spec.transformer.serviceAccountName: KServe also reads the store with the Secrets of ServiceAccount sa", False),
        ({"containers": [{**CONTAINER, "ports": [{"containerPort": 8080}, {"containerPort": 8081}]}]}, "spec.transformer.containers[0].ports[1]: left out: 8081", False),
        ({"containers": [{**CONTAINER, "ports": [{"containerPort": 80}]}]}, "spec.transformer.containers[0].ports: left out: 80", False),
        ({"containers": [CONTAINER], "minReplicas": 1, "maxReplicas": 2, "scaleMetric": "rps"}, "spec.transformer.scaleMetric: left out: rps", False),
        ({"containers": [CONTAINER], "batcher": {"maxBatchSize": 2}}, "spec.transformer.batcher: not converted", False),
        ({"containers": [{**CONTAINER, "strange": 1}], "other": 2}, "spec.transformer.containers[0].strange: not converted", False),
        ({"containers": [CONTAINER], "other": 2}, "spec.transformer.other: not converted", False),
        ({"minReplicas": 1}, "spec.transformer: not converted: it has minReplicas, and no container", True),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(
    convert: RUN, given: Object, words: str, *, blocks: bool
) -> None:
    converted = convert(kserve(transformer=given))
    assert listed(converted, words)
    assert converted.status == (1 if blocks else 0)


@pytest.mark.parametrize(
    ("words", "predictor", "wanted"),
    [
        ({"args": ["--protocol", "grpc-v2"]}, None, "grpc-v2"),
        ({"args": ["--predictor_protocol=v1"]}, "grpc-v2", None),
        ({"command": ["python", "-m", "qa", "--protocol=grpc-v2"]}, "v1", "grpc-v2"),
        ({"args": ["--protocol", "v2"]}, "v1", None),
        ({"args": ["--protocol"]}, "grpc-v2", "grpc-v2"),
    ],
)
def test_the_protocol_of_its_own_arguments_counts_first(
    convert: RUN, words: Object, predictor: str | None, wanted: str | None
) -> None:
    model = {**PREDICTOR["model"], **({"protocolVersion": predictor} if predictor else {})}
    source = kserve(transformer={"containers": [{**CONTAINER, **words}]})
    source["spec"]["predictor"] = {"model": model}
    assert convert(source).services[0]["spec"]["transformer"].get("protocol") == wanted


def test_files_are_read_with_the_secrets_of_the_components_account(convert: RUN) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": keys}  # fmt: skip
    secret["metadata"]["annotations"] = {"serving.kserve.io/s3-endpoint": "minio:9000", "serving.kserve.io/s3-usehttps": "0"}  # fmt: skip
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}, "secrets": [{"name": "keys"}]}  # fmt: skip
    variable = {"name": "STORAGE_URI", "value": "s3://b/t"}
    given = {"containers": [{**CONTAINER, "env": [variable]}], "serviceAccountName": "sa"}
    converted = convert(secret, account, kserve(transformer=given))
    made = converted.services[0]["spec"]["transformer"]
    assert made["storage"] == {"secretName": "keys", "endpoint": "http://minio:9000"}
    assert converted.status == 0


def test_what_an_anchor_shares_is_there_in_both_places(convert: RUN) -> None:
    """The manifest is written with an alias, as people write them: what is taken out of the one stays in the other."""
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}}
    env = [{"name": "A", "value": "b"}]
    source = kserve(transformer={"containers": [{**CONTAINER, "resources": resources, "env": env}]})
    source["spec"]["predictor"] = {"model": {**PREDICTOR["model"], "resources": resources, "env": env}}  # fmt: skip
    text = yaml.safe_dump(source)
    assert "*id001" in text
    spec = convert(text=text).services[0]["spec"]
    for part in (spec["predictor"], spec["transformer"]):
        assert part["resources"] == resources
        assert part["env"] == env


TRITON: Object = {
    "name": "kserve-container",
    "image": "nvcr.io/nvidia/tritonserver:23.05-py3",
    "args": ["tritonserver", "--model-store=/mnt/models", "--http-port=8085"],
    "env": [{"name": "STORAGE_URI", "value": "gs://b/m"}],
}


@pytest.mark.parametrize("host", [["--predictor_host=localhost:8085"], ["--predictor_host", "127.0.0.1:8085"]])  # fmt: skip
@pytest.mark.parametrize("first", [True, False])
def test_a_transformer_in_the_pod_of_the_predictor_gets_pods_of_its_own(
    convert: RUN, host: list[str], *, first: bool
) -> None:
    beside: Object = {
        "name": "transformer-container", "image": "t:1", "args": ["--model_name=qa", *host], "ports": [{"containerPort": 8080}], "strange": 1,
    }  # fmt: skip
    source = kserve()
    source["spec"]["predictor"] = {"containers": [beside, TRITON] if first else [TRITON, beside]}
    converted = convert(source)
    assert converted.status == 0
    assert converted.services[0]["spec"]["transformer"] == {
        "image": "t:1",
        "args": ["--model_name=qa"],
        "replicas": 1,
    }
    assert converted.predictor["model"] == {"storageUri": "gs://b/m"}
    place = f"spec.predictor.containers[{0 if first else 1}]"
    assert listed(converted, f"{place}: became spec.transformer, with pods of its own")
    assert listed(converted, f"{place}.strange: not converted")
    assert listed(converted, f"spec.predictor.containers[{1 if first else 0}].image: nvcr.io")
    assert "podTemplate" not in converted.predictor


def test_one_that_asks_another_host_is_named(convert: RUN) -> None:
    beside = {
        "name": "transformer-container",
        "image": "t:1",
        "args": ["--predictor_host", "qa.ns"],
    }
    source = kserve()
    source["spec"]["predictor"] = {"containers": [TRITON, beside]}
    converted = convert(source)
    assert converted.status == 1
    assert listed(converted, "spec.predictor.containers[1].args[0]: names the Service")
