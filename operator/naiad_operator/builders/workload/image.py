"""Chooses the image of a service and the version of the server in it.

The image is the service's own, or the operator's default, which is kept until the pods change anyway. The version decides which options
the operator may write: a new operator must not start an old server with an option that it does not know.
"""

import collections.abc
import functools
import hashlib
import typing

import msgspec

from naiad_operator import versions
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.structs import Part
from naiad_operator.builders import server
from naiad_operator.builders.facts import Defaults

_NON_POD_FIELDS = frozenset(
    ("replicas", "autoscaling", "deployment_strategy", "pod_disruption_budget")
)
"""Fields of the predictor that do not affect a pod: a change of them must not cause a new image."""
_NON_POD_PARTS = frozenset(
    (
        "predictor", "suspend", "service", "ingress", "gateway", "path_prefix", "canary", "mirror", "transformer", "explainer",
        "network_policy", "monitoring",
    )
)  # fmt: skip
"""Fields of the spec that do not affect a pod, and those that are hashed by themselves."""
_SERVER_NAME = "naiad"


class Server(typing.NamedTuple):
    """An image, and the version of the server in it."""

    image: str
    version: versions.Version


class Recorded(typing.NamedTuple):
    """What the present pods were made from.

    Attributes:
        image: their image.
        pods: the `pods_hash` of the spec that they were made from.
        version: the server's version for which they were rendered; None when it was not recorded.
        requests: their default requests, as `requests.write` writes them.
    """

    image: str
    pods: str
    version: versions.Version | None = None
    requests: str = ""


def resolve(
    service: InferenceService,
    defaults: Defaults,
    recorded: Recorded | None = None,
    running: versions.Version | None = None,
) -> Server:
    """The image and the server's version.

    The version is predictor.serverVersion, else the image's tag. When neither says it, it stays what it was for these pods, since another
    one could replace them; for new pods it is what a running pod of this image reports, else the oldest version that is supported. A
    default image that is chosen now was released with this operator.

    Args:
        service: the service.
        defaults: the operator's defaults.
        recorded: what the present pods were made from; None when there are none.
        running: the version that a running pod reports; None when none does.
    """
    predictor = service.spec.predictor
    unchanged = recorded is not None and recorded.pods == pods_hash(service)
    kept = recorded.image if recorded is not None and unchanged else ""
    image = predictor.image or kept or defaults.image
    said = stated_version(image, predictor.server_version or "", defaults)
    if said is not None:
        return Server(image, said)
    if recorded is not None and recorded.image == image:
        if unchanged and recorded.version is not None:
            return Server(image, recorded.version)
        return Server(image, running or recorded.version or server.OLDEST_VERSION)
    return Server(image, server.OLDEST_VERSION if predictor.image else versions.OWN)


def stated_version(image: str, server_version: str, defaults: Defaults) -> versions.Version | None:
    """The version that predictor.serverVersion, else the image's tag says; None when neither does."""
    return versions.parse(server_version) or _of_tag(image, defaults)


def recorded_in_status(service: InferenceService) -> Recorded | None:
    """What the status says of the present pods; None when it says nothing."""
    image: collections.abc.Mapping[str, typing.Any] = service.status.get("image") or {}
    if not image.get("name"):
        return None
    pods = str(image.get("forPods") or "")
    if pods == _hash(_predictor(service)):  # operator 0.1.0 hashed nothing else
        pods = pods_hash(service)
    return Recorded(str(image["name"]), pods, versions.parse(str(image.get("serverVersion") or "")))


def _of_tag(image: str, defaults: Defaults) -> versions.Version | None:
    """The version that an image's tag says; None when it says none, or when the image may have versions of its own."""
    repository, tag = _split(image)
    name = repository.rpartition("/")[2]
    if _SERVER_NAME not in name and repository != _split(defaults.image)[0]:
        return None
    return versions.parse(tag)


def _split(image: str) -> tuple[str, str]:
    """The repository and the tag of an image; "" without a tag."""
    folder, slash, last = image.partition("@")[0].rpartition("/")
    name, _, tag = last.partition(":")
    return f"{folder}{slash}{name}", tag


def pods_hash(service: InferenceService) -> str:
    """A hash of the user's fields from which the pods are made; those of a profile are the administrator's, and do not count.

    Only fields that differ from their defaults count, so that a release with a new field does not change the image of services that
    do not set it.
    """
    spec = service.own_spec
    parts = _non_defaults(spec, _NON_POD_PARTS)
    if spec.path_prefix is not None and spec.gateway is None:
        parts["path_prefix"] = spec.path_prefix  # a Gateway removes it, else the server does
    if service.component:
        parts["component"] = _non_defaults(getattr(spec, service.component_field), _NON_POD_FIELDS)
    return _hash({**_predictor(service), **({"spec": parts} if parts else {})})


def _predictor(service: InferenceService) -> dict[str, typing.Any]:
    return _non_defaults(service.own_spec.predictor, _NON_POD_FIELDS)


def _hash(fields: dict[str, typing.Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()[:16]


def _non_defaults(part: Part, without: frozenset[str] = frozenset()) -> dict[str, typing.Any]:
    """The fields that differ from their defaults."""
    return {
        name: _plain(value)
        for name, default in _defaults(type(part))
        if name not in without and (value := getattr(part, name)) != default
    }


@functools.cache
def _defaults(part: type[Part]) -> tuple[tuple[str, typing.Any], ...]:
    """The fields of a part with their defaults: to look at a type takes longer than at a value."""
    return tuple((field.name, field.default) for field in msgspec.structs.fields(part))


def _plain(value: typing.Any) -> typing.Any:
    if isinstance(value, Part):
        return _non_defaults(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
