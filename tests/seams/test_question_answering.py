"""KServe's example of question answering from its manifests to an answer: the programs run with the arguments that the operator's builders render for their containers."""

import collections.abc
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import typing

import pytest
import yaml

from naiad_operator.api.parsing import service as services
from naiad_operator.builders import build
from tests.reference.process import Ports, ServerProcess, naiad_program
from tests.support import manifests
from tests.wire.http_program import running
from tests.wire.plain_http import call

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "question_answering"
KSERVE_PYTHON = os.environ.get("KSERVE_PYTHON", "")
CONTEXT = "The bridge over the river Ilm was built by Clara Weber in 1892."
ASKED = {"instances": [{"context": CONTEXT, "question": "Who built the bridge?"}]}

Object = dict[str, typing.Any]
Children = dict[tuple[str, str], Object]

PREDICTOR: Object = {
    "runtimeVersion": "20.10-py3",
    "resources": {"limits": {"cpu": "1", "memory": "8Gi"}, "requests": {"cpu": "1", "memory": "8Gi"}},
    "storageUri": "gs://example-models/triton/bert",
}  # fmt: skip


def container(command: list[str]) -> Object:
    """The transformer's, as KServe's example has it, beside the command; the vocabulary is fetched for it."""
    variable = {"name": "STORAGE_URI", "value": "gs://example-models/triton/bert-transformer"}
    return {"image": "registry.example.com/bert-transformer:2", "command": command, "env": [variable]}  # fmt: skip


def v1beta1(command: list[str]) -> Object:
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "bert"},
        "spec": {
            "transformer": {"containers": [{"name": "kserve-container", **container(command)}]},
            "predictor": {"triton": PREDICTOR},
        },
    }


def v1alpha2(command: list[str]) -> Object:
    custom = {"container": {"name": "kfserving-container", **container(command)}}
    return {
        "apiVersion": "serving.kubeflow.org/v1alpha2",
        "kind": "InferenceService",
        "metadata": {"name": "bert", "annotations": {"autoscaling.knative.dev/target": "1"}},
        "spec": {"default": {"transformer": {"custom": custom}, "predictor": {"triton": PREDICTOR}}},
    }  # fmt: skip


