"""A cluster of the user's: manifests get images of its registry and addresses of its own; what it had before is neither changed nor removed."""

import contextlib
import os
import pathlib
import re
import signal
import sys
import types
import typing
from collections.abc import Iterator

import pytest
import yaml
from typing_extensions import override

from e2e import demo, kubectl, registry_cluster, user_cluster
from e2e.addons import install
from e2e.imagebuild import releases
from e2e.imagebuild.buildah import Buildah, BuildahError
from e2e.kubectl import KubectlError
from tests.toolchain import programs

_CRD = "crd/inferenceservices.serving.naiad.dev"
_GATEWAY_CRD = "crd/gateways.gateway.networking.k8s.io"


class Recorded(user_cluster.UserCluster):
    """A cluster whose kubectl and helm only write down what they should do."""

    existing: typing.ClassVar[set[str]] = set()
    failing = ""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__("http://registry.example.com/team/", folder, print)
        self.commands: list[str] = []
        self.texts: list[str] = []

    @override
    def kubectl(self, *arguments: str, text: str = "") -> str:
        command = " ".join(arguments)
        self.commands.append(command)
        self.texts.append(text)
        if self.failing and self.failing in command:
            raise KubectlError(f"kubectl {command}: refused")
        if arguments[:2] == ("get", "crd"):
            return "\n".join(sorted(self.existing))
        if arguments[0] == "get":
            return "\n".join(name for name in arguments if name in self.existing)
        return ""

    @property
    def changes(self) -> list[str]:
        return [command for command in self.commands if not command.startswith("get ")]


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    found = programs.Programs({"kubectl": pathlib.Path("kubectl")})
    monkeypatch.setattr(programs, "find", lambda names: found)
    monkeypatch.setattr(install, "helm", lambda cluster, *words: cluster.commands.append(" ".join(words)))  # fmt: skip
    return Recorded(tmp_path)


