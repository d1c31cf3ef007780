"""The GPU checks: each starts a server on models of its own and asks it. A check returns what it saw, and fails by an exception."""

import base64
import collections.abc
import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys
import time
import typing
from http import HTTPStatus
from typing import Any

import numpy as np

from naiad.tensors import cudart
from tests.gpu import repositories
from tests.gpu.images import dali_pipelines
from tests.gpu.machine import Gpu
from tests.gpu.repositories import GPU, IO
from tests.reference.process import ServerProcess, naiad_program
from tests.wire.plain_http import call

TOLERANCE = 1e-3
"""Relative, of outputs on the GPU beside those on the CPU: TF32 alone makes 6e-4."""

Array = np.ndarray[Any, Any]


class Check(typing.NamedTuple):
    """A check: its name, the packages without which it is skipped, and what runs it."""

    name: str
    needs: tuple[str, ...]
    run: collections.abc.Callable[["Bench"], str]


@dataclasses.dataclass(frozen=True)
class Bench:
    """Where a check runs: a folder of its own, and the GPU."""

    folder: pathlib.Path
    gpu: Gpu

    @property
    def models(self) -> pathlib.Path:
        """The repository."""
        return self.folder / "models"

    @contextlib.contextmanager
    def server(self, *options: str) -> collections.abc.Iterator[ServerProcess]:
        """The server on this check's models; ends with the context."""
        program = naiad_program()
        environ = {
            name: text for name, text in program.environ.items() if name != "TRITON_SERVER_CPU_ONLY"
        }
        log = self.folder / "server.log"
        more = ["--exit-on-error=false", "--strict-readiness=false", *options]
        program = dataclasses.replace(program, environ=environ)
        with ServerProcess(program, [self.models], options=more, log=log) as server:
            yield server


def rows(count: int) -> Array:
    """The input of a request."""
    return np.random.default_rng(count).random((count, 64), np.float32)


def ask(server: ServerProcess, model: str, given: Array) -> Array:
    """The output of a model.

    Raises:
        RuntimeError: the server answers with an error.
    """
    body = {
        "inputs": [
            {
                "name": "X",
                "datatype": "FP32",
                "shape": list(given.shape),
                "data": given.ravel().tolist(),
            }
        ]
    }
    status, reply = call(server.http, "POST", f"/v2/models/{model}/infer", body)
    if status != 200:
        raise RuntimeError(f"{model}: {status} {reply.decode()[:400]}")
    output = json.loads(reply)["outputs"][0]
    return np.array(output["data"], np.float32).reshape(output["shape"])


def same(found: Array, expected: Array, what: str) -> float:
    """The largest relative difference, which is small.

    Raises:
        AssertionError: it is not.
    """
    if found.shape != expected.shape:
        raise AssertionError(f"{what}: shape {found.shape}, expected {expected.shape}")
    scale = float(np.abs(expected).max()) or 1.0
    away = float(np.abs(found - expected).max()) / scale
    if not away <= TOLERANCE:
        raise AssertionError(f"{what}: differs by {away:.2g}, at most {TOLERANCE:.0g} is expected")
    return away


def onnx_on_cuda(bench: Bench) -> str:
    """ONNX on CUDA gives what it gives on the CPU, and the file of the GPU's compute capability is the one that is loaded."""
    cpu = IO + 'backend: "onnxruntime"\ninstance_group { kind: KIND_CPU }'
    repositories.onnx(repositories.model(bench.models, "cpu", cpu, "model.onnx"))
    key = ".".join(map(str, bench.gpu.capability))
    named = f'cc_model_filenames {{ key: "{key}" value: "card.onnx" }}\n'
    on_gpu = IO + 'backend: "onnxruntime"\n' + GPU % 2
    repositories.onnx(repositories.model(bench.models, "gpu", on_gpu, "model.onnx"))
    path = repositories.model(bench.models, "card", on_gpu + named, "model.onnx")
    repositories.onnx(path, seed=2)
    repositories.onnx(path.with_name("card.onnx"))
    with bench.server() as server:
        given = rows(5)
        expected = ask(server, "cpu", given)
        away = same(ask(server, "gpu", given), expected, "KIND_GPU")
        same(ask(server, "card", given), expected, "cc_model_filenames")
    return f"differs from the CPU by {away:.1g}; cc_model_filenames {key} is loaded"


