"""What a profile's policy costs in a reconcile: `python -m benchmarks.operator.policy_cost`.

A service at rest is reconciled by the operator's own reconciler, with an API server in memory that gives back what was applied. Measured is the processor time
of a reconcile, and in it that of the functions that a policy needs: which profile binds the namespace, fields that it enforces, hosts, and what a podTemplate
may have. Of many rounds the fastest counts, for each by itself: whatever else the machine does lengthens the others. The worst case has every field that can be
enforced and a podTemplate that changes much.
"""

import argparse
import asyncio
import collections.abc
import datetime as dt
import functools
import itertools
import time
import typing

from naiad_operator.api.parsing import binding
from naiad_operator.api.types.policy import Enforceable
from naiad_operator.builders import names
from naiad_operator.builders.facts import Defaults
from naiad_operator.builders.policy import refusals
from naiad_operator.cluster.child_store import ChildStore, Labels
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.reflector import WatchTimeouts
from naiad_operator.queue import Key
from naiad_operator.reconcile import reconciler
from naiad_operator.reconcile.lookups import model_poller, nodes_and_claims, scale_ups
from naiad_operator.reconcile.lookups.cluster_info import ClusterInfo
from naiad_operator.reconcile.stores import profile_store, service_store
from naiad_operator.status import ModelReport
from naiad_operator.status.observed import NOT_REPORTED
from naiad_operator.upgrade.scheduler import UpgradeScheduler

Object = dict[str, typing.Any]

KEY = Key("models", "demo")

_PATCH: Object = {
    "metadata": {"annotations": {"sidecar.istio.io/inject": "false"}},
    "spec": {
        "terminationGracePeriodSeconds": 90,
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "config", "configMap": {"name": "config"}}],
        "containers": [
            {"name": "server", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
            {
                "name": "sidecar",
                "image": "registry.example.com/sidecar:1",
                "env": [{"name": f"VARIABLE_{number}", "value": str(number)} for number in range(20)],
                "volumeMounts": [{"name": "config", "mountPath": "/config"}],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            },
        ],
    },
}  # fmt: skip

SERVICE: Object = {
    "apiVersion": "serving.naiad.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "demo", "namespace": "models", "uid": "uid-1", "generation": 3, "resourceVersion": "1"},
    "spec": {
        "predictor": {
            "model": {"storageUri": "s3://models/production"},
            "accelerator": {"type": "none"},
            "env": [{"name": "A", "value": "b"}],
            "args": ["--log-info=1"],
            "podTemplate": _PATCH,
        },
        "ingress": {"enabled": True, "className": "nginx", "host": "demo.models.example.com"},
        "labels": {"team": "search"},
    },
}  # fmt: skip

PROFILE: Object = {
    "image": "registry.example.com/naiad-server:0.2.0",
    "imagePullSecrets": [{"name": "registry"}],
    "args": ["--log-verbose=0"],
    "env": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "16Gi"}},
    "storage": {"s3": {"secretName": "models", "endpoint": "https://minio.storage:9000"}},
    "serviceAccountName": "models",
    "nodeSelector": {"pool": "tenants"},
    "tolerations": [{"key": "dedicated", "value": "inference", "effect": "NoSchedule"}],
    "priorityClassName": "tenants",
    "labels": {"cost-center": "ml"},
    "annotations": {"owner": "ml-platform"},
}
_BINDS: Object = {"namespaces": {"names": ["models"]}}

CASES: dict[str, Object] = {
    "a profile without a policy": {"default": True},
    "namespaces bound, nothing refused": {"policy": {**_BINDS, "podTemplate": "Allow"}},
    "four fields enforced": {
        "policy": {**_BINDS, "podTemplate": "Allow", "enforced": ["resources", "priorityClassName", "serviceAccountName", "nodeSelector"]}
    },
    "every field enforced": {
        "policy": {**_BINDS, "podTemplate": "Allow", "enforced": list(typing.get_args(Enforceable))}
    },
    "every field enforced, podTemplate Restricted, hosts": {
        "policy": {**_BINDS, "podTemplate": "Restricted", "triggers": "Refuse", "hosts": ["*.{namespace}.example.com"], "enforced": list(typing.get_args(Enforceable))}
    },
}  # fmt: skip


class Api:
    """An API server that keeps what is applied, as its own."""

    manager = "naiad-operator"

    def __init__(self) -> None:
        self._versions = itertools.count(2)
        self.service = SERVICE
        self.writes = 0

    async def get(self, ref: object) -> Object:
        """The service."""
        return self.service

    async def merge(self, ref: object, body: Object, *, subresource: str) -> Object:
        """Takes a status."""
        self.writes += 1
        metadata = {**self.service["metadata"], "resourceVersion": str(next(self._versions))}
        self.service = {**self.service, "metadata": metadata, "status": body["status"]}
        return self.service

    async def apply(self, ref: object, manifest: Object, **_: object) -> Object:
        """Takes a child: its manager owns every field of it."""
        self.writes += 1
        entry = {"manager": self.manager, "operation": "Apply", "fieldsV1": _owned(manifest)}
        version = next(self._versions)
        metadata = {
            **manifest["metadata"],
            "uid": f"uid-{version}",
            "resourceVersion": str(version),
            "managedFields": [entry],
        }
        return {**manifest, "metadata": metadata}

    async def create(self, ref: object, body: Object) -> Object:
        """Takes an Event."""
        return body


