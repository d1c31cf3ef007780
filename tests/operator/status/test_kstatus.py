"""The rules of kstatus and of Flux's health checks, by the cases of their own tests (TestCRDGenericStatus, TestStatusEvaluator_Evaluate) and their branches."""

import typing

import pytest

from tests.support import kstatus

Object = dict[str, typing.Any]


def resource(
    *conditions: tuple[str, str], generation: int | None = 1, **status: typing.Any
) -> Object:
    """A resource of an unknown kind."""
    metadata: Object = {"name": "test"} | ({"generation": generation} if generation else {})
    made = [{"type": kind, "status": value} for kind, value in conditions]
    return {"metadata": metadata, "status": {**status, **({"conditions": made} if made else {})}}


CASES: dict[str, tuple[Object, str]] = {
    "crdNoStatus": ({"metadata": {"name": "test", "generation": 1}}, "Current"),
    "crdReady": (resource(("Ready", "True")), "Current"),
    "crdNotReady": (resource(("Ready", "False")), "InProgress"),
    "crdNoCondition": (resource(("SomeCondition", "True")), "Current"),
    "crdMismatchStatusGeneration": (
        resource(("Ready", "True"), generation=2, observedGeneration=1),
        "InProgress",
    ),
    "ready is unknown": (resource(("Ready", "Unknown")), "InProgress"),
    "ready is another word": (resource(("Ready", "Maybe")), "Current"),
    "without a generation": (resource(("Ready", "True"), generation=None, observedGeneration=1), "Current"),
    "stalled": (resource(("Ready", "False"), ("Stalled", "True")), "Failed"),
    "stalled no more": (resource(("Stalled", "False"), ("Ready", "False")), "InProgress"),
    "stalled after an edit": (
        resource(("Stalled", "True"), generation=2, observedGeneration=1),
        "InProgress",
    ),
    "reconciling and ready": (resource(("Ready", "True"), ("Reconciling", "True")), "InProgress"),
    "the first of both": (resource(("Stalled", "True"), ("Reconciling", "True")), "Failed"),
    "the other first": (resource(("Reconciling", "True"), ("Stalled", "True")), "InProgress"),
    "deleted": (
        {"metadata": {"deletionTimestamp": "2026-01-31T12:00:00Z", "generation": 2}, "status": {"observedGeneration": 1}},
        "Terminating",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_kstatus_computes(case: str) -> None:
    given, expected = CASES[case]
    assert kstatus.state(given) == expected


_READY = "status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"
_STALLED = "status.conditions.exists(c, c.type == 'Stalled' && c.status == 'True')"
_CHECKS = {"current": _READY, "failed": _STALLED}


def test_what_flux_evaluates_in_its_order() -> None:
    assert kstatus.evaluated(resource(("Ready", "True")), _CHECKS) == "Current"
    assert kstatus.evaluated(resource(("Ready", "True"), ("Stalled", "True")), _CHECKS) == "Failed"
    assert kstatus.evaluated(resource(("Ready", "False")), _CHECKS) == "InProgress"
    behind = resource(("Ready", "True"), generation=2, observedGeneration=1)
    assert kstatus.evaluated(behind, _CHECKS) == "InProgress"
    first = {**_CHECKS, "inProgress": _STALLED}
    assert kstatus.evaluated(resource(("Stalled", "True")), first) == "InProgress"
    assert kstatus.evaluated({"metadata": {"generation": 1}}, _CHECKS) == "Unknown", "an error"
