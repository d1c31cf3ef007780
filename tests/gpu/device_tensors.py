"""The GPU checks of tensors that go from model to model on the GPU: values of every size, memory that is kept and returned, and the copy where there is no handle."""

import functools
import os
import signal

import numpy as np

from tests.gpu import calling, contexts
from tests.gpu.bench import Array, Bench, expect, infer, until
from tests.gpu.repositories import GPU
from tests.reference.process import ServerProcess

SIZES = {"1 KB": (1 << 10, 20), "1 MB": (1 << 20, 20), "16 MB": (1 << 24, 20), "256 MB": (1 << 28, 6)}  # fmt: skip
"""Bytes of a tensor, and calls."""
_GROWTH_MIB = 64


def sizes(bench: Bench) -> str:
    """Calls with tensors of 1 KB to 256 MB on the GPU and back: the values are right, and neither end had them on the host. The memory does not grow over 2,000 calls."""
    calling.write(bench.models, GPU % 1)
    with bench.server() as server:
        for name, (size, calls) in SIZES.items():
            bench.step(name, functools.partial(_right, server, size, calls))
        bench.step("memory", lambda: _steady(server))
    return "on the GPU at both ends"


def ends(bench: Bench) -> str:
    """The memory goes back when the receiver is killed, and when the sender is; calls are right afterwards."""
    calling.write(bench.models, GPU % 1)
    with bench.server() as server:
        _right(server, 1 << 28, 4)
        for which in ("receiver", "caller"):
            bench.step(f"the {which} is killed", functools.partial(_kill, server, which))
    return "memory goes back"


def copied(bench: Bench) -> str:
    """With expandable segments, which have no handles, tensors are copied through the host, a warning says so, and the values are right."""
    calling.write(bench.models, GPU % 1)
    segments = "expandable_segments:True"
    environ = {"PYTORCH_CUDA_ALLOC_CONF": segments, "PYTORCH_ALLOC_CONF": segments}
    with bench.server(environ=environ) as server:
        saw = _ask(server, 1 << 20, 10)
    expect(saw[1] == 0, f"{saw[1]:.0f} of 10 results were wrong")
    line = next((line for line in bench.log.splitlines() if "have no handle" in line), "")
    expect(line, f"no warning in the log; {saw[2]:.0f} of 10 calls had their tensors on the GPU")
    return f"right in {saw[0] * 1e3:.2f} ms; {line[-260:]}"


def _ask(server: ServerProcess, size: int, calls: int, *, looks: bool = True) -> Array:
    plan = np.array([size, calls, looks], np.int64)
    return infer(server, "caller", {"PLAN": plan})["SAW"]


def _right(server: ServerProcess, size: int, calls: int) -> str:
    seconds, wrong, there = _ask(server, size, calls)
    expect(wrong == 0, f"{wrong:.0f} of {calls} results were wrong")
    expect(there == calls, f"{calls - there:.0f} of {calls} calls had a tensor on the host")
    return f"right, {seconds * 1e3:.2f} ms"


def _steady(server: ServerProcess) -> str:
    for size in (1 << 20, 1 << 24):
        _ask(server, size, 100)
    before = contexts.settled(server)
    for size in (1 << 20, 1 << 24):
        _ask(server, size, 1000)
    after = contexts.settled(server)
    expect(after - before < _GROWTH_MIB, f"{before:.0f} MiB before, {after:.0f} after 2,000 calls")
    return f"{before:.0f} MiB before, {after:.0f} after 2,000 calls"


def _kill(server: ServerProcess, which: str) -> str:
    found = contexts.workers(server)
    pids = {name: pid for pid in found for name in ("receiver", "caller") if _hosts(pid, name)}
    if which not in pids:
        raise AssertionError(f"of the processes {found} it is not known which is the {which}'s")
    os.kill(pids[which], signal.SIGKILL)
    # What the killed one had is gone at once, what the other had of it after 10 seconds without use.
    _, seconds = until(lambda: _right(server, 1 << 10, 2), 60)
    other = pids["caller" if which == "receiver" else "receiver"]
    before = found[other]
    _right(server, 1 << 20, 4)

    def low() -> float:
        now = contexts.workers(server)[other]
        return now if now <= before + _GROWTH_MIB else 0

    left, _ = until(low, 20)
    return (
        f"right again after {seconds:.1f} s; the other one has {left:.0f} MiB, {before:.0f} before"
    )


def _hosts(pid: int, model: str) -> bool:
    """Whether a worker process, which is named after its instance, is of that model."""
    with open(f"/proc/{pid}/comm") as file:  # noqa: PTH123 - not a file of the disk
        return model in file.read()
