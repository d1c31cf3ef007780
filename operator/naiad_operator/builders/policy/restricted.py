"""The table of what a pod may not have where podTemplate is Restricted.

It is the level "restricted" of Kubernetes' Pod Security Standards, and beyond it what gives a pod rights that its service does not name: a node, another
ServiceAccount or its token, Secrets, priority and runtime classes. A patch may not add anything of it to the pod that the operator and the profile make.
"""

import collections.abc
import typing

from naiad_operator.api.manifests.unvalidated import entries, part, texts
from naiad_operator.builders import server

Object = dict[str, typing.Any]


class Found(typing.NamedTuple):
    """Something in a pod template that is not allowed.

    Attributes:
        path: where, the entries of lists by their names: ("spec", "containers", "[server]", "securityContext", "privileged").
        value: what is there.
    """

    path: tuple[str, ...]
    value: str


Allowed = collections.abc.Mapping[Found, str]
"""What was found, with what to write instead."""

_OUT = "leave it out"


class _Rule(typing.NamedTuple):
    """A field and the values that it may have.

    Attributes:
        path: relative to the pod's spec or to a container.
        allows: whether a value is allowed; None is a field that is not there.
        advice: what to write instead.
        inherits: of a container: whether the pod's field counts where the container has none.
    """

    path: tuple[str, ...]
    allows: collections.abc.Callable[[typing.Any], bool]
    advice: str = _OUT
    inherits: bool = False


class _Rules:
    """Rules by the first field of their path: pods and containers have few of the fields, and what is absent is mostly allowed."""

    def __init__(self, *rules: _Rule) -> None:
        self.fields = tuple({rule.path[0]: None for rule in rules})
        self._always = tuple(rule for rule in rules if rule.inherits or not rule.allows(None))
        self._by_field = {
            field: tuple(rule for rule in rules if rule.path[0] == field and rule not in self._always)
            for field in self.fields
        }  # fmt: skip

    def of(self, value: Object) -> collections.abc.Iterator[_Rule]:
        """The rules that a pod or container may break."""
        yield from self._always
        for field, rules in self._by_field.items():
            if field in value:
                below = value[field]
                for rule in rules:
                    if len(rule.path) == 1 or (isinstance(below, dict) and rule.path[1] in below):
                        yield rule


def _one_of(*values: typing.Any) -> collections.abc.Callable[[typing.Any], bool]:
    return values.__contains__


_UNSET = _one_of(None, "")
_SELINUX_TYPES = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP = ("RuntimeDefault", "Localhost")
_CAPABILITY = "NET_BIND_SERVICE"
_VOLUMES = frozenset(
    ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret")
)  # fmt: skip
_KNOWN = _VOLUMES | {"name"}
_PLAIN = _KNOWN - {"csi", "projected", "secret"}
"""The fields of volumes with nothing of the table in them."""
_SYSCTLS = frozenset(
    (
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
    )
)  # fmt: skip

_BOTH = (
    _Rule(("securityContext", "windowsOptions", "hostProcess"), _one_of(None, False)),
    _Rule(("securityContext", "seLinuxOptions", "type"), _one_of(None, "", *_SELINUX_TYPES)),
    _Rule(("securityContext", "seLinuxOptions", "user"), _UNSET),
    _Rule(("securityContext", "seLinuxOptions", "role"), _UNSET),
    _Rule(("securityContext", "runAsUser"), lambda value: value is None or (isinstance(value, int) and value != 0), "write a user other than 0"),
    _Rule(("securityContext", "appArmorProfile", "type"), _one_of(None, *_SECCOMP), f"write one of {', '.join(_SECCOMP)}"),
    _Rule(("securityContext", "seccompProfile", "type"), _one_of(None, *_SECCOMP), f"write one of {', '.join(_SECCOMP)}"),
)  # fmt: skip
"""Fields of a pod and of a container."""

_POD = _Rules(
    *(_Rule((field,), _one_of(None, False)) for field in ("hostNetwork", "hostPID", "hostIPC")),
    *_BOTH,
)

_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_HANDLERS = (*((probe,) for probe in _PROBES), ("lifecycle", "postStart"), ("lifecycle", "preStop"))

_CONTAINER = _Rules(
    *_BOTH,
    _Rule(("securityContext", "privileged"), _one_of(None, False)),
    _Rule(("securityContext", "procMount"), _one_of(None, "", "Default")),
    _Rule(("securityContext", "allowPrivilegeEscalation"), lambda value: value is False, "write false"),
    _Rule(("securityContext", "runAsNonRoot"), lambda value: value is True, "write true", inherits=True),
    _Rule(("securityContext", "seccompProfile", "type"), _one_of(*_SECCOMP), f"write one of {', '.join(_SECCOMP)}", inherits=True),
    *(_Rule((*at, call, "host"), _UNSET) for at in _HANDLERS for call in ("httpGet", "tcpSocket")),
)  # fmt: skip

_LISTS = ("ports", "volumeMounts", "env", "envFrom")
"""Its lists with something of the table."""

