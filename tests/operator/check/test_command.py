"""`naiad-operator check`: exit status, sentences and objects."""

import io
import os
import pathlib
import subprocess
import sys

import pytest

from naiad_operator import cli
from naiad_operator.api.manifests import yaml_text
from tests.support import manifests

EXAMPLES = sorted((manifests.DATA.parent.parent.parent / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_valid(path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "-f", str(path)]) == 0
    out, err = capsys.readouterr()
    kinds = [manifest["kind"] for manifest in yaml_text.read(out)]
    assert kinds[:2] == ["Deployment", "Service"]
    assert err.endswith(f"1 service, {len(kinds)} objects: valid\n")


def test_seven_slices_are_seven_pods_with_one_slice_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = next(path for path in EXAMPLES if path.name == "mig-seven-slices.yaml")
    cli.main(["check", "-f", str(path)])
    deployment = yaml_text.read(capsys.readouterr().out)[0]["spec"]
    assert deployment["replicas"] == 7
    limits = deployment["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/mig-1g.10gb"] == "1"


def write(folder: pathlib.Path, text: str) -> str:
    path = folder / "service.yaml"
    path.write_text(text)
    return str(path)


def test_an_error_is_reported_with_file_and_field(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = manifests.resource(replics=2)
    bad["metadata"]["name"] = "second"
    path = write(tmp_path, yaml_text.write([manifests.resource(), bad]))
    assert cli.main(["check", "-q", "-f", path]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"{path}:24: spec.predictor.replics: there is no such field: did you mean replicas?",
        "1 problem",
    ]


def test_a_kind_that_the_cluster_lacks_is_left_out_or_refused(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keda = manifests.resource(autoscaling={"class": "keda", "queueTimeMs": 5})
    path = write(tmp_path, yaml_text.write([keda]))
    assert cli.main(["check", "-f", path, "--without", "ScaledObject"]) == 0
    assert "ScaledObject" not in capsys.readouterr().out
    claim = manifests.resource(accelerator={"strategy": "dra"})
    path = write(tmp_path, yaml_text.write([claim]))
    assert cli.main(["check", "-f", path, "--without", "ResourceClaimTemplate"]) == 1
    assert "write strategy: mixed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", "is not valid YAML"),
        ("just words", "is 'just words': write a mapping"),
        ("kind: ConfigMap\napiVersion: v1\n", "nothing to check"),
        ("kind: inferenceservice\n", "write kind: InferenceService"),
    ],
)
def test_files_that_hold_no_service_say_so(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str, sentence: str
) -> None:
    assert cli.main(["check", "-f", write(tmp_path, text)]) == 1
    assert sentence in capsys.readouterr().err


