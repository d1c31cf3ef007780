"""The GPU checks of values: what backends give on a GPU beside what they give on the CPU. Each starts a server on models of its own and asks it; it returns what it saw, and fails by an exception."""

import base64
import concurrent.futures
import functools
import time

import numpy as np

from naiad.tensors import cudart
from tests.gpu import repositories
from tests.gpu.bench import Bench, ask, expect, post, reasons, rows, same
from tests.gpu.repositories import GPU, IO
from tests.reference.process import ServerProcess


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
    exact = """optimization { execution_accelerators { gpu_execution_accelerator { name: "cuda" parameters { key: "use_tf32" value: "0" } } } }
"""
    bench.onnx("exact", GPU % 1 + exact)
    given = rows(5)
    with bench.server() as server:
        expected = ask(server, "cpu", given)

        def beside_cpu(model: str, most: float) -> str:
            away = same(ask(server, model, given), expected, model)
            expect(away <= most, f"differs by {away:.1g}, at most {most:.0g} is expected")
            return f"differs from the CPU by {away:.1g}"

        for what, model, most in (("KIND_GPU", "gpu", 1e-3), ("use_tf32 0", "exact", 1e-5), (f"cc_model_filenames {key}", "card", 1e-3)):  # fmt: skip
            bench.step(what, functools.partial(beside_cpu, model, most))
    return "as on the CPU"


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
            name = "X" if form == "script" else "INPUT__0"
            expected, *found = (ask(server, f"{form}_{place}", given, name) for place in groups)
            seen += [f"{form} {same(each, expected, form):.1g}" for each in found]
    return "differ from the CPU by: " + ", ".join(seen)


def torch_in_graphs(bench: Bench) -> str:
    """TorchScript, torch.export and a module in Python in CUDA graphs give what they give without, whatever the number of rows, two instances each; a model that cannot be captured is served."""
    graphs = "optimization { cuda { graphs: true } }\n"
    batcher = "dynamic_batching { max_queue_delay_microseconds: 1000 }\n"
    by_place = IO.replace('"X"', '"INPUT__0"').replace('"Y"', '"OUTPUT__0"')
    script = 'platform: "pytorch_libtorch"\n'
    runtime = 'backend: "pytorch"\nruntime: "model.py"\n' + repositories.UNCOMPILED
    forms = {
        "script": (IO + script, "model.pt"),
        "export": (by_place + 'platform: "torch_aoti"\n', "model.pt2"),
        "module": (IO + runtime, "model.py"),
    }
    for form, (head, file) in forms.items():
        for name, more in (("plain", GPU % 1), ("graphs", graphs + GPU % 2), ("filled", graphs + batcher + GPU % 2)):  # fmt: skip
            path = repositories.model(bench.models, f"{form}_{name}", head + more, file)
            if form == "module":
                path.write_text(repositories.MODULE)
            else:
                repositories.torch(path, form)
    path = repositories.model(bench.models, "branches", IO + script + graphs + GPU % 2, "model.pt")
    repositories.torch(path, "branches")
    with bench.server() as server:
        for form in forms:
            bench.step(form, functools.partial(_in_graphs, server, form))
        given = rows(3)
        bench.step("not captured", lambda: f"{same(ask(server, 'branches', given), given + 1, 'branches'):.1g} away")  # fmt: skip
    log = bench.log
    captured = log.count("captured CUDA graph")
    # Of 1, 2, 3, 4, 6 and 8 rows, and with a batcher of 1, 2, 4 and 8; two instances of three models.
    expect(captured == 60, f"{captured} graphs were captured, and 60 are expected: {_unable(log)}")
    refused = log.count("unable to record CUDA graph")
    expect(refused == 2, f"{refused} lines say that a graph cannot be captured, and 2 are expected: {_unable(log)}")  # fmt: skip
    return f"right, {captured} CUDA graphs; {_unable(log)}"


