"""What Argo CD, Flux and kubectl wait see in a status: docs/gitops.md."""

import json
import pathlib
import re
import typing

import pytest
from lupa.lua51 import LuaRuntime, lua_type

from naiad_operator.api.types.status import NOT_OBSERVED
from naiad_operator.errors import Problem
from naiad_operator.status import compute_invalid
from naiad_operator.status.compute import compute_bug
from tests.operator.status.cases import NOT, READY
from tests.support import kstatus, manifests
from tests.support.observations import NOW, deployment, status, waiting

Manifest = dict[str, typing.Any]
ROOT = pathlib.Path(__file__).parents[3]
CHECK = (ROOT / "charts/naiad/files/argocd-health.lua").read_text()
FLUX = (ROOT / "docs/gitops.md").read_text()

NO_POD = deployment(0, ready=0)


def stored(given: Manifest, generation: int | None = None) -> Manifest:
    """A service with this status, as the API server has it."""
    resource = manifests.resource()
    if generation is None:
        generation = given.get("observedGeneration", 1)
    resource["metadata"]["generation"] = generation
    return {**resource, "status": given}


def argo(resource: Manifest) -> tuple[str, str]:
    """Health and message as the shipped Lua has them."""
    lua = LuaRuntime(unpack_returned_tuples=True)
    lua.globals()["obj"] = lua.table_from(json.loads(json.dumps(resource)), recursive=True)
    health = lua.execute(CHECK)
    assert lua_type(health) == "table"
    return health["status"], health["message"]


def flux(resource: Manifest) -> str:
    """What Flux says with the expressions of the page."""
    found = re.findall(r"^ +(inProgress|failed|current): (.+)$", FLUX, re.MULTILINE)
    assert {name for name, _ in found} == {"failed", "current"}
    return kstatus.evaluated(resource, dict(found))


@pytest.mark.parametrize("case", READY)
def test_a_ready_service_is_healthy_for_all_three(case: str) -> None:
    resource = stored(status(**READY[case]))
    assert (argo(resource)[0], kstatus.state(resource), flux(resource)) == (
        "Healthy",
        "Current",
        "Current",
    )


@pytest.mark.parametrize("case", NOT)
def test_a_service_that_is_not_ready_is_not_healthy_unless_it_is_meant_to_have_no_pods(
    case: str,
) -> None:
    given, (reason, message) = NOT[case]
    resource = stored(status(**given))
    seen = (argo(resource)[0], kstatus.state(resource), flux(resource))
    if reason == "ScaledToZero":
        assert seen == ("Healthy", "InProgress", "Current")
    elif reason == "Suspended":
        assert seen == ("Suspended", "InProgress", "Current")
    else:
        assert seen in (
            ("Degraded", "Failed", "Failed"),
            ("Progressing", "InProgress", "InProgress"),
        )
        assert argo(resource)[1] == f"{reason}: {message}"


def failing() -> Manifest:
    return status(
        children={("Deployment", "demo"): deployment(updated=1, ready=0)},
        pods=[waiting("ImagePullBackOff", "not found")],
    )


def test_a_rollout_is_waited_for_and_one_that_has_failed_is_not() -> None:
    rolling = stored(status(children={("Deployment", "demo"): deployment(updated=1, ready=1)}))
    assert (argo(rolling)[0], kstatus.state(rolling)) == ("Progressing", "InProgress")
    failed = stored(failing())
    assert (argo(failed)[0], kstatus.state(failed)) == ("Degraded", "Failed")
    assert argo(failed)[1].startswith("ImagePullBackOff: ")


def test_an_edit_that_the_operator_has_not_seen_is_waited_for() -> None:
    for given in (status(), failing()):
        edited = stored(given, given["observedGeneration"] + 1)
        assert (argo(edited)[0], kstatus.state(edited), flux(edited)) == (
            "Progressing",
            "InProgress",
            "InProgress",
        )


def test_a_service_without_a_status_is_waited_for() -> None:
    new = manifests.resource()
    new["metadata"]["generation"] = 1
    assert (argo(new)[0], flux(new)) == ("Progressing", kstatus.UNKNOWN)
    assert kstatus.state(new) == "Current", "and therefore the API server fills one in"
    new["status"] = NOT_OBSERVED
    assert (argo(new)[0], kstatus.state(new), flux(new)) == (
        "Progressing",
        "InProgress",
        "InProgress",
    )


def test_stalled_comes_with_an_invalid_spec_and_goes_with_its_correction() -> None:
    resource = manifests.resource()
    before = stored(status(resource))
    problems = [Problem("spec.predictor", "is wrong")]
    given = compute_invalid(before, problems, NOW)
    invalid = stored(given)
    assert (argo(invalid)[0], kstatus.state(invalid)) == ("Degraded", "Failed")
    corrected = manifests.resource()
    corrected["status"] = given
    assert kstatus.state(stored(status(corrected))) == "Current"


def test_a_bug_of_the_operator_is_degraded_and_keeps_no_older_reason() -> None:
    invalid = stored(compute_invalid(stored(status()), [Problem("spec", "is wrong")], NOW))
    given = compute_bug(invalid, "a bug", NOW)
    stalled = [each for each in given["conditions"] if each["type"] == "Stalled"]
    assert [each["reason"] for each in stalled] == ["OperatorError"]
    assert argo(stored(given))[0] == "Degraded"


def test_what_passes_by_itself_is_not_stalled() -> None:
    types = {
        NOT[case][1][0]
        for case in NOT
        if any(
            each["type"] == "Stalled" and each["status"] == "True"
            for each in status(**NOT[case][0])["conditions"]
        )
    }
    assert "ImagePullBackOff" in types
    assert not types & {"RollingOut", "Loading", "WaitingForNode", "NoAddress", "ContainerEnded"}
