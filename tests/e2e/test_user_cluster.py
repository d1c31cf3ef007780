"""Manifests of this project's cluster, as a cluster of the user's takes them: images of its registry, addresses of its own."""

import pathlib

import pytest
import yaml

from e2e import registry_cluster, user_cluster
from e2e.addons import install
from tests.toolchain import programs


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> user_cluster.UserCluster:
    found = programs.Programs({"kubectl": pathlib.Path("kubectl")})
    monkeypatch.setattr(programs, "find", lambda names: found)
    return user_cluster.UserCluster("http://registry.example.com/team/", tmp_path, print)


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


def test_a_registry_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(user_cluster.REGISTRY_VARIABLE, raising=False)
    with pytest.raises(
        user_cluster.UserClusterError, match=r"NAIAD_REGISTRY=registry\.example\.com"
    ):
        user_cluster.registry()
