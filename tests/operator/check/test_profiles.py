"""`naiad-operator check` of files that hold NaiadProfiles alone, as a platform team has them."""

import pathlib
import typing

import pytest

from naiad_operator import cli
from naiad_operator.api.manifests import yaml_text

Lines = list[str]
RUN = typing.Callable[..., tuple[int, Lines]]


@pytest.fixture
def check(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> RUN:
    """Checks a profile; returns the exit status and the lines without file and line."""

    def run(
        spec: typing.Any, kind: str = "NaiadProfile", **metadata: typing.Any
    ) -> tuple[int, Lines]:
        profile = {
            "apiVersion": "serving.naiad.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": "platform", **metadata},
            "spec": spec,
        }
        path = tmp_path / "profile.yaml"
        path.write_text(yaml_text.write([profile]))
        status = cli.main(["check", "-f", str(path)])
        out, err = capsys.readouterr()
        assert out == ""
        return status, [
            line.removeprefix(f"{path}:").partition(": ")[2] if line.startswith(str(path)) else line
            for line in err.splitlines()
        ]

    return run


def test_a_valid_profile_is_valid_without_a_service(check: RUN) -> None:
    spec = {
        "default": True,
        "resources": {"requests": {"cpu": "1"}},
        "podTemplate": {"spec": {"hostNetwork": True}},
    }
    assert check(spec) == (0, ["1 profile: valid"])
    status, lines = check({"resources": {"limits": {"memory": "1Gi"}}})
    assert (status, lines[-1]) == (0, "1 profile, 1 warning: valid")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"labels": {"a b": "c"}}, "spec.labels[a b]: the key has the form NAME"),
        ({"nodeSelector": {"-a": "c"}}, "spec.nodeSelector[-a]: the key has the form NAME"),
        ({"podTemplate": {"containers": []}}, "spec.podTemplate.containers: there is no such field"),
        ({"podTemplate": {"spec": {"containers": {"a": 1}}}}, "spec.podTemplate.spec.containers: is a mapping: write a list"),
        ({"podTemplate": {"spec": {"container": []}}}, "spec.podTemplate.spec.container: a pod has no such field"),
        ({"podTemplate": {"spec": {"containers": None}}}, "spec.podTemplate: takes the container server away"),
        ({"affinity": {"nodeAffinity": "x"}}, "spec.affinity.nodeAffinity: is 'x': write a mapping"),
        ({"tolerations": [{"operator": "Exists", "tolerationSeconds": 1}]}, "spec.tolerations[0].tolerationSeconds: only a taint"),
    ],
)  # fmt: skip
def test_what_every_service_would_be_refused_for_is_said_of_the_profile(
    check: RUN, spec: dict[str, typing.Any], message: str
) -> None:
    status, lines = check(spec)
    assert status == 1
    assert lines[0].startswith(message)
    assert lines[-1] == "1 problem"


def test_its_metadata_and_kind_are_checked(check: RUN) -> None:
    assert check({}, name="Plat_form")[1][0].startswith("metadata.name: is 'Plat_form': write")
    assert check({}, labels={"a": "b c"})[1][0].startswith("metadata.labels[a]: is 'b c'")
    assert check({}, kind="NaiadProfil")[1] == [
        "kind: is 'NaiadProfil': write kind: NaiadProfile",
        "1 problem",
    ]


def test_the_items_of_a_list_of_profiles_are_checked(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `kubectl get --raw` gives it."""
    head = {"apiVersion": "serving.naiad.dev/v1alpha1"}
    item = {**head, "kind": "NaiadProfile", "metadata": {"name": "a"}, "spec": {"imag": "x"}}
    path = tmp_path / "list.yaml"
    path.write_text(yaml_text.write([{**head, "kind": "NaiadProfileList", "items": [item]}]))
    assert cli.main(["check", "-f", str(path)]) == 1
    assert "spec.imag: there is no such field: did you mean image?" in capsys.readouterr().err
