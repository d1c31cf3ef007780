"""What an ordinary service costs beside hostile objects, against a real API server: `make bench-operator`, alone `python -m benchmarks.operator.isolation`.

Measured is the operator's processor time from the creation of a service until its Deployment exists, alone and beside what another tenant writes:

* services that the operator cannot read (`tests.apiserver.hostile_services`). Services with and without them take turns, so that what the operator does now and
  then is in both; their medians are compared;
* objects of all other kinds that it lists and watches (`tests.apiserver.hostile_objects`). Here the second smallest costs are compared, without what the operator
  does beside them now and then.

Printed is how many times as much one costs beside them as alone, and how much it may be. The processor time of a process is longer on a busy machine too, whose
caches others use: only a quiet one gives results that count.
"""

import argparse
import collections.abc
import dataclasses
import pathlib
import statistics
import tempfile

from tests.apiserver import control_plane
from tests.apiserver.client import Kubectl, until
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.hostile_objects import WAITING, attack
from tests.apiserver.hostile_services import HOSTILE, Raw
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import definitions, deployed, is_true, make_namespace
from tests.apiserver.operator import OperatorProcess
from tests.toolchain.programs import find

MOST = 1.5
"""How many times as much a service may cost beside hostile objects as alone."""
_TURNS = 2


def main() -> None:
    """Prints a line for each comparison."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operator.isolation", description=__doc__)  # fmt: skip
    parser.add_argument("--rounds", type=int, default=8, help="services alone, and beside the hostile objects, in each turn")  # fmt: skip
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="naiad-bench-") as name:
        folder = pathlib.Path(name)
        plane = control_plane.start(folder, find(control_plane.PROGRAMS), crds=definitions())
        try:
            for line in measure(plane, folder, rounds=given.rounds):
                print(f"[bench] {line}", flush=True)
        finally:
            plane.stop()


def measure(
    plane: ControlPlane, folder: pathlib.Path, *, rounds: int
) -> collections.abc.Iterator[str]:
    """A line for each comparison, as soon as it is made."""
    admin = plane.admin()
    admin.create(control_plane.everything_for(control_plane.OPERATOR_USER))
    Kubelet(admin).register(resources={"nvidia.com/gpu": "8"})
    for what, compare in (("services", _beside_services), ("objects", _beside_objects)):
        mine, theirs = (make_namespace(admin, f"{what}-{of}") for of in ("mine", "theirs"))
        config = plane.kubeconfig(control_plane.OPERATOR_TOKEN)
        options = f"--watch-namespaces={mine},{theirs}"
        with OperatorProcess(config, options, log=folder / f"{what}.log") as operator:
            operator.wait_ready()
            deployed(admin, "first", mine)
            alone, beside = compare(_World(plane, admin, operator, mine, theirs), rounds)
        yield (
            f"an ordinary service beside hostile {what}: {beside / alone:.2f} times as much processor time as alone (≤ {MOST}), {beside:.1f} and {alone:.1f} ms"
        )
    admin.close()


@dataclasses.dataclass(frozen=True, slots=True)
class _World:
    """An operator, and the namespaces of an ordinary tenant and of the hostile one."""

    plane: ControlPlane
    admin: Kubectl
    operator: OperatorProcess
    mine: str
    theirs: str

    def costs(self, name: str, rounds: int) -> list[float]:
        """Of so many services, one after the other, each until its Deployment exists, in milliseconds."""
        return [self._cost(f"{name}-{number}") for number in range(rounds)]

    def _cost(self, name: str) -> float:
        before = self.operator.cpu_ms()
        deployed(self.admin, name, self.mine)
        return self.operator.cpu_ms() - before


def _beside_services(world: _World, rounds: int) -> tuple[float, float]:
    """The median costs alone and beside services that cannot be read, in milliseconds."""
    raw, theirs = Raw(world.plane), world.theirs
    alone: list[float] = []
    beside: list[float] = []
    for turn in range(_TURNS):
        alone += world.costs(f"alone-{turn}", rounds)
        written = [name for name, spec in HOSTILE.items() if raw.create(name, theirs, spec)]
        for name in written:
            until(f"a condition of {name}", lambda name=name: raw.has_condition(name, theirs))  # type: ignore[misc]  # fmt: skip
        beside += world.costs(f"beside-{turn}", rounds)
        for name in written:
            raw.delete(name, theirs)
    raw.http.close()
    return statistics.median(alone), statistics.median(beside)


def _beside_objects(world: _World, rounds: int) -> tuple[float, float]:
    """The second smallest costs alone and beside hostile objects of other kinds, in milliseconds."""
    admin, theirs = world.admin, world.theirs
    alone = world.costs("alone", rounds)
    attack(admin, theirs)
    until("conditions", lambda: is_true(admin.get("InferenceService", WAITING, theirs), "SpecValid"))  # fmt: skip
    until("no backlog", lambda: world.operator.metric("naiad_operator_queue_depth") == 0)
    beside = world.costs("beside", rounds)
    return sorted(alone)[1], sorted(beside)[1]


if __name__ == "__main__":
    main()