_NAMED_BY_THE_SERVICE = {
    "nodeName": "leave it out: the scheduler chooses the node, predictor.nodeSelector and affinity say which ones it may be",
    "serviceAccountName": "leave it out, or write predictor.serviceAccountName",
    "serviceAccount": "leave it out, or write predictor.serviceAccountName",
    "automountServiceAccountToken": "leave it out, or write predictor.automountServiceAccountToken",
    "priorityClassName": "leave it out, or write predictor.priorityClassName",
    "priority": _OUT,
    "runtimeClassName": "leave it out, or write predictor.runtimeClassName",
    "schedulerName": _OUT,
}
"""Fields that a patch may not change: beyond Pod Security. What they have is compared as a whole."""

_OF_POD = (
    *_NAMED_BY_THE_SERVICE, *_POD.fields, "imagePullSecrets",
)  # fmt: skip
"""The fields of a pod's spec with something of the table, beside its containers and volumes."""

_SECRET = (
    "leave it out: only Secrets that other fields of the service or its profile name may be used"  # noqa: S105 - a message
)


def added(before: Object, after: Object) -> Allowed:
    """What a patch adds to a pod template that it may not add.

    Args:
        before: the pod template as the operator and the profile make it.
        after: the same with the patch.
    """
    if _is_clean(before, after):
        return {}
    return compared(before, after)


def compared(before: Object, after: Object) -> Allowed:
    """`added` for any patch: compares everything that is not allowed on both sides."""
    known = _found(before).keys() - _of_changed(before, after)
    secrets = {one.value for one in known if one.path[-1] == _SECRET_NAME}
    return {
        one: advice
        for one, advice in _found(after).items()
        if one not in known and not (one.path[-1] == _SECRET_NAME and one.value in secrets)
    }


def annotations(given: Object, path: tuple[str, ...] = ()) -> dict[Found, str]:
    """Annotations of a pod that take AppArmor away."""
    return {
        Found((*path, f"[{key}]"), repr(value)): _OUT
        for key, value in given.items()
        if str(key).startswith(_APPARMOR_ANNOTATION)
        and value != "runtime/default"
        and not str(value).startswith("localhost/")
    }


def _of_changed(before: Object, after: Object) -> set[Found]:
    """What the profile's own containers have and a patch that changes one would make its own, e.g. a privileged agent with another command.

    Not the server's: its service runs what it wants in it without a patch.
    """
    pod = part(before, "spec")
    changed: set[Found] = set()
    for kind in _CONTAINERS:
        kept = entries(part(after, "spec"), kind)
        for container in entries(pod, kind):
            if container.get("name") != server.CONTAINER and container not in kept:
                changed |= _of_container(container, pod, _path_of(kind, container)).keys()
    return changed


def _is_clean(before: Object, after: Object) -> bool:
    """Whether nothing that a patch adds or changes is of the table: then it adds nothing of it, whatever else the pods have.

    Most patches are clean, and what they leave as it was need not be looked at.
    """
    was, now = part(before, "spec"), part(after, "spec")
    if _differ(was, now, _OF_POD):
        return False
    if annotations(_new(part(before, "metadata", "annotations"), part(after, "metadata", "annotations"))):  # fmt: skip
        return False
    if was.get("volumes") is not now.get("volumes"):
        known = entries(was, "volumes")
        for volume in entries(now, "volumes"):
            if volume not in known and _of_volume(volume, ()):
                return False
        if _platform_volumes(was) != _platform_volumes(now):
            return False
    return not any(
        _of_changed_container(entries(was, kind), one, now)
        for kind in _CONTAINERS
        if was.get(kind) is not now.get(kind)
        for one in entries(now, kind)
    )


def _of_changed_container(before: list[Object], container: Object, pod: Object) -> dict[Found, str]:
    """What is found in a container that a patch has changed or added; of the server's, in the entries that it did not have before."""
    name = container.get("name")
    was: Object = {}
    for one in before:
        if one is container:
            return {}
        if not was and one.get("name") == name:
            was = one
    if not was or name != server.CONTAINER or _differ(was, container, _CONTAINER.fields):
        return {} if container in before else _of_container(container, pod, ())
    new = {}
    for field in _LISTS:
        if container.get(field) is not was.get(field):
            known = entries(was, field)
            new[field] = [one for one in entries(container, field) if one not in known]
    return _of_lists(new, pod, ()) if new else {}


def _differ(before: Object, after: Object, fields: tuple[str, ...]) -> bool:
    """Whether one of these fields has changed. What a patch has left is the same object."""
    for field in fields:
        was, now = before.get(field), after.get(field)
        if was is not now and was != now:
            return True
    return False


def _new(before: Object, after: Object) -> Object:
    return {key: value for key, value in after.items() if before.get(key) != value}


_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")

_SECRET_NAME = "a Secret"  # noqa: S105 - a mark at the end of a path
"""The end of paths that are compared by the Secret's name alone: a Secret that is named elsewhere is the service's already."""


