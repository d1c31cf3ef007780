"""KServe's transformer and explainer as those of a service. Pure.

Both are the spec of a pod with further fields. What the field of a service has, is moved there; the rest of the container and of the pod becomes podTemplate.
"""

import dataclasses
import itertools
import typing

from naiad_operator.api.manifests.unvalidated import Fields, entries, part, texts
from naiad_operator.convert import workload
from naiad_operator.convert.draft import left
from naiad_operator.convert.kserve import component_files, stores
from naiad_operator.convert.kserve.secrets import Manifests
from naiad_operator.errors import Problem

NAMES = ("transformer", "explainer")
_CONTAINER = "kserve-container"
_COLLOCATED = "transformer-container"
"""KServe's name of a transformer in the predictor's pod."""
_HOST_OPTION = "--predictor_host"
_OWN_POD = ("localhost", "127.0.0.1")
_SAME = ("command", "args", "env", "envFrom", "resources")
_OF_POD = (
    "affinity", "imagePullSecrets", "nodeSelector", "priorityClassName", "runtimeClassName", "serviceAccountName", "tolerations",
    "automountServiceAccountToken", "terminationGracePeriodSeconds",
)  # fmt: skip
_TEMPLATE_OF_CONTAINER = ("imagePullPolicy", "lifecycle", "livenessProbe", "securityContext", "startupProbe", "volumeMounts", "workingDir", "volumeDevices")  # fmt: skip
_TEMPLATE_OF_POD = ("dnsConfig", "dnsPolicy", "hostAliases", "initContainers", "schedulerName", "securityContext", "topologySpreadConstraints", "volumes")  # fmt: skip
_PORT, _LEAST_PORT = 8080, 1024
_CPU_PERCENT = 80
"""KServe's own default."""
_GRPC = "grpc-v2"
"""The protocol on another port than the others; which one the program speaks on that of HTTP, its arguments say, or its own default."""
_PROTOCOL_OPTIONS = ("--predictor_protocol", "--protocol")
"""The second one is its name before KServe 0.11."""
_NO_COUNTERPART = "there is no such field in Naiad: leave it out, or write it in podTemplate when it is a field of pods"
_ADVICE = {
    "batcher": "the server batches itself: write dynamic_batching in config.pbtxt",
    "containerConcurrency": "the program limits itself how many requests it takes",
    "logger": "write mirror, or log in the program",
    "parallelism": "the program limits itself how many requests it takes",
    "timeout": "write spec.ingress.readTimeoutSeconds or spec.gateway.requestTimeoutSeconds",
    "canaryTrafficPercent": "a component has no canary",
}


def convert(
    spec: Fields,
    protocol: str,
    namespace: str,
    manifests: Manifests,
    advice: typing.Mapping[str, str],
) -> tuple[Fields, list[Problem]]:
    """The fields transformer and explainer of a service, taken out of KServe's spec, and what did not fit.

    Args:
        spec: KServe's spec, which is changed.
        protocol: the protocol of the predictor; "" when it does not say it.
        namespace: the namespace of the service.
        manifests: those of the same files, among them Secrets.
        advice: by a field's name, what to do instead.
    """
    made: Fields = {}
    notes: list[Problem] = []
    for name in NAMES:
        given = spec.pop(name, None)
        if given is None:
            continue
        path = f"spec.{name}"
        rest = part(given)
        container, field, others = _container(rest)
        if not container.get("image"):
            known = ", ".join(sorted(rest)) or "nothing"
            message = f"not converted: it has {known}, and no container with an image of its own: write the image that it runs in {path}.image"
            notes.append(Problem(path, message, blocks=True))
            continue
        component = _component(rest, container)
        if (_own_protocol(component) or protocol) == _GRPC:
            component["protocol"] = _GRPC
        notes += _ports(container, component, path, field)
        notes += _host(component, f"{path}.{field}")
        account = stores.Account(component.get("serviceAccountName"), namespace, manifests)
        notes += component_files.convert(rest, component, account, path, field)
        template = _template(rest, container, component, others)
        if template:
            component["podTemplate"] = {"spec": template}
        notes += _scaling(rest, component, path)
        container.pop("name", None)
        notes += left(container, f"{path}.{field}", _ADVICE, _NO_COUNTERPART)
        notes += left(rest, path, {**advice, **_ADVICE}, _NO_COUNTERPART)
        made[name] = component
    return made, notes


def part_from_predictor(spec: Fields) -> int | None:
    """Makes the transformer of KServe's that is in the predictor's pod one of its own.

    Args:
        spec: KServe's spec, which is changed.

    Returns:
        Its place among the predictor's containers; None where there is none.
    """
    containers = entries(part(spec, "predictor"), "containers")
    found = [one for one in containers if one.get("name") == _COLLOCATED]
    if not found or "transformer" in spec:
        return None
    transformer = found[0]
    index = containers.index(transformer)
    part(spec, "predictor")["containers"] = [one for one in containers if one is not transformer]
    for field in ("command", "args"):
        if words := texts(transformer, field):
            transformer[field] = [*_without_own_pod(words)]
    spec["transformer"] = {"containers": [transformer]}
    return index


