"""Where the Kubernetes programs come from, without building any."""

from pathlib import Path

import pytest

from tests.apiserver import toolchain


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return toolchain.cache_folder()


def programs(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_the_folder_that_envtest_uses_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, empty_cache: Path
) -> None:
    programs(empty_cache, *toolchain.NEEDED)
    assets = programs(tmp_path / "assets", "etcd", "kube-apiserver")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    tool = toolchain.find()
    assert tool["etcd"] == str(assets / "etcd")
    assert tool["kube-controller-manager"] == str(empty_cache / "kube-controller-manager")


def test_what_was_built_before_is_taken_without_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, empty_cache: Path
) -> None:
    programs(empty_cache, *toolchain.NEEDED)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert toolchain.find()["etcd"] == str(empty_cache / "etcd")


def test_without_go_the_message_names_the_three_ways_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(toolchain.BinariesUnavailableError) as refused:
        toolchain.find()
    for way in ("install Go", "KUBEBUILDER_ASSETS", "-m 'not apiserver'"):
        assert way in str(refused.value)


def test_the_cache_is_named_after_the_versions(empty_cache: Path) -> None:
    assert toolchain.KUBERNETES_VERSION in empty_cache.name
    assert toolchain.ETCD_VERSION in empty_cache.name