def _owned(value: typing.Any) -> Object:
    """The fields of a value as an API server records them."""
    if isinstance(value, dict):
        return {f"f:{name}": _owned(inner) for name, inner in value.items()}
    if isinstance(value, list) and all(isinstance(one, dict) and "name" in one for one in value):
        return {f'k:{{"name":"{one["name"]}"}}': {".": {}, **_owned(one)} for one in value}
    return {}


class _NoModels:
    """A poller without any pod."""

    def poll(self, key: Key, addresses: object, of: str = "") -> None:
        """Does nothing."""

    def report(self, key: Key, of: str = "") -> ModelReport:
        """Has no model states."""
        return NOT_REPORTED


def reconciler_with(api: Api, profile: Object) -> reconciler.Reconciler:
    """The operator's reconciler beside this API server, with one NaiadProfile."""
    client = typing.cast("Client", api)
    manifest = {
        "apiVersion": "serving.naiad.dev/v1alpha1",
        "kind": "NaiadProfile",
        "metadata": {"name": "platform", "uid": "uid-0", "resourceVersion": "1"},
        "spec": {**PROFILE, **profile},
    }
    watched = profile_store.ProfileStore(
        client,
        enabled=True,
        fallback=None,
        timeouts=WatchTimeouts(),
        on_change=lambda: None,
        on_namespace=lambda _: None,
    )
    watched.on_update(profile_store.REF, manifest)
    info = ClusterInfo(client)
    info.kinds = frozenset()
    labels = Labels(instance=names.INSTANCE_LABEL, manager=api.manager)
    return reconciler.Reconciler(
        reconciler.Dependencies(
            api=client,
            services=service_store.ServiceStore(lambda: 0.0),
            children=ChildStore(labels, on_change=lambda *_: None, transforms={}),
            cluster_info=info,
            defaults=Defaults(image="registry.example.com/naiad-server:0.2.0"),
            nodes=nodes_and_claims.Nodes(client, lambda: 0.0, enabled=False),
            claims=nodes_and_claims.Claims(client, lambda: 0.0),
            scale_ups=scale_ups.ScaleUps(client, lambda: 0.0),
            watch_problems=lambda _: {},
            models=typing.cast("model_poller.ModelPoller", _NoModels()),
            profile_of=watched.of,
            upgrades=UpgradeScheduler(limit=1, wake=lambda _: None),
            clock=lambda: dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
        )
    )


class Cost(typing.NamedTuple):
    """What a case costs.

    Attributes:
        reconcile: milliseconds of a whole reconcile.
        share: the policy's part of it.
    """

    reconcile: float
    share: float


class _Watch:
    """Adds up the time in functions of some modules, which are replaced as long as the block."""

    _FUNCTIONS = ((refusals, "of_spec"), (refusals, "of_pod"), (binding, "of_namespace"))

    def __init__(self) -> None:
        self.seconds = 0.0
        self._originals = [getattr(module, name) for module, name in self._FUNCTIONS]

    def __enter__(self) -> typing.Self:
        for (module, name), original in zip(self._FUNCTIONS, self._originals, strict=True):
            setattr(module, name, functools.partial(self._timed, original))
        return self

    def __exit__(self, *_: object) -> None:
        for (module, name), original in zip(self._FUNCTIONS, self._originals, strict=True):
            setattr(module, name, original)

    def _timed(self, function: collections.abc.Callable[..., typing.Any], *given: typing.Any) -> typing.Any:  # fmt: skip
        began = time.perf_counter()
        try:
            return function(*given)
        finally:
            self.seconds += time.perf_counter() - began


async def measure(*, rounds: int, repeats: int) -> dict[str, Cost]:
    """The cost of each case; the cases take turns.

    Args:
        rounds: of which the fastest counts.
        repeats: reconciles per round.
    """
    looks: dict[str, tuple[Api, reconciler.Reconciler]] = {}
    for name, profile in CASES.items():
        api = Api()
        looks[name] = api, reconciler_with(api, profile)
        await _settle(*looks[name])
    whole: dict[str, list[float]] = {name: [] for name in CASES}
    held: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(rounds):
        for name, (api, look) in looks.items():
            before = api.writes
            with _Watch() as policy:
                began = time.perf_counter()
                for _ in range(repeats):
                    await look.reconcile(KEY)
                seconds = time.perf_counter() - began
            whole[name].append(seconds / repeats * 1e3)
            held[name].append(policy.seconds / repeats * 1e3)
            if api.writes != before:
                raise RuntimeError("a service at rest was written")
    return {name: Cost(min(whole[name]), min(held[name]) / min(whole[name])) for name in CASES}


async def _settle(api: Api, look: reconciler.Reconciler) -> None:
    for _ in range(5):
        before = api.writes
        await look.reconcile(KEY)
        if api.writes == before:
            return
    raise RuntimeError(f"it does not come to rest: {api.service.get('status')}")


def main() -> None:
    """Prints a line per case."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operator.policy_cost", description=__doc__)  # fmt: skip
    parser.add_argument("--rounds", type=int, default=200, help="of which the fastest counts")
    parser.add_argument("--repeats", type=int, default=2, help="reconciles per round")
    given = parser.parse_args()
    costs = asyncio.run(measure(rounds=given.rounds, repeats=given.repeats))
    for name, cost in costs.items():
        print(f"{name:55} {cost.reconcile:6.3f} ms per reconcile, the policy {cost.share:5.1%}")


if __name__ == "__main__":
    main()
