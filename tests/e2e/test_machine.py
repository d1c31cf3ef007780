"""A machine that cannot run the cluster is refused before anything is built or started, with all that is missing."""

import os
import pathlib
import shutil

import pytest

from e2e.cluster import cgroups, machine
from e2e.cluster.namespaces import ComponentError


def test_everything_that_is_missing_is_in_one_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    found = {"ip": None, "iptables": None}
    monkeypatch.setattr(shutil, "which", lambda name, path: found.get(name, f"/usr/bin/{name}"))
    with pytest.raises(ComponentError) as caught:
        machine.check()
    message = str(caught.value)
    assert "run it as root" in message
    assert "ip, iptables not found: apt-get install iproute2 iptables" in message
    assert "cpu, cpuacct, cpuset" in message
    assert "KUBECONFIG" in message


def test_a_cache_that_nodes_do_not_see_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a home folder like /var/lib/jenkins: the programs of nodes are in the cache."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(cgroups, "problem", str)
    monkeypatch.setattr(shutil, "which", lambda name, path: f"/usr/bin/{name}")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/lib/jenkins/.cache")
    with pytest.raises(ComponentError, match="set XDG_CACHE_HOME to a folder elsewhere"):
        machine.check()


def test_a_machine_with_everything_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(cgroups, "problem", str)
    monkeypatch.setattr(shutil, "which", lambda name, path: f"/usr/bin/{name}")
    monkeypatch.setenv("XDG_CACHE_HOME", "/root/.cache")
    machine.check()
