"""Hostile objects of the other kinds that the operator lists, watches and reads, beside an ordinary service, which is served.

Pods, Events, claims, children with the operator's labels, namespaces and profiles: a user who may write one of these may write any content into
it that the API server takes. `test_isolation` does the same with services.
"""

import itertools
import typing

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.apiserver import leftovers
from tests.apiserver.client import Kubectl, Object, RefusedError, path_of, until
from tests.apiserver.hostile_objects import (
    COMMAS,
    SPECS,
    TEXTS,
    VICTIM,
    WAITING,
    YEAR_0,
    attack,
    child,
    event,
    removed,
    written,
)
from tests.apiserver.objects import condition, deployed, is_true, make_namespace
from tests.apiserver.operator import OperatorProcess

Start = typing.Callable[..., OperatorProcess]

_numbers = itertools.count()
_ROUNDS = 6


@pytest.fixture
def teams(kubectl: Kubectl) -> typing.Iterator[tuple[str, str]]:
    """The namespaces of an ordinary tenant and of the hostile one; in the end nothing of theirs is left for other modules' operators to read."""
    mine, theirs = make_namespace(kubectl, "peaceful"), make_namespace(kubectl, "hostile-team")
    yield mine, theirs
    for namespace in (mine, theirs):
        leftovers.empty(kubectl, namespace, ("InferenceService", *SPECS, "Event"))
    removed(kubectl, "NaiadProfile")
    removed(kubectl, "Namespace")


def ordinary(operator: OperatorProcess) -> None:
    """It runs, and none of what it has read was a bug."""
    operator.check()
    assert not [line for line in operator.lines() if line["level"] in {"error", "critical"}]


def test_an_ordinary_service_is_served_beside_hostile_objects_of_every_kind(
    kubectl: Kubectl, start: Start, teams: tuple[str, str]
) -> None:
    """While the operator watches, and after a start that finds them; what concerns the hostile tenant's service is said there.

    What the ordinary one costs in processor time is measured by `benchmarks.operator.isolation`.
    """
    mine, theirs = teams
    options = f"--watch-namespaces={mine},{theirs}"
    operator = start(options).wait_ready()
    taken = attack(kubectl, theirs)
    assert {*SPECS, "Event", "Namespace", "NaiadProfile"} <= taken.keys()
    until("a look at all", lambda: said(kubectl, theirs))
    until(
        "conditions", lambda: is_true(kubectl.get("InferenceService", WAITING, theirs), "SpecValid")
    )
    until("no backlog", lambda: operator.metric("naiad_operator_queue_depth") == 0)
    before = operator.looks()
    for number in range(_ROUNDS):
        deployed(kubectl, f"beside-{number}", mine)
    # A few for each service, and one for each of the objects whose event comes late: nothing makes the operator look again and again.
    assert operator.looks() - before <= 10 * _ROUNDS + sum(taken.values())
    assert operator.metric('naiad_operator_unreadable_objects_total{resource="pods"}') > 0
    ordinary(operator)
    assert operator.stop() == 0
    with start(options).wait_ready() as again:
        deployed(kubectl, "after", mine)
        ordinary(again)


def said(kubectl: Kubectl, namespace: str) -> bool:
    """Whether the victim's condition names the objects that keep it from being reconciled."""
    shown = condition(kubectl.get("InferenceService", VICTIM, namespace), "SpecValid")
    return "the operator cannot read this object" in shown.get("message", "")


_WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)
_TIMES = st.sampled_from([YEAR_0, "0001-01-01T00:00:01Z", "9999-12-31T23:59:59Z", "2026-02-29T00:00:00Z", None])  # fmt: skip
_COUNTS = st.integers(-(2**31), 2**31 - 1)
_ANNOTATIONS = st.dictionaries(
    st.sampled_from(["serving.naiad.dev/applied", "serving.naiad.dev/template", "a", "b"]),
    _WORDS | st.sampled_from(list(TEXTS.values())),
    max_size=2,
)
_STATE = st.fixed_dictionaries(
    {},
    optional={
        "waiting": st.fixed_dictionaries({}, optional={"reason": _WORDS, "message": _WORDS}),
        "running": st.fixed_dictionaries({}, optional={"startedAt": _TIMES}),
        "terminated": st.fixed_dictionaries(
            {"exitCode": _COUNTS},
            optional={"reason": _WORDS, "message": _WORDS, "startedAt": _TIMES, "finishedAt": _TIMES},
        ),
    },
)  # fmt: skip
_POD_STATUS = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running", "Failed", "Succeeded", "Unknown", "x"]),
        "reason": _WORDS,
        "message": _WORDS,
        "podIP": st.sampled_from(["", "127.0.0.1", "::1"]),
        "startTime": _TIMES,
        "conditions": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["PodScheduled", "Ready", "ContainersReady", "DisruptionTarget", "x"]),
                    "status": st.sampled_from(["True", "False", "Unknown", "x"]),
                },
                optional={"lastTransitionTime": _TIMES, "reason": st.sampled_from(["Unschedulable", "x"]), "message": _WORDS},
            ),
            max_size=3,
            unique_by=lambda each: each["type"],
        ),
        "containerStatuses": st.lists(
            st.fixed_dictionaries(
                {"name": st.just("server"), "image": _WORDS, "imageID": _WORDS, "ready": st.booleans(), "restartCount": _COUNTS},
                optional={"state": _STATE, "lastState": _STATE, "started": st.booleans()},
            ),
            max_size=1,
        ),
    },
)  # fmt: skip
_EVENT = st.fixed_dictionaries(
    {"reason": st.sampled_from(["TriggeredScaleUp", "Nominated", "NotTriggerScaleUp", "FailedScheduling", "FailedScaleUp", ""])},
    optional={
        "message": _WORDS | st.sampled_from(["Failed to schedule pod, ", ": : ,", COMMAS]),
        "lastTimestamp": _TIMES,
        "firstTimestamp": _TIMES,
        "count": _COUNTS,
        "source": st.fixed_dictionaries({}, optional={"component": _WORDS, "host": _WORDS}),
        "reportingComponent": _WORDS,
    },
)  # fmt: skip


@pytest.fixture(scope="module")
def watched(kubectl: Kubectl, start: Start) -> tuple[OperatorProcess, str, str]:
    """An operator and its two tenants; the hostile one has a service."""
    mine, theirs = (make_namespace(kubectl, f"random-{name}") for name in ("mine", "theirs"))
    operator = start(f"--watch-namespaces={mine},{theirs}").wait_ready()
    deployed(kubectl, VICTIM, theirs)
    return operator, mine, theirs


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    pods=st.lists(st.tuples(_ANNOTATIONS, _POD_STATUS, st.lists(_EVENT, max_size=3)), min_size=2, max_size=4),
    others=st.lists(st.tuples(st.sampled_from(list(SPECS)), _ANNOTATIONS), max_size=4),
)  # fmt: skip
def test_an_ordinary_service_is_served_beside_random_pods_events_and_children(
    kubectl: Kubectl,
    watched: tuple[OperatorProcess, str, str],
    pods: list[tuple[dict[str, str], Object, list[Object]]],
    others: list[tuple[str, dict[str, str]]],
) -> None:
    """None of it is a bug, and the service whose objects they seem to be has conditions, too."""
    operator, mine, theirs = watched
    made = written(kubectl, *(child(kind, theirs, annotations=a) for kind, a in others))
    for annotations, status, about in pods:
        for pod in written(kubectl, child("Pod", theirs, annotations=annotations)):
            made.append(pod)
            name = pod["metadata"]["name"]
            written(kubectl, *(event(theirs, name, **fields) for fields in about))
            try:
                kubectl.replace_status(pod | {"status": status})
            except RefusedError:
                continue
    before = operator.looks()
    kubectl.patch("InferenceService", VICTIM, theirs, body={"spec": {"predictor": {"replicas": 1 + next(_numbers) % 9}}})  # fmt: skip
    deployed(kubectl, f"ordinary-{next(_numbers)}", mine)
    until("a look at both", lambda: operator.looks() >= before + 2)
    until("no backlog", lambda: operator.metric("naiad_operator_queue_depth") == 0)
    ordinary(operator)
    shown = until(
        "the condition of the service whose objects they seem to be",
        lambda: condition(kubectl.get("InferenceService", VICTIM, theirs), "SpecValid"),
    )
    assert "OperatorError" not in shown["reason"]
    for each in made:
        metadata = each["metadata"]
        path = path_of(each["kind"], metadata["namespace"], metadata["name"])
        kubectl.request("DELETE", path, body={"gracePeriodSeconds": 0})
