"""The GPU checks of where instances run: devices by kind and number, options and variables that choose GPUs, and what each refuses."""

import concurrent.futures
import functools
import json

from tests.gpu import contexts
from tests.gpu.bench import Array, Bench, ask, expect, reasons, rows, same, until
from tests.gpu.repositories import GPU, ON_HOST
from tests.reference.process import ServerProcess
from tests.wire.plain_http import get

_OTHER = "instance_group { kind: %s count: 1 }\n"
_ON_CPU = "y = x.cpu() * 2"


def placement(bench: Bench) -> str:
    """Instances are where their group says, and a number that no GPU has is refused."""
    bench.python("two", ON_HOST, GPU % 2)
    bench.onnx("default", "")
    bench.onnx("no_such_gpu", "instance_group { kind: KIND_GPU gpus: [ 7 ] }\n")
    explicit = ("--model-control-mode=explicit", "--load-model=two")
    with bench.server(*explicit) as server:
        bench.step("count 2", lambda: _twice(server, 2))
    with bench.server() as server:
        bench.step("no instance_group", lambda: _groups(server, "default"))
        bench.step("gpus: [ 7 ]", lambda: _refused(server, "no_such_gpu", "7"))
    return "where the groups say"


def without_contexts(bench: Bench) -> str:
    """KIND_CPU and KIND_MODEL have no CUDA context unless the model makes one, and nor has the server."""
    code = _ON_CPU
    for kind in ("KIND_CPU", "KIND_MODEL"):
        bench.python(kind.lower(), code, _OTHER % kind)
        path = bench.models / kind.lower() / "1" / "model.py"
        text = path.read_text()
        path.write_text(text.replace(".to(self.device)", ""))
    bench.onnx("onnx_on_cpu", _OTHER % "KIND_CPU")
    with bench.server() as server:
        for model in ("kind_cpu", "kind_model"):
            bench.step(model, functools.partial(_right, server, model))
        bench.step("onnx", lambda: str(ask(server, "onnx_on_cpu", rows(2)).shape))
        found = contexts.of(server)
        expect(not found, f"these processes have a CUDA context: {found}")
    return "no process has a CUDA context"


def one_process(bench: Bench) -> str:
    """An ONNX model with two instances on one GPU has one worker process with one context, and the server has none."""
    bench.onnx("two", GPU % 2)
    with bench.server() as server:
        ask(server, "two", rows(3))
        found = contexts.workers(server)
        expect(len(found) == 1, f"{len(found)} processes have a context: {found}")
        libraries = _libraries(next(iter(found)))
    return f"one process, {sum(found.values()):.0f} MiB; its libraries: {libraries}"


def _libraries(pid: int) -> str:
    """Where a process has CUDA's libraries from."""
    with open(f"/proc/{pid}/maps") as maps:  # noqa: PTH123 - not a file of the disk
        paths = {line.split()[-1] for line in maps if ".so" in line}
    wanted = ("libcudart.so", "libcublasLt.so", "libcudnn.so")
    found = sorted(path for path in paths if path.rsplit("/", 1)[-1].startswith(wanted))
    return ", ".join(found) or "none of " + ", ".join(wanted)


def by_uuid(bench: Bench) -> str:
    """A server under CUDA_VISIBLE_DEVICES=GPU-<uuid> uses that GPU, as number 0; under an empty one there is none."""
    bench.python("there", ON_HOST)
    bench.onnx("onnx")
    with bench.server(environ={"CUDA_VISIBLE_DEVICES": contexts.uuid()}) as server:
        for model in ("there", "onnx"):
            bench.step(model, functools.partial(_right, server, model))
        bench.step("contexts", lambda: f"{len(contexts.workers(server))} processes")
    with bench.server(environ={"CUDA_VISIBLE_DEVICES": ""}) as server:
        bench.step("an empty one", lambda: _refused(server, "onnx", "GPU"))
    return "the GPU that it names is used"


def fallback(bench: Bench) -> str:
    """--gpu-fallback=cpu changes nothing where there is a GPU."""
    bench.onnx("onnx")
    with bench.server("--gpu-fallback=cpu") as server:
        bench.step("onnx", lambda: _right(server, "onnx"))
        bench.step("group", lambda: _groups(server, "onnx"))
        bench.step("contexts", lambda: f"{len(contexts.workers(server))} process")
    expect("runs on the CPU" not in bench.log, "the log says that the model runs on the CPU")
    return "nothing fell back"


def least_capability(bench: Bench) -> str:
    """--min-supported-compute-capability leaves the GPU out and says so."""
    bench.onnx("onnx")
    with bench.server("--min-supported-compute-capability=99") as server:
        bench.step("a model for GPUs", lambda: _refused(server, "onnx", "GPU"))
    line = next((line for line in bench.log.splitlines() if "is not used" in line), "")
    expect(line, "the log does not name the GPU that is left out")
    return line[-120:]


def wrong_option(bench: Bench) -> str:
    """An option that the CUDA provider does not know is named in the load's error, and onnxruntime's own block of text is not printed; one that it knows works."""
    accelerator = """optimization { execution_accelerators { gpu_execution_accelerator { name: "cuda" parameters { key: "%s" value: "%s" } } } }
"""
    bench.onnx("wrong", GPU % 1 + accelerator % ("no_such_option", "1"))
    bench.onnx("onnx_known", GPU % 1 + accelerator % ("cudnn_conv_algo_search", "HEURISTIC"))
    older = 'parameters { key: "cudnn_conv_algo_search" value { string_value: "1" } }\n'
    bench.onnx("onnx_older", GPU % 1 + older)
    with bench.server() as server:
        bench.step("no_such_option", lambda: _refused(server, "wrong", "no_such_option"))
        for model in ("onnx_known", "onnx_older"):
            bench.step(model, functools.partial(_right, server, model))
    expect("EP Error" not in bench.log, "onnxruntime printed its block of text")
    return "named in the error"


def _right(server: ServerProcess, model: str) -> str:
    given = rows(3)
    found = ask(server, model, given)
    return f"differs by {_away(found, given, model):.1g}" if "onnx" not in model else "answers"


def _away(found: Array, given: Array, model: str) -> float:
    return same(found, given * 2, model)


def _twice(server: ServerProcess, count: int) -> str:
    # A worker has a context from its first request on.
    def each_was_asked() -> dict[int, float]:
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: _right(server, "two"), range(8)))
        found = contexts.workers(server)
        return found if len(found) == count else {}

    found, _ = until(each_was_asked)
    return f"{count} processes, {sum(found.values()):.0f} MiB"


def _groups(server: ServerProcess, model: str) -> str:
    status, body = get(server.http, f"/v2/models/{model}/config")
    groups = json.loads(body).get("instance_group", [])
    found = [(each["kind"], each["count"], each.get("gpus")) for each in groups]
    expect(
        status == 200 and found and all(each[0] == "KIND_GPU" for each in found),
        f"{status}, {found}",
    )
    return str(found)


def _refused(server: ServerProcess, model: str, word: str) -> str:
    reason = reasons(server)[model]
    expect(word in reason, f"the reason does not name {word!r}: {reason or 'it has loaded'}")
    return reason[:200]
