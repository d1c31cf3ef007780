"""Hostile objects of the other kinds that the operator lists, watches and reads, beside an ordinary service, which is served.

Pods, Events, claims, children with the operator's labels, namespaces and profiles: a user who may write one of these may write any content into
it that the API server takes. `test_isolation` does the same with services.
"""

import itertools
import typing

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.apiserver.client import NAIAD, Kubectl, Object, RefusedError, path_of, until
from tests.apiserver.kubelet import unschedulable
from tests.apiserver.objects import condition, inference_service, is_true, make_namespace
from tests.apiserver.operator import OperatorProcess

Start = typing.Callable[..., OperatorProcess]

VICTIM = "victim"
"""The service of the hostile tenant, which its own objects concern."""
WAITING = "waiting"
"""Another one, whose pods and their Events are strange, and which has no child that cannot be read."""
BINDING = "hostile-binding"
_YEAR_0 = "0000-01-01T00:00:00Z"
_COMMAS = "," * 60_000
_BRACKETS = '{"[' * 60_000
_QUOTES = '"' * 100_000
_LARGE = "".join(map(chr, range(0x4E00, 0x4E00 + 5_000))) * 10
_TEXTS = {"commas": _COMMAS, "brackets": _BRACKETS, "quotes": _QUOTES, "large": _LARGE}

_CONTAINER: Object = {"name": "server", "image": "a"}
_SELECTED: Object = {"matchLabels": {"a": "b"}}
_SPECS: dict[str, Object] = {
    "Pod": {"containers": [_CONTAINER]},
    "Deployment": {
        "selector": _SELECTED,
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [_CONTAINER]}},
    },
    "Service": {"ports": [{"port": 1}]},
    "HorizontalPodAutoscaler": {
        "maxReplicas": 1,
        "scaleTargetRef": {"apiVersion": "a/b", "kind": "C", "name": "d"},
    },
    "PodDisruptionBudget": {"selector": _SELECTED, "maxUnavailable": "100%"},
    "Ingress": {"defaultBackend": {"service": {"name": "a", "port": {"number": 1}}}},
    "NetworkPolicy": {"podSelector": _SELECTED},
    "PersistentVolumeClaim": {
        "accessModes": ["ReadWriteOncePod"],
        "resources": {"requests": {"storage": "1"}},
    },
}
"""Of each kind that a tenant may write, the least that the API server takes."""
_API = {
    "Pod": "v1",
    "Service": "v1",
    "PersistentVolumeClaim": "v1",
    "Deployment": "apps/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "PodDisruptionBudget": "policy/v1",
    "Ingress": "networking.k8s.io/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
}
_ROUNDS = 6
_numbers = itertools.count()


def owners(count: int, **controller: typing.Any) -> list[Object]:
    """So many owners of any kind, of which the first may be the controller."""
    made: list[Object] = [
        {"apiVersion": "a/b", "kind": "K" * 500, "name": "n" * 500, "uid": str(number)}
        for number in range(count)
    ]
    return [made[0] | controller, *made[1:]]


def child(
    kind: str, namespace: str, *, name: str = "", of: str = VICTIM, **metadata: typing.Any
) -> Object:
    """An object with the operator's labels for a service."""
    labels = {
        "app.kubernetes.io/managed-by": "naiad-operator",
        "app.kubernetes.io/instance": of,
        "app.kubernetes.io/name": "naiad-server",
    }
    names = {"name": name or f"hostile-{next(_numbers)}", "namespace": namespace, "labels": labels}
    api = {"apiVersion": _API[kind], "kind": kind}
    return {**api, "metadata": names | metadata, "spec": _SPECS[kind]}


def children(namespace: str, uid: str) -> list[Object]:
    """Of every kind: giant annotations, strange owners, and names and digests that only the operator's own objects have."""
    owner = {"apiVersion": NAIAD, "kind": "InferenceService", "name": VICTIM, "uid": uid}
    made: list[Object] = []
    for kind in _SPECS:
        made += [child(kind, namespace, annotations={"a": text}) for text in _TEXTS.values()]
        made += [
            child(kind, namespace, ownerReferences=owners(500, controller=True)),
            child(kind, namespace, ownerReferences=[owner | {"controller": True}]),
            child(
                kind,
                namespace,
                ownerReferences=[owner | {"controller": True}],
                annotations={
                    f"serving.naiad.dev/{name}": text
                    for name, text in zip(
                        ("applied", "template", "template-version", "upgrade", "spec-hash"),
                        (
                            "\ud83d\ude00",
                            "eJzT0yMAAGTvBe8=",
                            "v99999999.1e308.-1",
                            "{}",
                            "[" * 90_000,
                        ),
                        strict=True,
                    )
                },
            ),
            child(kind, namespace, finalizers=[f"example.com/{n}" for n in range(900)]),
        ]
    pods = [child("Deployment", namespace) for _ in range(2)]
    pods[0]["spec"] = {**pods[0]["spec"], "replicas": 2**31 - 1, "paused": True}
    pods[1]["spec"] = {
        **pods[1]["spec"],
        "paused": True,
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "containers": [
                    _CONTAINER
                    | {"env": [{"name": f"A{n}", "value": "{" * 20} for n in range(9_000)]}
                ]
            },
        },
    }
    return [*made, *pods]


