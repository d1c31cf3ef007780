"""More objects with the operator's labels than it keeps, and children that are too large to be kept whole, in a real API server."""

import collections.abc
import random
import string

from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.hostile_objects import child, written
from tests.apiserver.objects import deployed, inference_service, make_namespace
from tests.apiserver.operator import OperatorProcess, at_rest

Start = collections.abc.Callable[..., OperatorProcess]
_KEPT = 64
_MANY = 100


def test_of_objects_that_are_too_many_the_rest_is_left_out_and_counted(
    kubectl: Kubectl, start: Start
) -> None:
    """While the operator watches, and after a start that finds them. The service that they name gets its children, too."""
    mine, theirs = make_namespace(kubectl, "few"), make_namespace(kubectl, "many")
    options = f"--watch-namespaces={mine},{theirs}"
    operator = start(options).wait_ready()
    metric = f'naiad_operator_objects_left_out{{object_namespace="{theirs}"}}'
    made = written(kubectl, *(child("NetworkPolicy", theirs, of="flooded") for _ in range(_MANY)))
    assert len(made) == _MANY
    until("the rest to be counted", lambda: operator.metric(metric) == _MANY - _KEPT)
    deployed(kubectl, "flooded", theirs)
    deployed(kubectl, "beside", mine)
    assert any("is left out" in line["message"] for line in operator.lines())
    assert operator.stop() == 0
    with start(options).wait_ready() as again:
        assert again.metric(metric) == _MANY - _KEPT
        deployed(kubectl, "after", mine)
        for each in made:
            kubectl.delete("NetworkPolicy", each["metadata"]["name"], theirs)
        until("none to be left out", lambda: again.metric(metric) == 0)


def test_a_large_child_is_read_when_it_is_needed_and_not_written_again(
    plane: ControlPlane, kubectl: Kubectl, start: Start
) -> None:
    namespace = make_namespace(kubectl, "large-child")
    text = "".join(random.Random(1).choices(string.printable, k=150_000))
    large: Object = {"metadata": {"annotations": {"example.com/text": text}}}
    first = start(f"--watch-namespaces={namespace}").wait_ready()
    kubectl.create(inference_service("large", namespace, podTemplate=large))
    kubectl.wait_for("Deployment", "large", namespace)
    before = at_rest(plane, first)
    assert first.stop() == 0
    second = start(f"--watch-namespaces={namespace}").wait_ready()
    assert at_rest(plane, second) == before, "a start writes nothing"
    kubectl.patch("Deployment", "large", namespace, body={"spec": {"replicas": 3}}, subresource="scale")  # fmt: skip
    until(
        "the drift to be put back",
        lambda: kubectl.get("Deployment", "large", namespace)["spec"]["replicas"] == 1,
    )