def _in_graphs(server: ServerProcess, form: str) -> str:
    """Several requests at once, so that both instances have some and the batcher joins them."""
    name = "INPUT__0" if form == "export" else "X"
    given = [rows(count) + at for at, count in enumerate((1, 3, 8, 5, 7, 2, 1, 8) * 2)]
    expected = [ask(server, f"{form}_plain", each, name) for each in given]
    away = 0.0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for kind in ("graphs", "filled"):
            asking = functools.partial(ask, server, f"{form}_{kind}", name=name)
            for found, wanted in zip(pool.map(asking, given), expected, strict=True):
                away = max(away, same(found, wanted, f"{form}_{kind}, {len(wanted)} rows"))
    return f"differs from runs without by {away:.1g}"


def _unable(log: str) -> str:
    return next((line[-260:] for line in log.splitlines() if "unable to record" in line), "")


def compiled(bench: Bench) -> str:
    """A .pt2 package that was compiled for CUDA gives what TorchScript gives on the CPU, with CUDA graphs and without."""
    renamed = IO.replace('"X"', '"INPUT__0"').replace('"Y"', '"OUTPUT__0"')
    cpu = IO + 'platform: "pytorch_libtorch"\ninstance_group { kind: KIND_CPU }'
    repositories.torch(repositories.model(bench.models, "cpu", cpu, "model.pt"), "script")
    on_gpu = renamed + 'platform: "torch_aoti"\n' + GPU % 1
    made = repositories.model(bench.models, "gpu", on_gpu, "model.pt2")
    repositories.torch(made, "cuda")
    graphs = (
        renamed + 'platform: "torch_aoti"\n' + GPU % 2 + "optimization { cuda { graphs: true } }"
    )
    path = repositories.model(bench.models, "graphs", graphs, "model.pt2")
    path.write_bytes(made.read_bytes())
    with bench.server() as server:
        away = 0.0
        for count in (1, 6, 8):
            given = rows(count)
            expected = ask(server, "cpu", given)
            for model in ("gpu", "graphs"):
                found = ask(server, model, given, "INPUT__0")
                away = max(away, same(found, expected, f"{model}, {count} rows"))
    captured = bench.log.count("captured CUDA graph")
    return f"differs from the CPU by {away:.1g}, {captured} CUDA graphs; {_unable(bench.log)}"


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
        older_plan = reasons(server)["older"]
        log = bench.log
    if not older_plan:
        raise AssertionError("a plan whose version was changed has loaded")
    captured = log.count("captured CUDA graph")
    if not captured:
        raise AssertionError("no CUDA graph was captured: " + log[-600:])
    return f"right in all profiles, {captured} CUDA graphs; a changed plan: {older_plan[:160]}"


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
    bench.python("device", repositories.ON_DEVICE)
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
    bench.python("host", repositories.ON_HOST)
    with bench.server() as server:
        given = rows(3)
        return f"differs by {same(ask(server, 'host', given), given * 2, 'model.py'):.1g}"


def cuda_tensors(bench: Bench) -> str:
    """A model.py returns a CUDA tensor, and another one sends one in a call and gets one back."""
    bench.python("device", repositories.ON_DEVICE)
    bench.python("calling", repositories.CALLING)
    with bench.server() as server:
        given = rows(3)
        same(ask(server, "device", given), given * 2, "an output on the device")
        same(ask(server, "calling", given), (given + 1) * 2, "a call with a tensor on the device")
    return "outputs and calls with tensors on the device are right"


def client_regions(bench: Bench) -> str:
    """A client's memory on the GPU, as inputs and outputs of models on the CPU and on the GPU, over HTTP; with how long a request of 16 MB takes."""
    repositories.doubling(bench.models)
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
        post(server, f"{region}/register", {**registration, **size})
        for model in ("cpu", "gpu"):
            times: list[float] = []
            for _ in range(50):
                began = time.monotonic()
                post(server, f"/v2/models/{model}/infer", body)
                times.append(time.monotonic() - began)
            y = np.empty_like(given)
            runtime.to_host(y.ctypes.data, address + given.nbytes, y.nbytes, 0)
            same(y, given * 2, f"the region after a model on the {model}")
            runtime.to_device(address + given.nbytes, given.ctypes.data, given.nbytes, 0)
            found.append(f"{model} {sorted(times)[25] * 1e3:.2f} ms")
        post(server, f"{region}/unregister", {})
    runtime.free(address, 0)
    return f"16 MB in and out, p50: {', '.join(found)} (Triton on an H200: 9.5 and 1.17 ms)"
