"""Example resources of the operator's tests and the facts they are built from."""

import functools
import pathlib
import typing

from naiad_operator.api import names
from naiad_operator.api.parsing import service
from naiad_operator.builders import build, kinds
from naiad_operator.builders.facts import CanaryFacts, ClusterFacts, Defaults, ScaleUp
from tests.support import fast_yaml

DATA = pathlib.Path(__file__).parent.parent / "data" / "operator"
INPUTS = sorted((DATA / "input").glob("*.yaml"))

DEFAULTS = Defaults(
    image="registry.example.com/naiad-server:0.2.0",
    prometheus_address="http://prometheus.monitoring:9090",
    operator_namespace="naiad-system",
    prometheus_namespace="monitoring",
    ingress_namespace="ingress",
)
EVERY_API = kinds.keys()

Manifest = dict[str, typing.Any]


def resource(**predictor: typing.Any) -> Manifest:
    """A resource that serves from S3, with further fields of its predictor."""
    return {
        "apiVersion": "serving.naiad.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "demo", "namespace": "models", "uid": "uid-1", "generation": 3},
        "spec": {"predictor": {"model": {"storageUri": "s3://models/production"}, **predictor}},
    }


def facts(
    *,
    missing: typing.Iterable[str] = (),
    current_replicas: int | None = None,
    node_resources: dict[str, int] | None = None,
    canary: CanaryFacts | None = None,
    scale_ups: typing.Mapping[str, ScaleUp] | None = None,
) -> ClusterFacts:
    """A cluster that has every optional kind but the missing ones."""
    return ClusterFacts(
        apis=EVERY_API - set(missing),
        image=DEFAULTS.image,
        defaults=DEFAULTS,
        node_resources=node_resources,
        current_replicas=current_replicas,
        canary=canary or CanaryFacts(),
        scale_ups=scale_ups or {},
    )


@functools.cache
def example(path: pathlib.Path) -> tuple[Manifest, ClusterFacts]:
    """A resource of the examples, and the facts that its file names beside it."""
    manifest, *beside = fast_yaml.read(path.read_text())
    said = beside[0].get("facts", {}) if beside else {}
    given = facts(
        missing=said.get("missing", ()),
        current_replicas=said.get("currentReplicas"),
        canary=CanaryFacts(serves=said.get("canaryServes", False)),
    )
    parsed = service.parse(manifest, profile(path))
    image = parsed.spec.predictor.image
    if image:
        given = ClusterFacts(
            apis=given.apis,
            image=image,
            defaults=DEFAULTS,
            current_replicas=given.current_replicas,
        )
    return manifest, given


@functools.cache
def profile(path: pathlib.Path) -> service.Profile | None:
    """The profile of an example, whose spec its file names beside it; None when it names none."""
    _, *beside = fast_yaml.read(path.read_text())
    if not beside or "profile" not in beside[0]:
        return None
    metadata = {"name": "platform"}
    manifest = {"apiVersion": names.API_VERSION, "kind": names.PROFILE_KIND, "metadata": metadata}
    return service.parse_profile({**manifest, "spec": beside[0]["profile"]})


def built(path: pathlib.Path) -> list[Manifest]:
    """The children of an example."""
    manifest, given = example(path)
    return build(service.parse(manifest, profile(path)), given)


def expected(path: pathlib.Path) -> pathlib.Path:
    """Where the children of an example are written down."""
    return DATA / "expected" / path.name


def reason(path: pathlib.Path) -> str:
    """Why there is this example: its first line."""
    return path.read_text().partition("\n")[0]
