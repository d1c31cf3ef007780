"""The first page of a report, and the archive."""

import gzip
import io
import tarfile

from naiad_operator.report import layout, selection, summary
from naiad_operator.report.collector import Collected
from naiad_operator.report.selection import Known, Object, Snapshot

_CONDITION = {"type": "Ready", "status": "False", "reason": "ModelFailed", "message": "m failed", "lastTransitionTime": "T"}  # fmt: skip


def pod(name: str, **status: object) -> Object:
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "prod"}, "spec": {"nodeName": "n1"}, "status": status}  # fmt: skip


def page(snapshot: Snapshot) -> str:
    return summary.text(snapshot, own_version="0.2.0", kubernetes="v1.36.3", time="now")


def test_services_with_all_conditions_and_the_models_that_are_not_ready() -> None:
    status = {
        "conditions": [_CONDITION],
        "observedGeneration": 2,
        "modelCount": "1/2",
        "models": [{"name": "m", "version": "1", "state": "UNAVAILABLE", "reason": "no weights"}, {"name": "ok", "state": "READY"}],
    }  # fmt: skip
    service = {
        "metadata": {"name": "demo", "namespace": "prod", "generation": 3},
        "status": status,
    }
    text = page({("namespaces/prod", "inferenceservices"): [service]})
    assert "prod/demo: Ready=False (ModelFailed), models 1/2, generation 3, seen by the operator 2" in text  # fmt: skip
    assert "Ready=False ModelFailed" in text
    assert "m failed" in text
    assert "model m 1 UNAVAILABLE: no weights" in text
    assert "model ok" not in text


def test_pods_that_are_not_ready_with_the_reason() -> None:
    waiting = {"name": "server", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no image"}}}  # fmt: skip
    running = {"name": "server", "ready": False, "restartCount": 2, "state": {"running": {}}}
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}  # fmt: skip
    pods = [
        pod("fine", conditions=[{"type": "Ready", "status": "True"}]),
        pod("image", containerStatuses=[waiting]),
        pod("probe", containerStatuses=[running]),
        pod("pending", conditions=[unscheduled]),
        pod("evicted", phase="Failed", reason="Evicted", message="low on memory"),
        pod("new", phase="Pending"),
    ]
    text = page({("namespaces/prod", "pods"): pods})
    assert "prod/fine" not in text
    for line in (
        "prod/image on n1: ImagePullBackOff: pod image: no image",
        "prod/probe on n1: runs, and its readiness probe fails: server; 2 restarts",
        "prod/pending on n1: Unschedulable: no node",
        "prod/evicted on n1: Evicted: low on memory",
        "prod/new on n1: phase Pending",
    ):
        assert line in text


def warning(reason: str, second: int, message: str = "", **fields: object) -> Object:
    about = {"kind": "Pod", "namespace": "prod", "name": "p"}
    return {"type": "Warning", "reason": reason, "metadata": {}, "lastTimestamp": f"2026-11-23T15:00:{second:02}Z", "involvedObject": about, "message": message, **fields}  # fmt: skip


def warnings_of(events: list[Object]) -> list[str]:
    return page({("operator", "events"): events}).partition("Warnings")[2].splitlines()[1:]


def test_the_newest_warnings_come_last_and_are_limited() -> None:
    events = [warning(f"R{number:02}", number, "m " * 1000) for number in reversed(range(60))]
    shown = warnings_of(events)
    assert len(shown) == 40
    assert "R59" in shown[-1]
    assert max(map(len, shown)) < 800


def test_warnings_of_one_reason_about_one_object_are_one_line() -> None:
    events = [
        warning("Failed", 2, "second", count=4),
        warning("Failed", 1, "first"),
        warning("Other", 3),
        warning("Failed", 9, "fine", type="Normal"),
    ]
    first, second = warnings_of(events)
    assert first == "  2026-11-23T15:00:02Z Pod prod/p: Failed (5 times): second"
    assert "Other" in second


def test_nodes_with_their_devices_and_what_is_wrong() -> None:
    node = {
        "metadata": {"name": "n1", "annotations": {"x": "y"}, "labels": {"nvidia.com/gpu.product": "H100"}},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "allocatable": {"cpu": "8", "memory": "1Gi", "nvidia.com/gpu": "2"}, "addresses": ["a"],
            "conditions": [{"type": "Ready", "status": "False", "reason": "Gone", "message": "no news"}, {"type": "DiskPressure", "status": "False"}],
        },
    }  # fmt: skip
    kept = selection.of_node(node)
    assert set(kept["metadata"]) == {"name", "labels"}
    assert "addresses" not in kept["status"]
    text = page({("cluster", "nodes"): [kept]})
    assert "n1: cpu 8, memory 1Gi; nvidia.com/gpu 2; Ready=False (Gone: no news)" in text
    assert "DiskPressure" not in text


def test_only_what_has_to_do_with_the_services_is_taken() -> None:
    known = Known(names=frozenset({"demo", "demo-abc"}), owners=("demo-",), claims=frozenset({"models"}))  # fmt: skip

    def belongs(kind: str, name: str, **fields: object) -> bool:
        return selection.belongs({"kind": kind, "metadata": {"name": name}, **fields}, known)

    def about(name: str) -> bool:
        return belongs("Event", "e", involvedObject={"name": name})

    assert about("demo")
    assert about("demo-gone")
    assert not about("database-0")
    assert belongs("PersistentVolumeClaim", "models")
    assert not belongs("PersistentVolumeClaim", "database")
    assert belongs("HorizontalPodAutoscaler", "keda", spec={"scaleTargetRef": {"name": "demo"}})
    assert not belongs("HorizontalPodAutoscaler", "x", spec={"scaleTargetRef": {"name": "x"}})
    assert belongs("ResourceQuota", "few")


def test_no_kind_with_secrets_is_read() -> None:
    every = [*selection.SELECTED, *selection.FILTERED, *selection.OF_OPERATOR]
    assert {kind.kind for kind in every} & {"Secret", "ConfigMap"} == set()


def test_the_archive_has_one_folder_with_the_summary_first() -> None:
    objects = [{"kind": "NaiadProfile"}, {"kind": "NaiadProfile", "long": "word " * 100}]
    collected = Collected(snapshot={("cluster", "naiadprofiles"): objects, ("cluster", "empty"): []}, files={"b.log": "\udcff"}, missing=["x"])  # fmt: skip
    files = layout.files(collected, own_version="0.2.0", time="now")
    assert list(files) == [
        "summary.txt",
        "not-collected.txt",
        "cluster/naiadprofiles.yaml",
        "b.log",
    ]
    assert files["cluster/naiadprofiles.yaml"].count("\n") == 4, "long texts stay on one line"
    content = layout.archive(files, folder="report-1", seconds=1_700_000_000)
    assert gzip.decompress(content)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        members = tar.getmembers()
    assert members[0].name == "report-1/summary.txt"
    assert {member.mtime for member in members} == {1_700_000_000}
