"""Calls between Python models beside Triton: how long one takes with host tensors of 1 KB, 1 MB and 16 MB, with and without the output.

One model calls another one in a loop and measures inside `execute`, on both servers with the same files. Rounds of both take turns; medians are
shown. It means something on a quiet machine only: `python -m benchmarks.server.calls [ROUNDS]`; with `CHECKOUT=DIR` another checkout of Naiad takes Triton's place.
"""

import json
import pathlib
import statistics
import sys
import tempfile
import textwrap
import urllib.request

from benchmarks.pairs import other_program
from tests.reference.process import ServerProcess, naiad_program

_SIZES = {"1 KB": (1 << 10, 60), "1 MB": (1 << 20, 30), "16 MB": (1 << 24, 8)}
"""Bytes of the tensor, and calls per round."""

_CALLER = """
    import time

    import numpy as np
    import triton_python_backend_utils as pb_utils


    class TritonPythonModel:
        def execute(self, requests):
            return [self._measured(pb_utils.get_input_tensor_by_name(each, "PLAN").as_numpy()) for each in requests]

        def _measured(self, plan):
            size, calls, with_output = (int(each) for each in plan)
            values = np.arange(size // 4, dtype=np.float32)
            output = "SAME" if with_output else "FIRST"
            times = []
            for _ in range(calls + 2):
                started = time.perf_counter()
                tensor = pb_utils.Tensor("INPUT", values)
                response = pb_utils.InferenceRequest(
                    model_name="callee", inputs=[tensor], requested_output_names=[output]
                ).exec()
                if response.has_error():
                    raise pb_utils.TritonModelException(response.error().message())
                found = pb_utils.get_output_tensor_by_name(response, output).as_numpy()
                times.append(time.perf_counter() - started)
                assert found[-1] == (values[-1] if with_output else 0)
            median = np.array([sorted(times[2:])[calls // 2]], np.float64)
            return pb_utils.InferenceResponse([pb_utils.Tensor("SECONDS", median)])
"""

_CALLEE = """
    import triton_python_backend_utils as pb_utils


    class TritonPythonModel:
        def execute(self, requests):
            responses = []
            for request in requests:
                values = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
                wanted = request.requested_output_names()
                content = values if "SAME" in wanted else values[:1].copy()
                responses.append(pb_utils.InferenceResponse([pb_utils.Tensor(next(iter(wanted)), content)]))
            return responses
"""

_CONFIGS = {
    "caller": """
        backend: "python"
        input { name: "PLAN" data_type: TYPE_INT64 dims: 3 }
        output { name: "SECONDS" data_type: TYPE_FP64 dims: 1 }
        instance_group { kind: KIND_CPU count: 1 }
    """,
    "callee": """
        backend: "python"
        input { name: "INPUT" data_type: TYPE_FP32 dims: -1 }
        output [ { name: "SAME" data_type: TYPE_FP32 dims: -1 }, { name: "FIRST" data_type: TYPE_FP32 dims: -1 } ]
        instance_group { kind: KIND_CPU count: 1 }
    """,
}


def _repository(folder: pathlib.Path) -> pathlib.Path:
    for name, code in (("caller", _CALLER), ("callee", _CALLEE)):
        version = folder / name / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(textwrap.dedent(code), encoding="utf-8")
        (folder / name / "config.pbtxt").write_text(_CONFIGS[name], encoding="utf-8")
    return folder


def _milliseconds(server: ServerProcess, plan: list[int]) -> float:
    body = {"inputs": [{"name": "PLAN", "datatype": "INT64", "shape": [3], "data": plan}]}
    address = f"http://{server.http}/v2/models/caller/infer"
    with urllib.request.urlopen(address, json.dumps(body).encode(), timeout=120) as reply:
        return float(json.load(reply)["outputs"][0]["data"][0]) * 1000


def main(rounds: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        repository = _repository(folder / "models")
        with (
            ServerProcess(other_program(), [repository], log=folder / "other.log") as other,
            ServerProcess(naiad_program(), [repository], log=folder / "naiad.log") as ours,
        ):
            print(f"| a call of | output | {other.program.name}, ms | Naiad, ms | times as fast |")
            print("|---|---|---|---|---|")
            for size, (bytes_, calls) in _SIZES.items():
                for with_output in (0, 1):
                    plan = [bytes_, calls, with_output]
                    pairs = [
                        (_milliseconds(other, plan), _milliseconds(ours, plan))
                        for _ in range(rounds)
                    ]
                    theirs, mine = (statistics.median(each) for each in zip(*pairs, strict=True))
                    ratio = statistics.median(a / b for a, b in pairs)
                    print(f"| {size} | {'back' if with_output else 'not asked'} | {theirs:.3f} | {mine:.3f} | {ratio:.2f} |")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
