"""Model repositories that are in the pod: in images, in volumes that other containers fill, on nodes; and files of packages beside them."""

import typing

import pytest

from tests.operator.convert.triton import RUN, Object, deployment, listed

FILL = {"name": "bring", "image": "a/b:1", "volumeMounts": [{"name": "m", "mountPath": "/out"}]}


def stored(volume: Object, **pod: typing.Any) -> Object:
    """A Deployment whose repository /srv/models is in a volume."""
    container = {
        "args": ["tritonserver", "--model-repository=/srv/models"],
        "volumeMounts": [{"name": "m", "mountPath": "/srv"}],
    }
    return deployment(container, {"volumes": [{"name": "m", **volume}], **pod})


def test_the_image_of_the_container_is_mounted(convert: RUN) -> None:
    container = {
        "image": "acme/detector:1",
        "args": ["tritonserver", "--model-store", "/opt/models"],
    }
    converted = convert(deployment(container))
    assert converted.status == 0
    assert converted.predictor["model"] == {
        "image": {"path": "/opt/models", "reference": "acme/detector:1"}
    }
    assert listed(converted, "image: acme/detector:1 has the models, in /opt/models")
    assert not listed(converted, "is another server's")


def test_nvidias_image_has_no_models(convert: RUN) -> None:
    converted = convert(deployment({"args": ["tritonserver", "--model-repository=/models"]}))
    assert converted.status == 1
    assert listed(converted, "no volume is mounted there, and nvcr.io/nvidia/tritonserver:24.09-py3 has no models")  # fmt: skip


@pytest.mark.parametrize(
    ("sub_path", "path"), [(None, "/models"), ("a/b", "/a/b/models")], ids=["whole", "part"]
)
def test_a_volume_that_is_an_image(convert: RUN, sub_path: str | None, path: str) -> None:
    source = stored({"image": {"reference": "acme/models:2", "pullPolicy": "Never"}})
    if sub_path:
        container = source["spec"]["template"]["spec"]["containers"][0]
        container["volumeMounts"][0]["subPath"] = sub_path
    assert convert(source).predictor["model"] == {
        "image": {"path": path, "reference": "acme/models:2", "pullPolicy": "Never"}
    }


def test_an_init_container_keeps_what_it_mounts(convert: RUN) -> None:
    fill = {**FILL, "volumeMounts": [*FILL["volumeMounts"], {"name": "key", "mountPath": "/k"}]}
    source = stored({"emptyDir": {"sizeLimit": "3Gi"}}, initContainers=[fill])
    volumes = source["spec"]["template"]["spec"]["volumes"]
    volumes += [{"name": "key", "secret": {"secretName": "key"}}, {"name": "other", "emptyDir": {}}]
    converted = convert(source)
    assert converted.status == 0
    model = {"volume": {"name": "m", "path": "models", "mountPath": "/srv", "size": "3Gi"}}
    assert converted.predictor["model"] == model
    template = converted.predictor["podTemplate"]["spec"]
    assert template["volumes"] == [{"name": "key", "secret": {"secretName": "key"}}]
    [init] = template["initContainers"]
    assert init["volumeMounts"] == fill["volumeMounts"]
    assert init["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert listed(converted, "volumes: left out: other: the server does not mount them")


def test_an_init_container_that_only_reads_fills_nothing(convert: RUN) -> None:
    fill = {**FILL, "volumeMounts": [{"name": "m", "mountPath": "/out", "readOnly": True}]}
    converted = convert(stored({"emptyDir": {}}, initContainers=[fill]))
    assert converted.status == 1
    assert listed(converted, "is an emptyDir that something in the pod fills")


def test_a_sidecar_may_fill_it_too(convert: RUN) -> None:
    source = stored({"emptyDir": {}})
    source["spec"]["template"]["spec"]["containers"].append(FILL)
    converted = convert(source)
    assert converted.status == 0
    [sidecar] = converted.predictor["podTemplate"]["spec"]["containers"]
    assert sidecar["name"] == "bring"
    assert listed(converted, "containers[1]: bring fills the repository /srv/models")


def test_an_image_beside_other_repositories_needs_an_edit(convert: RUN) -> None:
    args = ["tritonserver", "--model-repository=/opt/models", "--model-repository=s3://a/b"]
    converted = convert(deployment({"image": "acme/detector:1", "args": args}))
    assert converted.status == 1
    assert converted.predictor["model"] == {"storageUri": "s3://a/b"}
    assert listed(converted, "is the only one of a service")


def test_a_folder_of_the_node(convert: RUN) -> None:
    converted = convert(stored({"hostPath": {"path": "/data"}}))
    assert converted.status == 1
    assert converted.predictor["model"] == {
        "volume": {"path": "models", "mountPath": "/srv", "hostPath": "/data"}
    }


@pytest.mark.parametrize(
    ("source", "file"),
    [
        (stored({"emptyDir": {}}, initContainers=[FILL]), "/srv/requirements.txt"),
        (stored({"persistentVolumeClaim": {"claimName": "c"}}), "/srv/requirements.txt"),
        (stored({"image": {"reference": "a"}}), "/mnt/image/srv/requirements.txt"),
    ],
    ids=["volume", "claim", "image"],
)
def test_a_file_of_packages_is_found_where_it_is_then(convert: RUN, source: Object, file: str) -> None:  # fmt: skip
    container = source["spec"]["template"]["spec"]["containers"][0]
    container |= {"command": ["sh", "-c"], "args": ["pip3 install -q -r /srv/requirements.txt && tritonserver --model-repository=/srv/models"]}  # fmt: skip
    converted = convert(source)
    assert converted.status == 0, converted.lines
    assert converted.predictor["model"]["pythonRequirements"] == [f"-r {file}"]


def test_a_file_in_a_claim_that_is_the_repository(convert: RUN) -> None:
    container = {
        "command": ["sh", "-c"],
        "args": ["pip install --requirement /m/r.txt && tritonserver --model-repository=/m"],
        "volumeMounts": [{"name": "m", "mountPath": "/m", "subPath": "x"}],
    }
    volumes = [{"name": "m", "persistentVolumeClaim": {"claimName": "c"}}]
    converted = convert(deployment(container, {"volumes": volumes}))
    assert converted.predictor["model"] == {
        "storageUri": "pvc://c/x",
        "pythonRequirements": ["-r /mnt/repositories/0/x/r.txt"],
    }


@pytest.mark.parametrize("file", ["/opt/r.txt", "r.txt"])
def test_a_file_of_packages_that_no_pod_has_needs_an_edit(convert: RUN, file: str) -> None:
    script = f"pip install -r {file} && tritonserver --model-repository=s3://a/b"
    converted = convert(deployment({"command": ["sh", "-c"], "args": [script]}))
    assert "pythonRequirements" not in converted.predictor["model"]
    if file.startswith("/"):
        assert converted.status == 1
        assert listed(converted, f"pip install -r {file}: the pods will not have this file")
    else:
        assert listed(converted, "write the packages in predictor.model.pythonRequirements")
