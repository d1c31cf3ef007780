"""What programs of the cluster get of this process."""

import pathlib

import pytest

from e2e.cluster import namespaces
from e2e.cluster.namespaces import Namespaces


@pytest.fixture(autouse=True)
def _login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/0")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com")


def test_a_component_does_not_depend_on_the_environment_of_who_starts_it(
    tmp_path: pathlib.Path,
) -> None:
    own = tmp_path / "bin"
    component = namespaces.start("shown", ["/usr/bin/env"], tmp_path, search=[own])
    assert component.process.wait() == 0
    assert component.log.read_text() == f"PATH={own}:/usr/sbin:/usr/bin:/sbin:/bin\n"


def test_a_command_in_the_cluster_s_network_uses_no_proxy() -> None:
    command = Namespaces("control-plane", 7).networked("/bin/kubectl", "get", "pods")
    assert command[0] == "nsenter"
    assert command[-3:] == ["/bin/kubectl", "get", "pods"]
    assert {"NO_PROXY=*", "no_proxy=*"} < set(command[command.index("env") :])