def onnx_in_graphs(bench: Bench) -> str:
    """ONNX in CUDA graphs gives what it gives without, whatever the number of rows; with and without a batcher."""
    graphs = "optimization { cuda { graphs: true } }\n"
    batcher = "dynamic_batching { max_queue_delay_microseconds: 1000 }\n"
    head = IO + 'backend: "onnxruntime"\n'
    for name, config in (("plain", GPU % 1), ("graphs", graphs + GPU % 2), ("filled", graphs + batcher + GPU % 1)):  # fmt: skip
        repositories.onnx(repositories.model(bench.models, name, head + config, "model.onnx"))
    with bench.server() as server:
        for count in (1, 3, 8, 5, 7, 2, 1):
            expected = ask(server, "plain", rows(count))
            for name in ("graphs", "filled"):
                for _ in range(2):
                    same(ask(server, name, rows(count)), expected, f"{name}, {count} rows")
        log = (bench.folder / "server.log").read_text()
    captured = log.count("captured CUDA graph")
    if "unable to record CUDA graph" in log or not captured:
        raise AssertionError(f"{captured} graphs were captured: {log[-600:]}")
    return f"right, {captured} CUDA graphs"


def onnx_on_tensorrt(bench: Bench) -> str:
    """The accelerator tensorrt, with an engine cache in a folder that the server makes."""
    cpu = IO + 'backend: "onnxruntime"\ninstance_group { kind: KIND_CPU }'
    repositories.onnx(repositories.model(bench.models, "cpu", cpu, "model.onnx"))
    cache = bench.folder / "cache" / "engines"
    accelerator = f"""optimization {{ execution_accelerators {{ gpu_execution_accelerator {{ name: "tensorrt"
parameters {{ key: "trt_engine_cache_enable" value: "true" }} parameters {{ key: "trt_engine_cache_path" value: "{cache}" }} }} }} }}
"""
    config = IO + 'backend: "onnxruntime"\n' + GPU % 1 + accelerator
    repositories.onnx(repositories.model(bench.models, "gpu", config, "model.onnx"))
    with bench.server() as server:
        given = rows(4)
        away = same(ask(server, "gpu", given), ask(server, "cpu", given), "accelerator tensorrt")
    engines = len(list(cache.iterdir()))
    if not engines:
        raise AssertionError(f"{cache} is empty: no engine was kept")
    return f"differs from the CPU by {away:.1g}, {engines} files in the engine cache"


