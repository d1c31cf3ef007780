"""`naiad-operator check`: exit status, sentences and objects."""

import io
import pathlib

import pytest

from naiad_operator import cli
from naiad_operator.api import yaml_text
from tests.support import manifests

EXAMPLES = sorted((manifests.DATA.parent.parent.parent / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_for_users_are_right(
    path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", "-f", str(path)]) == 0
    out, err = capsys.readouterr()
    kinds = [manifest["kind"] for manifest in yaml_text.read(out)]
    assert kinds[:2] == ["Deployment", "Service"]
    assert err == f"1 service, {len(kinds)} objects: all right\n"


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


def test_what_is_wrong_is_told_with_file_and_field(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = manifests.resource(replics=2)
    path = write(tmp_path, yaml_text.write([manifests.resource(), bad]))
    assert cli.main(["check", "-q", "-f", path]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"{path} (document 2): spec.predictor.replics: there is no such field: did you mean replicas?",
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
        ("a: [", "is no YAML"),
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


def test_a_missing_file_is_told(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "-f", str(tmp_path / "none.yaml")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_standard_input_is_a_file_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml_text.write([manifests.resource()])))
    assert cli.main(["check", "-f", "-"]) == 0
    assert "kind: Deployment" in capsys.readouterr().out
