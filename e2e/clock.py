"""A clock of the operator's own, which a story turns: libfaketime, mounted into its pods."""

import contextlib
import datetime as dt
import json
import shutil
import typing
from collections.abc import Iterator

from e2e.cluster.cluster import Cluster
from e2e.demo import install_chart
from e2e.kubernetes import Kubernetes
from tests.toolchain import debian

_MOUNT = "/clock"
_LIBRARY = "libfaketime.so.1"


class Clock:
    """The clock of every pod of the operator. Timers go on as they are: it is the time of day that jumps.

    Args:
        cluster: the cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.folder = cluster.folders.root / "clock"
        self.folder.mkdir(exist_ok=True)
        shutil.copyfile(debian.unpacked("libfaketime"), self.folder / _LIBRARY)
        self.turn(0)

    def turn(self, seconds: int) -> None:
        """Makes the time of day differ from the true one by `seconds`."""
        new = self.folder / "new"
        new.write_text(f"{seconds:+d}\n")
        new.replace(self.folder / "offset")

    def options(self) -> list[str]:
        """The chart's values, as options of helm."""
        environment = {
            "LD_PRELOAD": f"{_MOUNT}/{_LIBRARY}",
            "FAKETIME_TIMESTAMP_FILE": f"{_MOUNT}/offset",
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        values = {
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "extraVolumes": [{"name": "clock", "hostPath": {"path": str(self.folder)}}],
            "extraVolumeMounts": [{"name": "clock", "mountPath": _MOUNT, "readOnly": True}],
        }
        return [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]


@contextlib.contextmanager
def turned(cluster: Cluster, *values: str) -> Iterator[Clock]:
    """The operator with such a clock, for the length of a context.

    Args:
        cluster: the cluster.
        values: further ones of the chart.
    """
    clock = Clock(cluster)
    try:
        install_chart(cluster, *values, options=clock.options())
        yield clock
    finally:
        install_chart(cluster)
        shutil.rmtree(clock.folder)


class Lease(typing.NamedTuple):
    """The operator's Lease: who holds it, how often it has changed hands, and how many seconds the time in it is ahead of the true one."""

    holder: str
    transitions: int
    ahead: float


def lease() -> Lease:
    """The Lease as it is now."""
    spec = (Kubernetes("naiad-system").get("lease", "naiad") or {})["spec"]
    renewed = dt.datetime.fromisoformat(spec["renewTime"])
    ahead = (renewed - dt.datetime.now(dt.UTC)).total_seconds()
    return Lease(spec["holderIdentity"], spec["leaseTransitions"], ahead)
