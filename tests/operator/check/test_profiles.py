"""`naiad-operator check` of files that hold NaiadProfiles alone, as a platform team has them."""

import pathlib
import typing

import pytest

from naiad_operator import cli
from naiad_operator.api.manifests import yaml_text
from tests.support import manifests

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


def bound(name: str, *namespaces: str, **policy: typing.Any) -> dict[str, typing.Any]:
    spec = {"policy": {"namespaces": {"names": list(namespaces)}, **policy}}
    return {"apiVersion": "serving.naiad.dev/v1alpha1", "kind": "NaiadProfile", "metadata": {"name": name}, "spec": spec}  # fmt: skip


def test_two_profiles_that_bind_one_namespace_are_an_error_of_both(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "profiles.yaml"
    path.write_text(yaml_text.write([bound("a", "team-a", "team-b"), bound("b", "team-b")]))
    assert cli.main(["check", "-f", str(path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    for line, other in zip(lines, ("b", "a"), strict=False):
        assert f"spec.policy.namespaces: the NaiadProfile {other} binds team-b as well" in line
    assert lines[-1] == "2 problems"


@pytest.mark.parametrize(("namespace", "status"), [("team-a", 1), ("team-b", 1), ("team-c", 0)])
def test_the_profiles_of_a_folder_bind_the_services_of_a_file(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], namespace: str, status: int
) -> None:
    platform, path = tmp_path / "platform", tmp_path / "service.yaml"
    platform.mkdir()
    by_label = bound("gold", podTemplate="Refuse")
    by_label["spec"]["policy"]["namespaces"] = {"selector": {"matchLabels": {"tier": "gold"}}}
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b", "labels": {"tier": "gold"}}}  # fmt: skip
    made = [bound("a", "team-a", podTemplate="Restricted"), by_label, team]
    (platform / "profiles.yaml").write_text(yaml_text.write(made))
    given = manifests.resource(podTemplate={"spec": {"hostPID": True}})
    given["metadata"]["namespace"] = namespace
    path.write_text(yaml_text.write([given]))
    options = ["--profile-dir", str(platform), "--pod-template=Allow"]
    assert cli.main(["check", "-q", "-f", str(path), *options]) == status
    said = capsys.readouterr().err
    binding = {"team-a": "a", "team-b": "gold"}.get(namespace)
    if binding is None:
        assert "the Namespace team-c is not in these files: checked as if it had none" in said
    else:
        assert f"the NaiadProfile {binding} binds the namespace {namespace}" in said
        assert f"(the NaiadProfile {binding})" in said