def statuses(pod: Object) -> list[Object]:
    """What no kubelet writes into a pod."""
    container: Object = {
        "name": "server",
        "image": "",
        "imageID": "",
        "ready": False,
        "restartCount": -5,
    }
    ended: Object = {"exitCode": -(2**31), "signal": 99, "reason": "", "startedAt": _YEAR_0, "finishedAt": _YEAR_0, "message": _BRACKETS}  # fmt: skip
    scheduled = unschedulable(pod, message=_QUOTES[:9_000], since=_YEAR_0)
    return [
        {"phase": "Pending", "conditions": []},
        {"phase": "x" * 10_000, "reason": _COMMAS, "message": _BRACKETS},
        scheduled,
        {**scheduled, "conditions": scheduled["conditions"] * 2_000},
        {
            "phase": "Running",
            "startTime": _YEAR_0,
            "containerStatuses": [
                container | {"state": {"terminated": ended}, "lastState": {"terminated": ended}}
            ],
        },
        {
            "phase": "Running",
            "containerStatuses": [
                container | {"state": {"waiting": {"reason": _LARGE, "message": _COMMAS}}}
            ],
        },
        {
            "phase": "Failed",
            "reason": "Evicted",
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "perhaps",
                    "lastTransitionTime": "9999-12-31T23:59:59Z",
                }
            ],
        },
    ]


def event(namespace: str, pod: str, reason: str, **fields: typing.Any) -> Object:
    """An Event about a pod, as autoscalers of nodes write them."""
    about = {"kind": "Pod", "name": pod, "namespace": namespace}
    metadata = {"name": f"hostile-{next(_numbers)}", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": about,
        "reason": reason,
        **fields,
    }


def events(namespace: str, pod: str) -> list[Object]:
    """Without times, with times that no calendar has, and with texts of any length."""
    made = [
        event(namespace, pod, reason, **fields)
        for reason in ("TriggeredScaleUp", "NotTriggerScaleUp", "FailedScheduling", "")
        for fields in (
            {},
            {"lastTimestamp": _YEAR_0, "message": ""},
            {"lastTimestamp": "9999-12-31T23:59:59Z", "message": f"Failed to schedule pod, {_BRACKETS}"},
            {"eventTime": "0000-01-01T00:00:00.000000Z", "action": "a", "reportingComponent": "a", "reportingInstance": "b"},
            {"series": {"count": -1, "lastObservedTime": "0000-01-01T00:00:00.000001Z"}},
            {"message": _COMMAS, "source": {"component": _LARGE[:500]}},
        )
    ]  # fmt: skip
    return [*made, *(event(namespace, pod, "TriggeredScaleUp", message=str(n)) for n in range(40))]


def profiles() -> list[Object]:
    """That are not valid, too large or too deep, or that bind other namespaces by strange selectors."""
    deep: typing.Any = 1
    for _ in range(150):
        deep = {"x": deep}
    wide: Object = {"nodeAffinity": [{}] * 30_000}
    specs: list[Object] = [
        {"affinity": wide},
        {"affinity": deep},
        {"podTemplate": {"spec": {"containers": [{"name": "server", "resources": 7}]}}},
        {"env": [{"name": "A", "value": _COMMAS}]},
    ]
    bound = [spec | {"policy": {"namespaces": {"names": ["hostile-nowhere"]}}} for spec in specs]
    many = [f"hostile-{number}" for number in range(500)]
    selectors: list[Object] = [
        {"matchExpressions": [{"key": "a", "operator": "In", "values": many}]},
        {"matchExpressions": [{"key": f"k{n}", "operator": "Exists"} for n in range(90)]},
    ]
    bound += [{"policy": {"namespaces": {"selector": selector}}} for selector in selectors]
    return [
        {"apiVersion": NAIAD, "kind": "NaiadProfile", "metadata": {"name": f"{BINDING}-{number}"}, "spec": spec}
        for number, spec in enumerate(bound)
    ]  # fmt: skip


def written(kubectl: Kubectl, *manifests: Object) -> list[Object]:
    """Those that the API server takes."""
    made = []
    for manifest in manifests:
        try:
            made.append(kubectl.create(manifest))
        except RefusedError:
            continue
    return made


def removed(kubectl: Kubectl, kind: str) -> None:
    for each in kubectl.list(kind):
        if each["metadata"]["name"].startswith("hostile-"):
            kubectl.delete(kind, each["metadata"]["name"])