def filled_batches(bench: Bench) -> str:
    """Filled batches reach their aims."""
    command = [sys.executable, "-m", "benchmarks.server.filled_batches", "--gpu"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    if ran.returncode:
        raise AssertionError((ran.stdout + ran.stderr).strip()[-600:])
    return ran.stdout.strip().splitlines()[-1]


def torch_models(bench: Bench) -> str:
    """TorchScript and torch.export on the GPU give what they give on the CPU, also with a stream of high priority and without pinned memory; two instances each."""
    policy = "optimization { priority: PRIORITY_MAX input_pinned_memory { enable: false } output_pinned_memory { enable: false } }\n"
    groups = {
        "cpu": "instance_group { kind: KIND_CPU }",
        "gpu": GPU % 2,
        "policy": policy + GPU % 2,
    }
    for form, file in (("script", "model.pt"), ("export", "model.pt2")):
        platform = {"script": "pytorch_libtorch", "export": "torch_aoti"}[form]
        io = (
            IO
            if form == "script"
            else IO.replace('"X"', '"INPUT__0"').replace('"Y"', '"OUTPUT__0"')
        )
        for place, group in groups.items():
            config = f'{io}platform: "{platform}"\n{group}'
            path = repositories.model(bench.models, f"{form}_{place}", config, file)
            repositories.torch(path, form)
    seen: list[str] = []
    with bench.server() as server:
        for form in ("script", "export"):
            given = rows(6)
            expected, *found = (_ask_torch(server, f"{form}_{place}", given) for place in groups)
            seen += [f"{form} {same(each, expected, form):.1g}" for each in found]
    return "differ from the CPU by: " + ", ".join(seen)


def _ask_torch(server: ServerProcess, model: str, given: Array) -> Array:
    name = "X" if model.startswith("script") else "INPUT__0"
    tensor = {
        "name": name,
        "datatype": "FP32",
        "shape": list(given.shape),
        "data": given.ravel().tolist(),
    }
    status, reply = call(server.http, "POST", f"/v2/models/{model}/infer", {"inputs": [tensor]})
    if status != 200:
        raise RuntimeError(f"{model}: {status} {reply.decode()[:400]}")
    output = json.loads(reply)["outputs"][0]
    return np.array(output["data"], np.float32).reshape(output["shape"])


def tensorrt_plans(bench: Bench) -> str:
    """Plans: a completed config, both profiles, two instances, CUDA graphs, and the error of another release's plan."""
    made = bench.folder / "model.plan"
    repositories.plan(made)
    graphs = """optimization { priority: PRIORITY_MAX cuda { graphs: true output_copy_stream: true } }
instance_group { kind: KIND_GPU count: 2 gpus: 0 profile: [ "0", "1" ] }
dynamic_batching { max_queue_delay_microseconds: 1000 }
"""
    for name, config in (("completed", ""), ("graphs", IO + 'backend: "tensorrt"\n' + graphs)):
        repositories.model(bench.models, name, config, "model.plan").write_bytes(made.read_bytes())
    older = bytearray(made.read_bytes())
    older[24:28] = bytes((10, 0, 0, 1))
    repositories.model(bench.models, "older", "", "model.plan").write_bytes(older)
    with bench.server() as server:
        for model in ("completed", "graphs"):
            for count in (1, 2, 4, 3, 1, 4):
                given = rows(count)
                same(ask(server, model, given), given * 2, f"{model}, {count} rows")
        given = rows(8)
        same(ask(server, "graphs", given), given * 2, "graphs, 8 rows in the second profile")
        _, index = call(server.http, "POST", "/v2/repository/index")
        log = (bench.folder / "server.log").read_text()
    reasons = {each["name"]: each.get("reason", "") for each in json.loads(index)}
    if not reasons["older"]:
        raise AssertionError("a plan whose version was changed has loaded")
    captured = log.count("captured CUDA graph")
    if not captured:
        raise AssertionError("no CUDA graph was captured: " + log[-600:])
    return (
        f"right in all profiles, {captured} CUDA graphs; a changed plan: {reasons['older'][:160]}"
    )


def plans_between_models(bench: Bench) -> str:
    """A plan between two Python models takes its input on the GPU and leaves its output there, with and without a CUDA graph."""
    made = bench.folder / "model.plan"
    repositories.plan(made)
    config = IO + 'backend: "tensorrt"\n' + GPU % 1
    graphs = "optimization { cuda { graphs: true } }\n"
    for name, more in (("plain", ""), ("graphs", graphs)):
        path = repositories.model(bench.models, name, config + more, "model.plan")
        path.write_bytes(made.read_bytes())
        repositories.model(bench.models, f"all_{name}", repositories.PLAN_ON_GPU % (IO, name))
    _write_python(bench, "device", repositories.ON_DEVICE)
    there = IO + 'backend: "python"\n' + GPU % 1 + repositories.INPUTS_ON_GPU
    code = repositories.DOUBLING % repositories.THERE
    repositories.model(bench.models, "there", there, "model.py", code)
    with bench.server() as server:
        for name in ("all_plain", "all_graphs"):
            for count in (1, 3, 4, 1):
                given = rows(count)
                same(ask(server, name, given), given * 8, f"{name}, {count} rows")
    return "right, and on the GPU between the models"


def python_models(bench: Bench) -> str:
    """A model.py with torch on the GPU."""
    _write_python(bench, "host", repositories.ON_HOST)
    with bench.server() as server:
        given = rows(3)
        return f"differs by {same(ask(server, 'host', given), given * 2, 'model.py'):.1g}"


def cuda_tensors(bench: Bench) -> str:
    """A model.py returns a CUDA tensor, and another one sends one in a call and gets one back."""
    _write_python(bench, "device", repositories.ON_DEVICE)
    _write_python(bench, "calling", repositories.CALLING)
    with bench.server() as server:
        given = rows(3)
        same(ask(server, "device", given), given * 2, "an output on the device")
        same(ask(server, "calling", given), (given + 1) * 2, "a call with a tensor on the device")
    return "outputs and calls with tensors on the device are right"


def client_regions(bench: Bench) -> str:
    """A client's memory on the GPU, as inputs and outputs of models on the CPU and on the GPU, over HTTP; with how long a request of 16 MB takes."""
    config = IO.replace("dims: 64", "dims: -1").replace("max_batch_size: 8\n", "")
    on_cpu = config + 'backend: "python"\ninstance_group { kind: KIND_CPU }\n'
    repositories.model(bench.models, "cpu", on_cpu, "model.py", repositories.DOUBLING_ON_CPU)
    on_gpu = config + 'backend: "python"\n' + GPU % 1 + repositories.INPUTS_ON_GPU
    doubling = repositories.DOUBLING % repositories.ON_DEVICE
    repositories.model(bench.models, "gpu", on_gpu, "model.py", doubling)
    runtime = cudart.load()
    given = np.random.default_rng(1).random(1 << 22, np.float32)
    address = runtime.allocate(2 * given.nbytes, 0)
    runtime.to_device(address, given.ctypes.data, given.nbytes, 0)
    base64_handle = base64.b64encode(runtime.ipc_handle(address, 0)).decode()
    place = {"shared_memory_region": "r", "shared_memory_byte_size": given.nbytes}
    body = {
        "inputs": [{"name": "X", "datatype": "FP32", "shape": [given.size], "parameters": place}],
        "outputs": [{"name": "Y", "parameters": {**place, "shared_memory_offset": given.nbytes}}],
    }
    found: list[str] = []
    with bench.server("--allow-client-shm=true") as server:
        region = "/v2/cudasharedmemory/region/r"
        registration = {"raw_handle": {"b64": base64_handle}, "device_id": 0}
        size = {"byte_size": 2 * given.nbytes}
        _post(server, f"{region}/register", {**registration, **size})
        for model in ("cpu", "gpu"):
            times: list[float] = []
            for _ in range(50):
                began = time.monotonic()
                _post(server, f"/v2/models/{model}/infer", body)
                times.append(time.monotonic() - began)
            y = np.empty_like(given)
            runtime.to_host(y.ctypes.data, address + given.nbytes, y.nbytes, 0)
            same(y, given * 2, f"the region after a model on the {model}")
            runtime.to_device(address + given.nbytes, given.ctypes.data, given.nbytes, 0)
            found.append(f"{model} {sorted(times)[25] * 1e3:.2f} ms")
        _post(server, f"{region}/unregister", {})
    runtime.free(address, 0)
    return f"16 MB in and out, p50: {', '.join(found)} (Triton on an H200: 9.5 and 1.17 ms)"


def _post(server: ServerProcess, path: str, body: Any) -> None:
    status, said = call(server.http, "POST", path, body)
    if status != HTTPStatus.OK:
        raise RuntimeError(f"{path}: {status} {said.decode(errors='replace')}")


def lost_device(bench: Bench) -> str:
    """A request that breaks the CUDA context fails, and the model serves again; other models go on."""
    _write_python(bench, "failing", repositories.FAILING)
    _write_python(bench, "host", repositories.ON_HOST)
    with bench.server() as server:
        given = rows(1)
        same(ask(server, "failing", given), given * 2, "before")
        with contextlib.suppress(RuntimeError):
            ask(server, "failing", -given - 1)
        same(ask(server, "host", given), given * 2, "another model")
        began, until = time.monotonic(), time.monotonic() + 60
        while True:
            try:
                same(ask(server, "failing", given), given * 2, "after")
            except RuntimeError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
            else:
                return f"serves again after {time.monotonic() - began:.1f} s"


def out_of_memory(bench: Bench) -> str:
    """A request that asks for more memory than there is fails alone."""
    _write_python(bench, "greedy", repositories.TOO_MUCH)
    with bench.server() as server:
        given = rows(1)
        reason = ""
        try:
            ask(server, "greedy", -given - 1)
        except RuntimeError as error:
            reason = str(error)
        if "memory" not in reason.lower():
            raise AssertionError(f"the framework's words are not in the answer: {reason}")
        same(ask(server, "greedy", given), given * 2, "the next request")
    return "that request fails in the framework's words, the next one is answered"


def _write_python(bench: Bench, name: str, work: str) -> None:
    config = IO + 'backend: "python"\n' + GPU % 1
    repositories.model(bench.models, name, config, "model.py", repositories.DOUBLING % work)


CHECKS = (
    Check("onnx on CUDA", ("onnx", "onnxruntime"), onnx_on_cuda),
    Check("onnx in CUDA graphs", ("onnx", "onnxruntime"), onnx_in_graphs),
    Check("onnx on TensorRT", ("onnx", "onnxruntime", "tensorrt_libs"), onnx_on_tensorrt),
    Check("TensorRT plans", ("tensorrt",), tensorrt_plans),
    Check("TorchScript and torch.export", ("torch",), torch_models),
    Check("plans between models", ("tensorrt", "torch"), plans_between_models),
    Check("Python models", ("torch",), python_models),
    Check("CUDA tensors in calls", ("torch",), cuda_tensors),
    Check("clients' memory on the GPU", ("torch",), client_regions),
    Check("an error that CUDA does not survive", ("torch",), lost_device),
    Check("DALI pipelines", ("nvidia.dali",), dali_pipelines),
    Check("out of memory", ("torch",), out_of_memory),
    Check("filled batches", ("onnx", "onnxruntime"), filled_batches),
)
"""In order of value: `--seconds` may leave out the last ones."""