@pytest.fixture
def empty(cluster: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """One where everything can be installed."""
    built = types.SimpleNamespace(prepare=lambda: None, build=lambda part: types.SimpleNamespace(archive=part))  # fmt: skip
    monkeypatch.setattr(user_cluster, "Images", lambda *_: contextlib.nullcontext(built))
    for module, names in (
        (install, ("import_images", "import_program", "apply_gateway_api", "apply", "wait_for_deployments", "google_storage")),
        (user_cluster, ("install_chart",)),
        (releases, ("provide",)),
        (cluster, ("import_archive", "_build_stories")),
    ):  # fmt: skip
        for name in names:
            monkeypatch.setattr(module, name, lambda *_: None)
    return cluster


@pytest.mark.parametrize("name", ["traefik", "s3", "gcs"])
def test_images_come_from_the_registry_and_addresses_from_the_cluster(
    cluster: user_cluster.UserCluster, name: str
) -> None:
    text = (install.MANIFESTS / f"{name}.yaml").read_text()
    adapted = cluster.adapted(text)
    before, after = list(yaml.safe_load_all(text)), list(yaml.safe_load_all(adapted))
    assert [one["kind"] for one in after] == [one["kind"] for one in before]
    assert "cluster.local/" in text
    assert "cluster.local/" not in adapted
    pods = [one["spec"]["template"]["spec"] for one in after if one["kind"] == "Deployment"]
    images = [one["image"] for pod in pods for one in (*pod["containers"], *pod.get("initContainers", ()))]  # fmt: skip
    assert images
    assert all(image.startswith("registry.example.com/team/") for image in images)
    assert "Never" not in adapted
    assert not any("clusterIP" in one["spec"] for one in after if one["kind"] == "Service")


def test_the_stories_see_the_images_of_the_registry(
    cluster: user_cluster.UserCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pod,) = [one for one in cluster.manifests("10.0.0.1", []) if one["kind"] == "Pod"]
    (container,) = pod["spec"]["containers"]
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    assert registry_cluster.in_pod()
    within = registry_cluster.StoriesPod()
    assert within.image("naiad-operator:1") == "registry.example.com/team/naiad-operator:1"
    assert within.chart_values == cluster.chart_values


def test_nodes_do_not_take_an_image_of_an_earlier_run(
    cluster: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tags are those of the earlier run, and nodes pull what they have no second time."""
    monkeypatch.setattr(Buildah, "push", lambda *_, **__: f"sha256:{'1' * 64}")
    name = f"naiad-server:{demo.version()}"
    cluster._push("local", name)
    pinned = f"registry.example.com/team/{name}@sha256:{'1' * 64}"
    assert cluster.image(name) == pinned
    assert f"serverImage={pinned}" in cluster.chart_values
    assert "image.pullPolicy=Always" in cluster.chart_values, "chosen by tag"
    for variable, value in cluster.variables.items():
        monkeypatch.setenv(variable, value)
    assert registry_cluster.StoriesPod().image(name) == pinned


def test_a_registry_that_takes_nothing(cluster: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise BuildahError("http: server gave HTTP response to HTTPS client")

    monkeypatch.setattr(Buildah, "push", refuse)
    with pytest.raises(user_cluster.UserClusterError, match=r"HTTP response.*\n.*buildah login.*NAIAD_REGISTRY=http://"):  # fmt: skip
        cluster._push("local", "busybox:1")


@pytest.mark.parametrize(
    ("existing", "words"),
    [
        (_CRD, "has Naiad already"),
        ("namespace/ingress", "has namespace/ingress already"),
        ("ingressclass/traefik", "has ingressclass/traefik already"),
        ("namespace/naiad-stories", "has namespace/naiad-stories already"),
    ],
)
def test_what_the_cluster_has_is_neither_changed_nor_removed(
    empty: Recorded, monkeypatch: pytest.MonkeyPatch, existing: str, words: str
) -> None:
    monkeypatch.setattr(Recorded, "existing", {existing})
    with pytest.raises(user_cluster.UserClusterError, match=words), empty.prepared():
        pass
    assert empty.changes == []


def test_the_crds_that_were_installed_are_removed(
    empty: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recorded, "existing", {"crd/others.example.com"})
    added = {_CRD, _GATEWAY_CRD, "crd/xmeshes.gateway.networking.x-k8s.io"}
    with empty.prepared():
        monkeypatch.setattr(Recorded, "existing", {"crd/others.example.com", "crd/late.example.com", *added})  # fmt: skip
    names = " ".join(sorted(name.partition("/")[2] for name in added))
    assert f"delete crd {names} --ignore-not-found" in "\n".join(empty.changes)


def test_a_gateway_api_of_the_users_stays(empty: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorded, "existing", {_GATEWAY_CRD})
    with empty.prepared():
        pass
    assert not any(command.startswith("delete crd") for command in empty.changes)


def _removed(cluster: Recorded) -> None:
    removed = "\n".join(command for command in cluster.commands if "delete" in command)
    for name in ("pod stories", "naiad-system naiad-stories", "clusterrolebinding naiad-stories", "namespace -l app.kubernetes.io/managed-by=naiad-stories"):  # fmt: skip
        assert name in removed
    assert any(command.startswith("uninstall naiad") for command in cluster.commands)
    kinds = {one["kind"] for text in cluster.texts for one in yaml.safe_load_all(text)}
    assert {"Namespace", "ClusterRole", "ClusterRoleBinding", "IngressClass"} <= kinds
    assert "Gateway" not in kinds, "the cluster does not know the kind"


def test_everything_is_removed_after_ctrl_c(empty: Recorded) -> None:
    with pytest.raises(KeyboardInterrupt), empty.prepared():
        raise KeyboardInterrupt
    _removed(empty)


def test_a_second_ctrl_c_does_not_stop_the_removal(
    empty: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def uninstall(cluster: Recorded, *words: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        cluster.commands.append(" ".join(words))

    monkeypatch.setattr(install, "helm", uninstall)
    before = signal.getsignal(signal.SIGINT)
    with empty.prepared():
        pass
    _removed(empty)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_does_not_reach_the_commands(cluster: Recorded) -> None:
    """A terminal sends it to the whole process group, and kubectl ends by it even where it is ignored."""
    shown = [sys.executable, "-c", "import os; print(os.getpgrp() == os.getpid())"]
    assert kubectl.output(shown, []).strip() == "True"
    assert install.run(cluster, shown).strip() == "True"


def test_what_cannot_be_removed_is_named_and_the_rest_is_removed(
    empty: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(empty, "failing", "delete pod stories")
    words = r"not everything.*\n.*pod stories.*refused"
    with pytest.raises(user_cluster.UserClusterError, match=words), empty.prepared():
        pass
    _removed(empty)


def test_nothing_stays_mounted(empty: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each load into the storage mounts it, also after the last build."""
    unmounted: list[bool] = []
    monkeypatch.setattr(Buildah, "unmount", lambda self: unmounted.append(True))
    with empty.prepared():
        assert not unmounted
    assert unmounted


def test_the_stories_are_followed_until_they_end(
    cluster: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection may be cut while a story prints nothing."""
    statuses: Iterator[int | None] = iter([None, None, 3])
    printed: list[tuple[str, ...]] = []
    monkeypatch.setattr(cluster, "_exit_status", lambda: next(statuses))
    monkeypatch.setattr(cluster, "_print_output", lambda *options: printed.append(options))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert cluster.run_stories([]) == 3
    first, second = printed
    assert first == ()
    assert second[0].startswith("--since-time=")


def test_a_pod_that_does_not_start_is_shown(
    cluster: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pending(*arguments: str, text: str = "") -> str:
        if "pods,events" in arguments:
            return "Failed to pull image"
        return "Pending" if "pod" in arguments else ""

    monkeypatch.setattr(cluster, "kubectl", pending)
    monkeypatch.setattr(user_cluster, "_START_S", -1)
    words = r"naiad-stories/stories does not run.*\nFailed to pull image"
    with pytest.raises(user_cluster.UserClusterError, match=words):
        cluster.run_stories([])


def test_a_registry_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(user_cluster.REGISTRY_VARIABLE, raising=False)
    with pytest.raises(
        user_cluster.UserClusterError, match=r"NAIAD_REGISTRY=registry\.example\.com"
    ):
        user_cluster.registry()


def test_stories_call_the_kind_by_a_name_of_its_own() -> None:
    """`inferenceservice` is KServe's on a cluster that has both."""
    files = pathlib.Path(user_cluster.__file__).parent.rglob("*.py")
    assert [file.name for file in files if re.search(r'"inferenceservices?"', file.read_text())] == []  # fmt: skip
