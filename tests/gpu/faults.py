"""The GPU checks of failures: workers that die, errors that CUDA does not survive, memory that is not there; and of memory that goes back."""

import functools
import os
import signal
import subprocess
import sys

from tests.gpu import contexts, machine, repositories
from tests.gpu.bench import Bench, ask, expect, post, reasons, rows, same, until
from tests.gpu.repositories import GPU, IO, ON_HOST
from tests.reference.process import ServerProcess
from tests.wire.plain_http import get

EXPLICIT = ("--model-control-mode=explicit", "--load-model=*")


def killed(bench: Bench) -> str:
    """The only worker of a model is killed with SIGKILL: the model serves again, with a context of the same size."""
    bench.python("host", ON_HOST)
    with bench.server() as server:
        given = rows(3)
        ask(server, "host", given)
        before = contexts.workers(server)
        (pid,) = before
        os.kill(pid, signal.SIGKILL)
        _, seconds = until(lambda: _answers(server, "host"), 60)
        after = contexts.workers(server)
        expect(pid not in after and len(after) == 1, f"{before} before, {after} afterwards")
    return f"serves again after {seconds:.1f} s; {sum(before.values()):.0f} MiB before, {sum(after.values()):.0f} afterwards"


def lost_device(bench: Bench) -> str:
    """A request that breaks the CUDA context fails in the framework's words, and the model serves again from a new worker; other models go on. With torch and with onnxruntime."""
    bench.python("host", ON_HOST)
    if machine.has("torch"):
        bench.python("failing", repositories.FAILING)
    if machine.has("onnx"):
        config = IO + 'backend: "onnxruntime"\n' + GPU % 1
        path = repositories.model(bench.models, "reversing", config, "model.onnx")
        repositories.reversing(path)
    with bench.server() as server:
        for model in sorted(
            {"failing", "reversing"} & {each.name for each in bench.models.iterdir()}
        ):
            bench.step(model, functools.partial(_loses, server, model))
        _, metrics = get(server.metrics, "/metrics")
    lines = [line for line in metrics.decode().splitlines() if line.startswith("naiad_worker_restarts_total{")]  # fmt: skip
    ended = [line for line in bench.log.splitlines() if "ended itself" in line]
    return f"{lines}; the log: {ended[-1][-200:] if ended else 'says nothing'}"


def _loses(server: ServerProcess, model: str) -> str:
    good = rows(1) if model == "failing" else rows(1) * 0
    before = ask(server, model, good)
    words = ""
    try:
        ask(server, model, -good - 1 if model == "failing" else good + 100)
    except RuntimeError as error:
        words = str(error)
    expect(words, "the request that breaks the context did not fail")
    same(ask(server, "host", good), good * 2, "another model")
    (after,), seconds = until(lambda: (ask(server, model, good),), 60)
    same(after, before, "afterwards")
    return f"{words[:160]}; right again after {seconds:.1f} s"


def _answers(server: ServerProcess, model: str) -> bool:
    given = rows(3)
    same(ask(server, model, given), given * 2, model)
    return True


def out_of_memory(bench: Bench) -> str:
    """A request that asks for more memory than there is fails alone, in the framework's words, and torch's cached memory goes back; a load that does fails alone, too."""
    bench.python("greedy", repositories.TOO_MUCH)
    code = "y = x.cpu() * 2"
    bench.python("greedy_load", code)
    path = bench.models / "greedy_load" / "1" / "model.py"
    line = "self.kept = torch.empty(1 << 50, dtype=torch.uint8, device=self.device)"
    path.write_text(
        path.read_text().replace("\n\n    def execute", f"\n        {line}\n\n    def execute")
    )
    with bench.server() as server:
        given = rows(1)

        def fails() -> str:
            try:
                ask(server, "greedy", -given - 1)
            except RuntimeError as error:
                reason = str(error)
            else:
                reason = "it was answered"
            expect("memory" in reason.lower(), f"the framework's words are not there: {reason}")
            return reason[:120]

        def returns() -> str:
            def low() -> float | None:
                now = sum(contexts.workers(server).values())
                return now if now < repositories.CACHED_MIB else None

            left, seconds = until(low, 10)
            return f"{left:.0f} MiB {seconds:.1f} s after the request, of more than {repositories.CACHED_MIB} that torch had cached"  # fmt: skip

        bench.step("the request", fails)
        bench.step("the cache", returns)
        bench.step("the next request", lambda: str(_answers(server, "greedy")))
        bench.step("the load", lambda: _says(reasons(server)["greedy_load"], "memory"))
    return "they fail alone"


def _says(text: str, word: str) -> str:
    expect(word in text.lower(), f"{word!r} is not in: {text or 'it has loaded'}")
    return text[:200]


