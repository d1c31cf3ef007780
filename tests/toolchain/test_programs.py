"""Where programs come from, without building any."""

import contextlib
import os
import pathlib

import pytest

from tests.apiserver.control_plane import PROGRAMS
from tests.toolchain import go, programs
from tests.toolchain.build import Say
from tests.toolchain.table import ETCD_VERSION, KUBERNETES_VERSION, MODULES, Module


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return programs.cache_folder()


def put(folder: pathlib.Path, *names: str) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_the_folder_that_envtest_uses_takes_precedence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, empty_cache: pathlib.Path
) -> None:
    put(empty_cache / f"etcd-{ETCD_VERSION}", "etcd")
    kubernetes = put(empty_cache / f"kubernetes-{KUBERNETES_VERSION}", *PROGRAMS[1:])
    assets = put(tmp_path / "assets", "etcd", "kube-apiserver")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    found = programs.find(PROGRAMS)
    assert found["etcd"] == str(assets / "etcd")
    assert found["kube-controller-manager"] == str(kubernetes / "kube-controller-manager")


def test_what_was_built_before_is_used_without_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, empty_cache: pathlib.Path
) -> None:
    etcd = put(empty_cache / f"etcd-{ETCD_VERSION}", "etcd")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs.find(["etcd"])["etcd"] == str(etcd / "etcd")


def test_without_go_the_message_says_what_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(go, "FOLDERS", ())
    with pytest.raises(programs.BuildError, match=r"etcd v3.* install Go 1\.26 or newer"):
        programs.find(["etcd"])


def test_the_environments_go_is_found_beside_its_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    program = put(tmp_path / "environment", "go") / "go"
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(go, "FOLDERS", (program.parent,))
    assert go.path() == str(program)


def test_missing_programs_are_those_that_neither_envtest_nor_the_cache_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, empty_cache: pathlib.Path
) -> None:
    put(empty_cache / f"etcd-{ETCD_VERSION}", "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(put(tmp_path / "assets", "kube-apiserver")))
    assert programs.missing(PROGRAMS) == ["kube-controller-manager"]


def test_all_programs_of_a_module_are_built_together(
    monkeypatch: pytest.MonkeyPatch, empty_cache: pathlib.Path
) -> None:
    built: list[list[str]] = []

    def build(_module: Module, names: list[str], home: pathlib.Path, _say: Say) -> None:
        built.append(names)
        put(home, *names)

    monkeypatch.setattr(programs, "build", build)
    put(empty_cache / f"kubernetes-{KUBERNETES_VERSION}", "kubectl")
    for name in ("kube-apiserver", "kubelet"):
        assert pathlib.Path(programs.find([name])[name]).is_file()
    assert [sorted(names) for names in built] == [
        ["kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet"]
    ]


def test_a_process_that_waits_for_a_build_shows_the_progress_of_the_one_that_builds(
    empty_cache: pathlib.Path,
) -> None:
    said: list[str] = []
    slept: list[float] = []

    with contextlib.ExitStack() as held:
        note = held.enter_context(programs.lock(empty_cache / "etcd"))

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            note(f"{sum(slept):.0f} packages compiled")
            if sum(slept) >= 70:
                held.close()

        with programs.lock(empty_cache / "etcd", said.append, sleep=sleep):
            pass
    process = f"waiting for etcd; process {os.getpid()}:"
    assert said == [f"{process} started", f"{process} 30 packages compiled", f"{process} 60 packages compiled"]  # fmt: skip


def test_an_unknown_program_is_refused_with_the_place_of_the_table() -> None:
    with pytest.raises(KeyError, match=r"kubeadm: add it to tests/toolchain/table\.py"):
        programs.find(["kubeadm"])


def test_each_program_belongs_to_one_module() -> None:
    names = [name for module in MODULES for name in module.programs]
    assert len(names) == len(set(names))
    assert len({module.name for module in MODULES}) == len(MODULES)
