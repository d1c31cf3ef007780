"""What a second start does with a cluster of an earlier one."""

import pathlib

import pytest

from e2e import demo
from e2e.cluster import cluster, layout, machine
from tests.toolchain import programs


class _StartedAnewError(Exception):
    """In place of a start."""


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> cluster.Cluster:
    """A cluster whose control plane runs."""

    def start(self: cluster.Cluster) -> None:
        raise _StartedAnewError

    monkeypatch.setattr(machine, "check", lambda: None)
    monkeypatch.setattr(programs, "find", lambda names: programs.Programs({}))
    monkeypatch.setattr(cluster.Cluster, "running", property(lambda self: True))
    monkeypatch.setattr(cluster.Cluster, "down", start)
    monkeypatch.setattr(cluster.Cluster, "_wait_for_nodes", lambda self, components: None)
    return cluster.Cluster(layout.Folders(tmp_path))


def test_a_cluster_whose_start_was_interrupted_is_started_from_nothing(
    running: cluster.Cluster,
) -> None:
    """Its nodes may never come."""
    with pytest.raises(_StartedAnewError):
        running.up()


def test_a_complete_cluster_is_left_as_it_is(running: cluster.Cluster) -> None:
    running.folders.complete.touch()
    running.up()


def test_an_interrupt_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(say: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_demo", interrupted)
    assert demo.main() == 130
    assert "make cluster-down removes what was started" in capsys.readouterr().err