def parted(note: Problem, index: int) -> Problem:
    """A note on a transformer that was at this place among the predictor's containers, with the path that its field has in the manifest; others as they are."""
    before, found, after = note.path.partition("spec.transformer.containers[0]")
    place = f"spec.predictor.containers[{index}]"
    if found and not before:
        return dataclasses.replace(note, path=place + after)
    return note


def _without_own_pod(words: list[str]) -> typing.Iterator[str]:
    """Words without the address of the predictor in the same pod."""
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option != _HOST_OPTION:
            yield word
        elif not equals:
            value = next(rest, "")
            if value.partition(":")[0] not in _OWN_POD:
                yield from (word, value)
        elif value.partition(":")[0] not in _OWN_POD:
            yield word


def _container(component: Fields) -> tuple[Fields, str, list[Fields]]:
    """The container that takes the requests, its field, and the others, taken out of the component."""
    custom = part(component, "custom", "container")  # of v1alpha2
    if custom:
        del component["custom"]
        return custom, "custom.container", []
    containers = entries(component, "containers")
    component.pop("containers", None)
    found = [one for one in containers if one.get("name") == _CONTAINER] or containers
    if not found:
        return {}, "containers", []
    field = f"containers[{containers.index(found[0])}]"
    return found[0], field, [one for one in containers if one is not found[0]]


def _component(rest: Fields, container: Fields) -> Fields:
    component: Fields = {"image": container.pop("image")}
    workload.drop_defaults(container)
    workload.drop_defaults(rest)
    for field in _SAME:
        if container.get(field):
            component[field] = container.pop(field)
    for field in _OF_POD:
        if rest.get(field) not in (None, [], {}):
            component[field] = rest.pop(field)
    return component


def _ports(container: Fields, component: Fields, path: str, field: str) -> typing.Iterator[Problem]:
    ports = entries(container, "ports")
    container.pop("ports", None)
    number = ports[0].get("containerPort") if ports else None
    if isinstance(number, int) and number != _PORT:
        if number >= _LEAST_PORT:
            component["port"] = number
        else:
            message = f"left out: {number}: pods run as another user than root here, so that the program listens on --http_port=8080: write another port of 1024 or more in {path}.port"
            yield Problem(f"{path}.{field}.ports", message)
    for index, other in enumerate(ports[1:], 1):
        message = f"left out: {other.get('containerPort')}: clients reach one port, that of HTTP"
        yield Problem(f"{path}.{field}.ports[{index}]", message)
    probe = part(container, "readinessProbe")
    asked = part(probe, "httpGet").get("path")
    if isinstance(asked, str) and asked.startswith("/"):
        component["healthPath"] = asked
        del container["readinessProbe"]
    elif "tcpSocket" in probe or not probe:
        container.pop("readinessProbe", None)


def _host(component: Fields, path: str) -> typing.Iterator[Problem]:
    """Words that name KServe's own Service of the predictor."""
    for field in ("command", "args"):
        for index, one in enumerate(texts(component, field)):
            if one.startswith(_HOST_OPTION):
                message = "names the Service of KServe's predictor: leave it out with its value, the operator adds the one of the servers"
                yield Problem(f"{path}.{field}[{index}]", message, blocks=True)


def _own_protocol(component: Fields) -> str:
    """The protocol to the predictor that the program's own words name; "" for none."""
    words = [*texts(component, "command"), *texts(component, "args"), ""]
    for word, following in itertools.pairwise(words):
        option, equals, value = word.partition("=")
        if option in _PROTOCOL_OPTIONS:
            return value if equals else following
    return ""


def _template(rest: Fields, container: Fields, component: Fields, others: list[Fields]) -> Fields:
    """podTemplate.spec of a component."""
    of_container = {
        field: container.pop(field) for field in (*_TEMPLATE_OF_CONTAINER, "readinessProbe") if container.get(field)
    }  # fmt: skip
    template = {field: rest.pop(field) for field in _TEMPLATE_OF_POD if rest.get(field)}
    containers = [{"name": "server", **of_container}] if of_container else []
    if containers or others:
        template["containers"] = [*containers, *others]
    return template


def _scaling(rest: Fields, component: Fields, path: str) -> typing.Iterator[Problem]:
    """The number of pods: KServe adds an autoscaler by CPU where the most is more than the least."""
    least = rest.pop("minReplicas", None)
    most = rest.pop("maxReplicas", None)
    metric, target = rest.pop("scaleMetric", None), rest.pop("scaleTarget", None)
    rest.pop("scaleMetricType", None)
    least = least if isinstance(least, int) else 1
    if least == 0:
        yield Problem(f"{path}.minReplicas", "is 0, which a component cannot have: 1 is written")
    least = max(least, 1)
    if metric not in (None, "cpu"):
        message = f"left out: {metric}: a component is scaled by cpu: write autoscaling.cpuPercent"
        yield Problem(f"{path}.scaleMetric", message)
    if isinstance(most, int) and most > least:
        percent = target if isinstance(target, int) and metric in (None, "cpu") else _CPU_PERCENT
        component["autoscaling"] = {
            "minReplicas": least,
            "maxReplicas": most,
            "cpuPercent": percent,
        }
    else:
        component["replicas"] = least
