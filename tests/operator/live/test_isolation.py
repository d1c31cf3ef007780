"""Objects that cannot be read, beside an ordinary service: they are marked, and the ordinary one is served.

What one tenant writes must not stop or slow another one's services: at the start, while the operator runs, and after a change.
"""

import contextlib
import json
import typing

import httpx
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.apiserver.client import Kubectl, until
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.hostile_services import HOSTILE, PATH, Raw, nested
from tests.apiserver.objects import deployed, inference_service, is_true, make_namespace
from tests.apiserver.operator import OperatorProcess

Start = typing.Callable[..., OperatorProcess]


@pytest.fixture(scope="module")
def raw(plane: ControlPlane) -> typing.Iterator[Raw]:
    made = Raw(plane)
    yield made
    made.http.close()


def marked(raw: Raw, kubectl: Kubectl, name: str, namespace: str) -> None:
    """Waits for the Event and the condition of a service that cannot be read."""

    def look() -> bool:
        text = raw.affinity(name, namespace)
        return "the operator cannot read this object: " in text and '"reason":"InvalidSpec"' in text

    until(f"the condition of {name}", look)
    until(
        f"the Event of {name}",
        lambda: [
            event
            for event in kubectl.list("Event", namespace)
            if event["involvedObject"]["name"] == name and event["reason"] == "InvalidSpec"
        ],
    )


def test_deep_objects_are_marked_at_a_start_and_while_it_runs_and_stop_nothing(
    raw: Raw, kubectl: Kubectl, start: Start
) -> None:
    mine, theirs = (make_namespace(kubectl, f"isolation-{name}") for name in ("mine", "theirs"))
    taken = [
        name
        for name, levels in (("a", 400), ("b", 1_000), ("c", 4_000), ("d", 9_900), ("e", 10_000))
        if raw.create(name, theirs, f'{{"affinity":{nested(levels)}}}')
    ]
    assert taken[:2] == ["a", "b"], "the API server takes a thousand levels"
    served_before = inference_service("before", mine)
    kubectl.create(served_before)
    operator = start(f"--watch-namespaces={mine},{theirs}").wait_ready()
    until("the Deployment of before", lambda: kubectl.find("Deployment", "before", mine))
    for name in taken:
        marked(raw, kubectl, name, theirs)
    # While it runs: new ones, an edit of one, and its end.
    assert raw.create("later", theirs, f'{{"affinity":{nested(1_000)}}}')
    marked(raw, kubectl, "later", theirs)
    deployed(kubectl, "during", mine)
    path = f"{PATH.format(theirs)}/b"
    body = {"metadata": {"labels": {"a": "b"}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    assert raw.http.patch(path, content=json.dumps(body), headers=headers).status_code == 200
    assert raw.http.delete(path).status_code == 200
    deployed(kubectl, "after", mine)
    operator.check()
    unreadable = 'naiad_operator_unreadable_objects_total{resource="inferenceservices"}'
    assert operator.metric(unreadable) == len(taken) + 1
    lines = [line for line in operator.lines() if "cannot be read" in line["message"]]
    assert len(lines) == len(taken) + 1, "each is logged once"
    # One that is repaired is an ordinary service.
    repair = '{"spec": {"predictor": {"affinity": null}}}'
    repaired = raw.http.patch(f"{PATH.format(theirs)}/a", content=repair, headers=headers)
    assert repaired.status_code == 200, repaired.text[:500]
    until("its Deployment", lambda: kubectl.find("Deployment", "a", theirs))


_ROUNDS = 6
_LOOKS = 'naiad_operator_reconciles_total{result="ok"}'


def test_an_ordinary_service_takes_no_more_looks_beside_hostile_ones_than_alone(
    raw: Raw, kubectl: Kubectl, start: Start
) -> None:
    """None of the hostile ones is looked at again for an ordinary one. What its looks cost in processor time is measured by `benchmarks.operator.isolation`."""
    mine, theirs = (make_namespace(kubectl, f"cost-{name}") for name in ("mine", "theirs"))
    operator = start(f"--watch-namespaces={mine},{theirs}").wait_ready()
    deployed(kubectl, "first", mine)

    def looks_at(name: str) -> float:
        """Without those that try again what the API server refuses: they come by the clock."""
        before = operator.metric(_LOOKS)
        for number in range(_ROUNDS):
            deployed(kubectl, f"{name}-{number}", mine)
        until(f"looks at {name}", lambda: operator.metric("naiad_operator_queue_depth") == 0)
        return operator.metric(_LOOKS) - before

    alone = looks_at("alone")
    written = [name for name, spec in HOSTILE.items() if raw.create(name, theirs, spec)]
    assert len(written) >= len(HOSTILE) - 1
    for name in written:
        until(f"a condition of {name}", lambda name=name: raw.has_condition(name, theirs))  # type: ignore[misc]  # fmt: skip
    beside = looks_at("beside")
    # Events that come together are one look, so that the numbers differ by a few; a look at each of the others for each service would be many more.
    assert alone >= _ROUNDS
    assert beside - alone < _ROUNDS * len(written) / 2


def test_hostile_services_that_are_created_first_do_not_hold_one_up(
    raw: Raw, kubectl: Kubectl, start: Start
) -> None:
    """All at once: the ordinary one waits for no more than a look at each of the others."""
    mine, theirs = (make_namespace(kubectl, f"first-{name}") for name in ("mine", "theirs"))
    operator = start(f"--watch-namespaces={mine},{theirs}").wait_ready()
    deployed(kubectl, "first", mine)
    before = operator.looks()
    written = [name for name, spec in HOSTILE.items() if raw.create(name, theirs, spec)]
    deployed(kubectl, "last", mine)
    assert operator.looks() - before <= 4 * (len(written) + 1)


_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=[]), max_size=20),
)
_ANY = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=30,
)  # fmt: skip
_DEEP = st.integers(50, 9_000).map(lambda levels: '{"x":' * levels + "1" + "}" * levels)
_WIDE = st.integers(1_000, 40_000).map(lambda many: "[" + "{}," * many + "{}]")
_LARGE = st.integers(1_000, 400_000).map(lambda size: json.dumps("x" * size))
_NUMBERS = st.sampled_from(["1e308", "-1e-400", "123456789012345678901234567890", '"\\ud800"', "1e999"])  # fmt: skip
_VALUES = st.one_of(_ANY.map(json.dumps), _DEEP, _WIDE, _LARGE, _NUMBERS)
_FIELDS = st.sampled_from(
    [
        '{{"affinity":{{"nodeAffinity":{}}}}}',
        '{{"affinity":{}}}',
        '{{"podTemplate":{{"spec":{}}}}}',
        '{{"podTemplate":{{"metadata":{{"annotations":{}}}}}}}',
        '{{"podTemplate":{{"spec":{{"containers":[{{"name":"server","resources":{}}}]}}}}}}',
        '{{"env":[{{"name":"A","valueFrom":{}}}]}}',
        '{{"replicas":{}}}',
    ]
)
_ANNOTATIONS = st.dictionaries(st.sampled_from(["a", "serving.naiad.dev/x"]), st.text(max_size=50), max_size=2)  # fmt: skip


