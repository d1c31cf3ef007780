"""How the servers of the set-ups are stopped, on processes that note it."""

import pathlib
from dataclasses import dataclass, field

from typing_extensions import override

from tests.conformance.scenarios.wire import Target
from tests.conformance.servers.setups import Servers
from tests.reference.process import Program, ServerProcess


@dataclass
class Time:
    """A clock that moves when a process uses up the time that it is given."""

    now: float = 0.0
    events: list[str] = field(default_factory=list)


class Stubborn(ServerProcess):
    """Ends only when its time is over."""

    def __init__(self, name: str, time: Time) -> None:
        grace_s = {"reference": 5, "naiad": 20}[name]
        program = Program(name=name, command=("true",), environ={}, grace_s=grace_s)
        super().__init__(program, [], log=pathlib.Path("unused.log"))
        self.time = time

    @override
    def ask_to_stop(self) -> None:
        self.time.events.append("asked")

    @override
    def stop(self, *, timeout_s: float = 20) -> int | None:
        self.time.events.append("waited for")
        self.time.now += timeout_s
        return None


def test_servers_that_do_not_end_are_waited_for_together(tmp_path: pathlib.Path) -> None:
    time = Time()
    servers = Servers(folder=tmp_path, programs=(), clock=lambda: time.now)
    for setup in ("main", "streams", "secure"):
        servers.running[setup] = [Target(Stubborn(name, time)) for name in ("reference", "naiad")]
    servers.stop()
    assert time.events == ["asked"] * 6 + ["waited for"] * 6
    assert time.now == 20  # Naiad's grace, once; the reference's 5 s lie within
    assert servers.running == {}


def test_both_servers_of_a_set_up_that_is_dropped_end_side_by_side(tmp_path: pathlib.Path) -> None:
    time = Time()
    servers = Servers(folder=tmp_path, programs=(), clock=lambda: time.now)
    servers.running["main"] = [Target(Stubborn(name, time)) for name in ("reference", "naiad")]
    servers.drop("main")
    assert time.events == ["asked", "asked", "waited for", "waited for"]
    assert time.now == 20