def _found(template: Object) -> dict[Found, str]:
    spec = part(template, "spec")
    found = annotations(part(template, "metadata", "annotations"), ("metadata", "annotations"))
    for field, advice in _NAMED_BY_THE_SERVICE.items():
        # Also one that was taken away: without automountServiceAccountToken the pods get a token.
        found[Found(("spec", field), repr(spec.get(field)))] = advice
    found |= _broken(_POD, spec, ("spec",), {})
    for entry in entries(part(spec, "securityContext"), "sysctls"):
        if str(entry.get("name")) not in _SYSCTLS:
            found[Found(("spec", "securityContext", "sysctls"), repr(entry.get("name")))] = _OUT
    for kind in _CONTAINERS:
        for container in entries(spec, kind):
            found |= _of_container(container, spec, _path_of(kind, container))
    for volume in entries(spec, "volumes"):
        found |= _of_volume(volume, ("spec", "volumes", f"[{volume.get('name')}]"))
    for entry in entries(spec, "imagePullSecrets"):
        found |= _secret(entry.get("name"), ("spec", "imagePullSecrets"))
    return found


def _path_of(kind: str, container: Object) -> tuple[str, ...]:
    return ("spec", kind, f"[{container.get('name')}]")


def _broken(rules: _Rules, value: Object, path: tuple[str, ...], pod: Object) -> dict[Found, str]:
    found = {}
    for rule in rules.of(value):
        given = _at(value, rule.path)
        if given is None and rule.inherits:
            given = _at(pod, rule.path)
        if not rule.allows(given):
            found[Found((*path, *rule.path), repr(given))] = rule.advice
    return found


def _at(value: typing.Any, path: tuple[str, ...]) -> typing.Any:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _of_container(container: Object, pod: Object, path: tuple[str, ...]) -> dict[Found, str]:
    found = _broken(_CONTAINER, container, path, pod)
    capabilities = part(container, "securityContext", "capabilities")
    where = (*path, "securityContext", "capabilities")
    if "ALL" not in texts(capabilities, "drop"):
        found[Found((*where, "drop"), repr(capabilities.get("drop")))] = "write [ALL]"
    for one in texts(capabilities, "add"):
        if one != _CAPABILITY:
            found[Found((*where, "add"), repr(one))] = f"add at most {_CAPABILITY}"
    return found | _of_lists(container, pod, path)


def _of_lists(container: Object, pod: Object, path: tuple[str, ...]) -> dict[Found, str]:
    """What is found in the lists of a container."""
    found = {}
    for port in entries(container, "ports"):
        if port.get("hostPort") not in (None, 0):
            found[Found((*path, "ports", "hostPort"), repr(port["hostPort"]))] = _OUT
    return found | _of_mounts(container, pod, path) | _of_variables(container, path)


def _of_mounts(container: Object, pod: Object, path: tuple[str, ...]) -> dict[Found, str]:
    """Mounts of volumes that only the platform may have: the profile may have given the volume to another container."""
    found = {}
    mounts = entries(container, "volumeMounts")
    ours = _platform_volumes(pod) if mounts else []
    for mount in mounts:
        if any(mount.get("name") == one.get("name") for one in ours):
            found[Found((*path, "volumeMounts"), repr(mount))] = _OUT
    return found


def _platform_volumes(pod: Object) -> list[Object]:
    return [one for one in entries(pod, "volumes") if not one.keys() <= _KNOWN]


def _of_variables(container: Object, path: tuple[str, ...]) -> dict[Found, str]:
    found: dict[Found, str] = {}
    for variable in entries(container, "env"):
        reference = part(variable, "valueFrom", "secretKeyRef") if "valueFrom" in variable else None
        if reference:
            found |= _secret(reference.get("name"), (*path, "env", f"[{variable.get('name')}]"))
    for source in entries(container, "envFrom"):
        if "secretRef" in source:
            found |= _secret(part(source, "secretRef").get("name"), (*path, "envFrom"))
    return found


def _of_volume(volume: Object, path: tuple[str, ...]) -> dict[Found, str]:
    found: dict[Found, str] = {}
    if volume.keys() <= _PLAIN:
        return found
    for source in sorted(volume.keys() - _KNOWN):
        advice = f"write one of {', '.join(sorted(_VOLUMES))}"
        found[Found((*path, source), repr(volume[source]))] = advice
    if "secret" in volume:
        found |= _secret(part(volume, "secret").get("secretName"), (*path, "secret"))
    reference = part(volume, "csi", "nodePublishSecretRef")
    if reference:
        found |= _secret(reference.get("name"), (*path, "csi"))
    for projected in entries(part(volume, "projected"), "sources"):
        where = (*path, "projected", "sources")
        if "secret" in projected:
            found |= _secret(part(projected, "secret").get("name"), where)
        for token in ("serviceAccountToken", "clusterTrustBundle", "podCertificate"):
            if token in projected:
                found[Found((*where, token), repr(projected[token]))] = _OUT
    return found


def _secret(name: typing.Any, path: tuple[str, ...]) -> dict[Found, str]:
    return {Found((*path, _SECRET_NAME), f"the Secret {name}"): _SECRET}