@pytest.fixture(scope="module")
def running(kubectl: Kubectl, start: Start) -> tuple[OperatorProcess, str, str]:
    mine, theirs = (make_namespace(kubectl, f"hostile-{name}") for name in ("mine", "theirs"))
    operator = start(f"--watch-namespaces={mine},{theirs}").wait_ready()
    return operator, mine, theirs


_numbers = iter(range(10**9))


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    hostile=st.lists(st.tuples(_FIELDS, _VALUES, _ANNOTATIONS), min_size=3, max_size=6),
)
def test_an_ordinary_service_is_served_beside_random_and_hostile_objects(
    raw: Raw,
    kubectl: Kubectl,
    running: tuple[OperatorProcess, str, str],
    hostile: list[tuple[str, str, dict[str, str]]],
) -> None:
    """Every one that the API server takes gets a condition, the ordinary one its Deployment, and nothing of it is a bug."""
    operator, mine, theirs = running
    name = f"ordinary-{next(_numbers)}"
    written = [
        bad
        for field, value, annotations in hostile
        if raw.create(
            bad := f"bad-{next(_numbers)}", theirs, field.format(value), json.dumps(annotations)
        )
    ]
    deployed(kubectl, name, mine)
    for bad in written:
        until(f"a condition of {bad}", lambda bad=bad: raw.has_condition(bad, theirs))  # type: ignore[misc]  # fmt: skip
    operator.check()
    assert not [line for line in operator.lines() if line["level"] in {"error", "critical"}]
    until(
        f"{name} to be valid",
        lambda: is_true(kubectl.get("InferenceService", name, mine), "SpecValid"),
    )
    for each in written:
        with contextlib.suppress(httpx.HTTPError):
            raw.delete(each, theirs)