def unloaded(bench: Bench) -> str:
    """An unload gives all memory of its workers back, at each of four loads; of a model with torch and of an ONNX model."""
    bench.python("torch", ON_HOST)
    bench.onnx("onnx")
    with bench.server(*EXPLICIT) as server:
        for model in ("torch", "onnx"):
            bench.step(model, functools.partial(_cycles, server, model))
    return "memory goes back"


def _cycles(server: ServerProcess, model: str) -> str:
    loaded: list[float] = []
    longest = 0.0
    least = 0.0
    for _ in range(4):
        post(server, f"/v2/repository/models/{model}/load", {})
        ask(server, model, rows(3))
        loaded.append(contexts.settled(server, 2))
        post(server, f"/v2/repository/models/{model}/unload", {})
        least = loaded[-1] - 100

        def gone(least: float = least) -> bool:
            return sum(contexts.of(server).values()) < max(1, least)

        longest = max(longest, until(gone, 15)[1])
    # The first load has replaced another one, whose worker may have ended later.
    expect(max(loaded[1:]) - min(loaded[1:]) < 64, f"MiB when loaded: {loaded}")
    return f"{loaded[-1]:.0f} MiB of all workers when loaded, gone after at most {longest:.2f} s"


def load_limit(bench: Bench) -> str:
    """--model-load-gpu-limit: a model is not loaded on a GPU of which more is in use. Alone on the GPU."""
    for model in ("first", "second"):
        bench.onnx(model)
    nvml, handle = contexts.driver()
    total = nvml.nvmlDeviceGetMemoryInfo(handle).total / contexts.MIB
    # The context and the arena of one model take about 650 MiB.
    fraction = (_used() + 1000) / total
    options = ("--model-control-mode=explicit", f"--model-load-gpu-limit=0:{fraction:.6f}")
    with bench.server(*options) as server:
        post(server, "/v2/repository/models/first/load", {})
        reason = ""
        try:
            post(server, "/v2/repository/models/second/load", {})
        except RuntimeError as error:
            reason = str(error)
        _says(reason, "has exceeded")
        ask(server, "first", rows(2))
    return reason[:300]


def _used() -> float:
    nvml, handle = contexts.driver()
    info = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    return float(info.used) / contexts.MIB


def gpu_metrics(bench: Bench) -> str:
    """nv_gpu_* and nv_energy_consumption are what the driver says, without the memory that it reserves; the label is the UUID. Alone on the GPU."""
    bench.python("host", ON_HOST)
    nvml, handle = contexts.driver()
    with bench.server("--metrics-interval-ms=100") as server:
        ask(server, "host", rows(2))
        label = f'gpu_uuid="{contexts.uuid()}"'

        def close(name: str, least: float, expected: float) -> str:
            def look() -> tuple[float, ...]:
                found = _metrics(server, label)[name]
                near = abs(found - expected) <= least
                expect(near, f"{found:g} on the page, {expected:g} by the driver")
                return (found,)

            return f"{until(look, 5)[0][0]:g}"

        bench.step("used MiB", lambda: close("nv_gpu_memory_used_bytes", 32 << 20, _used() * contexts.MIB))  # fmt: skip
        total = nvml.nvmlDeviceGetMemoryInfo(handle).total
        bench.step("total", lambda: close("nv_gpu_memory_total_bytes", 0, total))
        limit = nvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000
        bench.step("power limit", lambda: close("nv_gpu_power_limit", 0, limit))
        power = nvml.nvmlDeviceGetPowerUsage(handle) / 1000
        bench.step("power", lambda: close("nv_gpu_power_usage", 0.3 * power, power))
        found = _metrics(server, label)
        expect(0 <= found["nv_gpu_utilization"] <= 1, f"utilization {found['nv_gpu_utilization']}")
        expect("nv_energy_consumption" in found, f"no energy: {found}")
    reserved = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).reserved
    return f"equal; the driver reserves {reserved / contexts.MIB:.0f} MiB, which are not counted"


def _metrics(server: ServerProcess, label: str) -> dict[str, float]:
    _, page = get(server.metrics, "/metrics")
    found: dict[str, float] = {}
    for line in page.decode().splitlines():
        name, _, value = line.partition(f"{{{label}}} ")
        if value:
            found[name] = float(value)
    expect(found, f"the metrics page has nothing with the label {label}")
    return found


def filled_batches(bench: Bench) -> str:
    """Filled batches reach their aims. Alone on the GPU."""
    command = [sys.executable, "-m", "benchmarks.server.filled_batches", "--gpu", "--slices", "3"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    (bench.folder / "output").write_text(ran.stdout + ran.stderr)
    lines = (ran.stdout if not ran.returncode else ran.stdout + ran.stderr).strip()
    expect(not ran.returncode, lines[-900:])
    return lines[-900:]