def attack(kubectl: Kubectl, namespace: str) -> dict[str, int]:
    """Writes everything; how many the API server took, by kind."""
    victim = kubectl.create(inference_service(VICTIM, namespace))
    kubectl.wait_for("Deployment", VICTIM, namespace)
    served(kubectl, WAITING, namespace)
    made = written(kubectl, *children(namespace, victim["metadata"]["uid"]))
    for pod in written(kubectl, *(child("Pod", namespace, name=f"hostile-status-{n}", of=WAITING) for n in range(7))):  # fmt: skip
        number = int(pod["metadata"]["name"].rpartition("-")[2])
        try:
            kubectl.replace_status(pod | {"status": statuses(pod)[number]})
        except RefusedError:
            continue
        made += written(kubectl, *events(namespace, pod["metadata"]["name"]))
    made += written(kubectl, *profiles())
    strange = {f"example.com/{'k' * 50}{number}": "v" * 63 for number in range(2_000)}
    for number, metadata in enumerate(({"labels": strange}, {"annotations": {"a": _COMMAS}})):
        name = {"name": f"hostile-{next(_numbers)}-{number}"}
        made += written(kubectl, {"apiVersion": "v1", "kind": "Namespace", "metadata": name | metadata})  # fmt: skip
    kinds = [each["kind"] for each in made]
    return {kind: kinds.count(kind) for kind in kinds}


@pytest.fixture
def teams(kubectl: Kubectl) -> typing.Iterator[tuple[str, str]]:
    """The namespaces of an ordinary tenant and of the hostile one, whose cluster-wide objects are removed in the end."""
    yield make_namespace(kubectl, "peaceful"), make_namespace(kubectl, "hostile-team")
    removed(kubectl, "NaiadProfile")


def served(kubectl: Kubectl, name: str, namespace: str) -> None:
    kubectl.create(inference_service(name, namespace))
    kubectl.wait_for("Deployment", name, namespace)


def ordinary(operator: OperatorProcess) -> None:
    """It runs, and none of what it has read was a bug."""
    operator.check()
    assert not [line for line in operator.lines() if line["level"] in {"error", "critical"}]


def test_an_ordinary_service_is_served_beside_hostile_objects_of_every_kind(
    kubectl: Kubectl, start: Start, teams: tuple[str, str]
) -> None:
    """At its usual cost while the operator watches, and after a start that finds them; what concerns the hostile tenant's service is said there."""
    mine, theirs = teams
    options = f"--watch-namespaces={mine},{theirs}"
    operator = start(options).wait_ready()
    served(kubectl, "first", mine)

    def cost(name: str) -> float:
        before = operator.cpu_ms()
        served(kubectl, name, mine)
        return operator.cpu_ms() - before

    alone = [cost(f"alone-{number}") for number in range(_ROUNDS)]
    taken = attack(kubectl, theirs)
    assert {*_SPECS, "Event", "Namespace", "NaiadProfile"} <= taken.keys()
    until("a look at all", lambda: said(kubectl, theirs))
    until(
        "conditions", lambda: is_true(kubectl.get("InferenceService", WAITING, theirs), "SpecValid")
    )
    until("no backlog", lambda: operator.metric("naiad_operator_queue_depth") == 0)
    beside = [cost(f"beside-{number}") for number in range(_ROUNDS)]
    assert usual(beside) <= 1.5 * usual(alone), (alone, beside)
    assert operator.metric('naiad_operator_unreadable_objects_total{resource="pods"}') > 0
    ordinary(operator)
    assert operator.stop() == 0
    with start(options).wait_ready() as again:
        served(kubectl, "after", mine)
        ordinary(again)


def usual(costs: list[float]) -> float:
    """What a service costs, without what the operator does beside it now and then: the more, the longer a busy machine takes."""
    return sorted(costs)[1]


def said(kubectl: Kubectl, namespace: str) -> bool:
    """Whether the victim's condition names the objects that keep it from being reconciled."""
    shown = condition(kubectl.get("InferenceService", VICTIM, namespace), "SpecValid")
    return "the operator cannot read this object" in shown.get("message", "")


_WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)
_TIMES = st.sampled_from([_YEAR_0, "0001-01-01T00:00:01Z", "9999-12-31T23:59:59Z", "2026-02-29T00:00:00Z", None])  # fmt: skip
_COUNTS = st.integers(-(2**31), 2**31 - 1)
_ANNOTATIONS = st.dictionaries(
    st.sampled_from(["serving.naiad.dev/applied", "serving.naiad.dev/template", "a", "b"]),
    _WORDS | st.sampled_from(list(_TEXTS.values())),
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
        "message": _WORDS | st.sampled_from(["Failed to schedule pod, ", ": : ,", _COMMAS]),
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
    served(kubectl, VICTIM, theirs)
    return operator, mine, theirs


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    pods=st.lists(st.tuples(_ANNOTATIONS, _POD_STATUS, st.lists(_EVENT, max_size=3)), min_size=2, max_size=4),
    others=st.lists(st.tuples(st.sampled_from(list(_SPECS)), _ANNOTATIONS), max_size=4),
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
    served(kubectl, f"ordinary-{next(_numbers)}", mine)
    until("a look at both", lambda: operator.looks() >= before + 2)
    until("no backlog", lambda: operator.metric("naiad_operator_queue_depth") == 0)
    ordinary(operator)
    shown = condition(kubectl.get("InferenceService", VICTIM, theirs), "SpecValid")
    assert "OperatorError" not in shown["reason"]
    for each in made:
        metadata = each["metadata"]
        path = path_of(each["kind"], metadata["namespace"], metadata["name"])
        kubectl.request("DELETE", path, body={"gracePeriodSeconds": 0})
