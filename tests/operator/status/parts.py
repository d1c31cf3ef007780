"""Parts of what a cluster can show of a service, which several cases have."""

import datetime as dt
import typing

from naiad_operator.builders.facts import ScaleUp
from tests.support import manifests
from tests.support.observations import (
    ago,
    deployment,
)

Manifest = dict[str, typing.Any]

MIG = {"accelerator": {"type": "mig", "profile": "1g.10gb"}, "replicas": 2}
SINGLE = {"type": "mig", "profile": "1g.10gb", "strategy": "single"}
HPA = {"autoscaling": {"class": "hpa", "queueTimeMs": 5, "minReplicas": 2}}
KEDA = {"autoscaling": {"class": "keda", "queueTimeMs": 5}}
NO_NODE = "0/3 nodes are available: 3 Insufficient nvidia.com/mig-1g.10gb."
OTHER_LABELS = "node(s) didn't match Pod's node affinity/selector"
NOT_READY = {("Deployment", "demo"): deployment(ready=0)}
ONE_READY = {("Deployment", "demo"): deployment(ready=1)}


def scale_up(message: str, *, is_coming: bool) -> ScaleUp:
    """What cluster-autoscaler said two minutes ago."""
    time = dt.datetime.fromisoformat(ago(minutes=2))
    return ScaleUp(is_coming=is_coming, autoscaler="cluster-autoscaler", message=message, time=time)


VOLUMES: Manifest = {
    "template": {
        "spec": {
            "volumes": [
                {"name": "tmp", "emptyDir": {}},
                {"name": "auth", "secret": {"secretName": "tokens"}},
                {"name": "repository-0", "persistentVolumeClaim": {"claimName": "models"}},
            ]
        }
    }
}


def hpa(*conditions: Manifest) -> dict[tuple[str, str], Manifest]:
    return {("HorizontalPodAutoscaler", "demo"): {"status": {"conditions": list(conditions)}}}


def said(type_: str, value: str, reason: str, message: str = "") -> Manifest:
    return {"type": type_, "status": value, "reason": reason, "message": message}


def route(*parents: Manifest) -> dict[tuple[str, str], Manifest]:
    return {("HTTPRoute", "demo"): {"status": {"parents": list(parents)}}}


def spec(**fields: typing.Any) -> Manifest:
    manifest = manifests.resource(replicas=2)
    manifest["spec"].update(fields)
    return manifest


TOO_LONG = said("Progressing", "False", "ProgressDeadlineExceeded")
GATEWAY = spec(gateway={"parentRefs": [{"name": "public"}], "hostnames": ["demo.example.com"]})