def converted(manifest: Object, folder: pathlib.Path, *, status: int) -> tuple[Object, str]:
    """What `naiad-operator convert` makes of it, and what it says."""
    file = folder / "kserve.yaml"
    file.write_text(yaml.safe_dump(manifest))
    command = [sys.executable, "-m", "naiad_operator", "convert", "-f", str(file)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert ended.returncode == status, ended.stderr
    made: Object = yaml.safe_load(ended.stdout)
    return made, ended.stderr


def children(manifest: Object, **spec: typing.Any) -> Children:
    """What the operator applies for a converted service."""
    manifest["metadata"] |= {"namespace": "default", "uid": "uid-1", "generation": 1}
    manifest["spec"] |= spec
    made = build(services.parse(manifest), manifests.facts())
    return {(one["kind"], one["metadata"]["name"]): one for one in made}


def program(made: Children, deployment: str) -> Object:
    found: Object = made["Deployment", deployment]["spec"]["template"]["spec"]["containers"][0]
    return found


def reached(made: Children, service: str, port: int | str) -> tuple[Object, int]:
    """The container that a Service's port leads to, and the port there."""
    spec = made["Service", service]["spec"]
    (target,) = (one["targetPort"] for one in spec["ports"] if port in (one["port"], one["name"]))
    (deployment,) = (
        one
        for (kind, _), one in made.items()
        if kind == "Deployment" and spec["selector"].items() <= one["spec"]["template"]["metadata"]["labels"].items()
    )  # fmt: skip
    found = program(made, deployment["metadata"]["name"])
    (number,) = (one["containerPort"] for one in found["ports"] if one["name"] == target)
    return found, number


def first_backend(made: Children) -> tuple[Object, int]:
    """The container, and its port, that a client of the Ingress reaches."""
    rule = made["Ingress", "bert"]["spec"]["rules"][0]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    return reached(made, backend["name"], backend["port"].get("number") or backend["port"]["name"])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The network, and the model in front of it."""
    folder = tmp_path_factory.mktemp("models")
    made = [sys.executable, str(EXAMPLE / "make_question_answering.py"), str(folder)]
    subprocess.run(made, check=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def network(models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a repository that has the network alone, `models`, and the files of the transformer, `files`."""
    folder = tmp_path_factory.mktemp("network")
    shutil.copytree(models / "bert", folder / "models" / "bert")
    (folder / "files").mkdir()
    shutil.copy(models / "question_answering" / "1" / "vocab.txt", folder / "files")
    return folder


@contextlib.contextmanager
def server(
    made: Children, repository: pathlib.Path, log: pathlib.Path
) -> collections.abc.Iterator[ServerProcess]:
    """The server with the arguments of its container; where its models are and where it listens is this machine's."""
    found = program(made, "bert")
    assert found["command"] == ["naiad", "serve"]
    replaced = ("--model-repository", "--http-", "--grpc-address", "--grpc-port", "--metrics-port", "--shutdown-delay")  # fmt: skip
    options = [one for one in found["args"] if not one.startswith(replaced)]
    assert len(options) > 1
    with ServerProcess(naiad_program(), [repository], log=log, options=options) as started:
        yield started


def fetched(made: Children, store: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The files that the init container of the transformer brings, from a folder in place of the store, where its program has them."""
    (fetch,) = made["Deployment", "bert-transformer"]["spec"]["template"]["spec"]["initContainers"]
    assert fetch["command"] == ["naiad", "fetch"]
    here = {"gs://example-models/triton/bert-transformer": str(store), "--to=/mnt/fetched/files": f"--to={folder}"}  # fmt: skip
    assert set(here) <= set(fetch["args"]), fetch["args"]
    command = [
        sys.executable,
        "-m",
        "naiad",
        "fetch",
        *(here.get(word, word) for word in fetch["args"]),
    ]
    subprocess.run(command, check=True, timeout=120)
    program_ = program(made, "bert-transformer")
    (mount,) = program_["volumeMounts"]
    (of_fetch,) = (one for one in fetch["volumeMounts"] if one["name"] == mount["name"])
    assert f"{of_fetch['mountPath']}/{mount['subPath']}" == "/mnt/fetched/files"
    assert {"name": "STORAGE_URI", "value": mount["mountPath"]} in program_["env"]
    return folder


@contextlib.contextmanager
def transformer(
    found: Object, image: pathlib.Path, addresses: dict[str, str], log: pathlib.Path
) -> collections.abc.Iterator[str]:
    """The program of a container in the folder that its image has, with its command and arguments, and its address.

    Args:
        found: the container.
        image: its working directory.
        addresses: by the address of a Service, that of its program on this machine.
        log: for its output.
    """
    port = Ports.free().http
    words = [*found["command"], *found["args"]]
    here = {**addresses, str(found["ports"][0]["containerPort"]): str(port)}
    assert set(here) <= set(words), words
    command = [here.get(word, word) for word in words]
    address = f"127.0.0.1:{port}"
    with running(
        command, address, folder=image, log=log, ready=lambda status: status > 0
    ) as serving:
        yield serving


def image_of(folder: pathlib.Path, *files: pathlib.Path) -> pathlib.Path:
    """A folder as that of the transformer's image."""
    folder.mkdir()
    for file in (*files, EXAMPLE / "passages.py", EXAMPLE / "wordpiece.py"):
        shutil.copy(file, folder)
    return folder


PROGRAMS: dict[str, tuple[str, pathlib.Path, tuple[str, ...]]] = {
    "numpy": (sys.executable, ROOT / "e2e" / "plain_transformer.py", ())
}
if KSERVE_PYTHON:  # with the package kserve, as in tests/engines/interop
    PROGRAMS["kserve"] = (KSERVE_PYTHON, EXAMPLE / "transformer.py", ("--enable_grpc", "false"))


@pytest.mark.parametrize("protocol", [None, "v1"], ids=["v2", "v1"])
@pytest.mark.parametrize("form", [v1beta1, v1alpha2])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_transformer_of_a_converted_manifest_answers_with_predictions_and_prob(
    network: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    kind: str,
    form: collections.abc.Callable[[list[str]], Object],
    protocol: str | None,
) -> None:
    python, source, own = PROGRAMS[kind]
    spoken = [] if protocol is None else ["--predictor_protocol", protocol]
    given = form([python, source.name, *own, *spoken])
    service, messages = converted(given, tmp_path, status=0)
    assert "spec.transformer" not in messages
    made = children(service, ingress={"enabled": True, "host": "qa.example.com"})
    found, port = first_backend(made)
    assert found is program(made, "bert-transformer")
    assert port == 8080
    asked, asked_port = reached(made, "bert", 8000)
    assert asked is program(made, "bert")
    assert f"--http-port={asked_port}" in asked["args"]
    files = fetched(made, network / "files", tmp_path / "fetched")
    monkeypatch.setenv("STORAGE_URI", str(files))
    image = image_of(tmp_path / "image", source)
    if kind == "kserve":
        shutil.copy(files / "vocab.txt", image)
    with (
        server(made, network / "models", tmp_path / "server.log") as servers,
        transformer(found, image, {"bert.default:8000": servers.http}, tmp_path / "log") as address,
    ):
        path, headers = "/v1/models/bert:predict", {"Content-Type": "application/json"}
        status, text = call(address, "POST", path, ASKED, **headers)
        answer = json.loads(text)
        assert (status, answer["predictions"]) == (200, "Clara Weber")
        assert 0.9 < answer["prob"] <= 1
        wrong = {"instances": [{"context": CONTEXT}]}
        assert call(address, "POST", path, wrong, **headers)[0] == 400
        assert call(address, "POST", path, ASKED, **headers)[0] == 200


def test_a_model_in_front_of_the_network_answers_from_a_converted_manifest(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    given = v1beta1([])
    del given["spec"]["transformer"]
    service, _ = converted(given, tmp_path, status=0)
    made = children(service, ingress={"enabled": True, "host": "qa.example.com"})
    found, port = first_backend(made)
    assert found is program(made, "bert")
    assert f"--http-port={port}" in found["args"]
    with server(made, models, tmp_path / "server.log") as servers:
        path = "/v1/models/question_answering:predict"
        status, text = call(servers.http, "POST", path, ASKED)
        (row,) = json.loads(text)["predictions"]
        assert (status, row["predictions"]) == (200, ["Clara Weber"])
        assert 0.9 < row["prob"][0] <= 1