def test_a_missing_file_is_reported(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", "-f", str(tmp_path / "none.yaml")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_an_empty_name_is_not_the_present_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "-f", ""]) == 1
    assert capsys.readouterr().err.startswith("'': is not the name of a file")


def test_a_folder_stands_for_the_files_in_it(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text(yaml_text.write([manifests.resource()]))
    (tmp_path / "b.yml").write_text(yaml_text.write([manifests.resource(replics=1)]))
    (tmp_path / "notes.txt").write_text("just words")
    (tmp_path / "below").mkdir()
    (tmp_path / "folder.yaml").mkdir()
    assert cli.main(["check", "-q", "-f", str(tmp_path)]) == 1
    message = capsys.readouterr().err
    assert "b.yml:12: spec.predictor.replics" in message
    assert "1 problem\n" in message

    empty = tmp_path / "below"
    assert cli.main(["check", "-f", str(empty)]) == 1
    assert "nothing to check" in capsys.readouterr().err


def test_standard_input_is_a_file_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def given(manifest: manifests.Manifest) -> None:
        text = io.TextIOWrapper(io.BytesIO(yaml_text.write([manifest]).encode()))
        monkeypatch.setattr("sys.stdin", text)

    given(manifests.resource())
    assert cli.main(["check", "-f", "-"]) == 0
    assert "kind: Deployment" in capsys.readouterr().out
    given(manifests.resource(replics=1))
    assert cli.main(["check", "-f", "-"]) == 1
    assert capsys.readouterr().err.startswith("<stdin>:12: spec.predictor.replics")


def checked(
    folder: pathlib.Path, text: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str]]:
    status = cli.main(["check", "-q", "-f", write(folder, text)])
    return status, capsys.readouterr().err.splitlines()


HEAD = "apiVersion: serving.naiad.dev/v1alpha1\nkind: InferenceService\nmetadata: {name: demo}\n"


def predictor(text: str) -> str:
    return f"{HEAD}spec: {{predictor: {{model: {{storageUri: 's3://a/b'}}, {text}}}}}\n"


@pytest.mark.parametrize(
    "text",
    [
        "env: [{name: AT, value: 12:30}, {name: DAY, value: 2026-01-01}]",
        "resources: {requests: {cpu: 1e3}}",
        "replicas: 2.0",
        "nodeSelector: {1: a}",
        "replicas: null, env: , accelerator: null, drainSeconds: null, podTemplate: null",
    ],
)
def test_what_kubectl_reads_as_right_is_right(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert checked(tmp_path, predictor(text), capsys)[0] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodeSelector: {a: y}", "spec.predictor.nodeSelector[a]: is True: write a text, in quotes"),
        ("replicas: 1, replicas: 2", "the key 'replicas' appears twice"),
        ("resources: {limits: {1: 2, nvidia.com/gpu: 1}}", "spec.predictor.resources.limits: GPUs"),
        ("podTemplate: {metadata: {labels: [a]}}", "podTemplate.metadata.labels: is ['a']: write a mapping"),
    ],
)  # fmt: skip
def test_what_kubectl_would_reject_is_reported(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    status, lines = checked(tmp_path, predictor(text), capsys)
    assert status == 1
    assert message in lines[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HEAD}status: x\nspec: {{}}", "status: is 'x': leave it out"),
        (HEAD.replace("demo", "7") + "spec: {}", "metadata.name: is 7: write a text, in quotes"),
        (HEAD.replace("demo", "a, namespace: 7") + "spec: {}", "metadata.namespace: is 7: write"),
        (HEAD.replace("demo", "a, labels: {a: yes}") + "spec: {}", "metadata.labels[a]: is True: write"),
        (HEAD.replace("demo", "a, annotations: [a]") + "spec: {}", "metadata.annotations: is ['a']: write"),
        (f"{HEAD}spec: {'{a: ' * 3000}1{'}' * 3000}", "nested too deeply"),
        (predictor(f"affinity: {'{a: ' * 400}1{'}' * 400}"), "nested too deeply to be meant: an object may have 100 levels"),
        ("".join(f"a{n}: &a{n} [{'*a' + str(n - 1) if n else ''}]\n" for n in range(400)), "nested too deeply"),
        (predictor("affinity: {a: .inf}"), "this is not a readable float"),
    ],
)  # fmt: skip
def test_nothing_in_a_file_is_a_bug(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    status, lines = checked(tmp_path, text, capsys)
    assert status == 1
    assert message in lines[0]


def test_the_items_of_a_list_are_checked(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [manifests.resource(), manifests.resource(replics=1), {"kind": "Secret"}]
    text = yaml_text.write([{"apiVersion": "v1", "kind": "List", "items": items}])
    status, lines = checked(tmp_path, text, capsys)
    assert status == 1
    assert lines[0].startswith(f"{tmp_path / 'service.yaml'}:26: spec.predictor.replics")


@pytest.mark.slow
def test_a_reader_that_goes_away_is_not_an_error() -> None:
    command = [sys.executable, "-m", "naiad_operator", "check", "-f", str(EXAMPLES[0])]
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment, check=False
    )
    os.close(writing)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


PROFILE = {
    "apiVersion": "serving.naiad.dev/v1alpha1",
    "kind": "NaiadProfile",
    "metadata": {"name": "platform"},
    "spec": {"default": True, "resources": {"requests": {"cpu": "3"}}},
}


def test_profiles_of_the_files_are_checked_and_merged(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, yaml_text.write([manifests.resource(), PROFILE]))
    assert cli.main(["check", "-f", path]) == 0
    out, err = capsys.readouterr()
    [container] = yaml_text.read(out)[0]["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "3", "memory": "256Mi"}
    assert err.endswith("1 service, 2 objects: valid\n")
    wrong = {**PROFILE, "spec": {"replicas": 2}}
    path = write(tmp_path, yaml_text.write([manifests.resource(), wrong]))
    assert cli.main(["check", "-q", "-f", path]) == 1
    _, err = capsys.readouterr()
    assert (
        "service.yaml:18: spec.replicas: there is no such field; there are default, policy, image,"
        in err
    )


def test_a_profile_that_is_not_in_the_files_is_said_and_left_out(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = manifests.resource()
    service["spec"]["profile"] = "elsewhere"
    path = write(tmp_path, yaml_text.write([service]))
    assert cli.main(["check", "-q", "-f", path]) == 0
    _, err = capsys.readouterr()
    assert f"{path}:12: spec.profile: the NaiadProfile elsewhere is not in these files" in err


def test_the_operators_default_profile_is_merged(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "profile.yaml"
    file.write_text("image: x:1\n")
    path = write(tmp_path, yaml_text.write([manifests.resource()]))
    assert cli.main(["check", "-f", path, f"--default-profile={file}"]) == 0
    [container] = yaml_text.read(capsys.readouterr().out)[0]["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"] == "x:1"
