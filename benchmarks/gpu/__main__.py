"""Measures on one GPU, without a network: networks beside bare loops over their frameworks, filled batches, calls and regions on the GPU, workers beside threads.

    PYTHONPATH=server:. python -m benchmarks.gpu [--only nets,calls] [--json FILE] [--keep FOLDER]

Each step runs in a process of its own with a time limit, and all of them take about 150 s. What was measured is in the JSON file after every step, also of a step that was cut off.
Measures take turns, and medians are shown. A package that is missing is named, and its steps are left out.
"""

import argparse
import json
import pathlib
import signal
import sys
import tempfile

from benchmarks.gpu import host, nets, plans, tensors
from benchmarks.gpu.rows import FILE
from tests.gpu import faults, machine, report
from tests.gpu.listing import Check
from tests.gpu.machine import Gpu
from tests.gpu.report import Outcome
from tests.gpu.running import run

STEPS = (
    Check("nets: encoder", ("torch",), nets.encoder, 60, alone=True),
    Check("nets: resnet", ("torch",), nets.resnet, 60, alone=True),
    Check("filled batches", ("onnx", "onnxruntime-gpu"), faults.filled_batches, 90, alone=True),
    Check("calls between models", ("torch",), tensors.calls, 60, alone=True),
    Check("regions", ("torch",), tensors.regions, 60, alone=True),
    Check("process beside thread", ("onnx", "onnxruntime-gpu"), host.beside, 45, alone=True),
    Check("TensorRT plan", ("tensorrt", "torch", "onnx"), plans.plan, 90, alone=True),
)


def main() -> int:
    """Measure, print, write; gives the exit status, which is 1 if a step failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--only", default="", help="steps whose names contain one of these words")
    parser.add_argument("--seconds", type=float, default=240, help="after so many no step begins")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("build/gpu-bench.json"))
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for models and logs")
    options = parser.parse_args()
    gpu = machine.find_gpu()
    if not isinstance(gpu, Gpu):
        print(f"There is no GPU on this machine: {gpu}.")
        return report.NO_GPU
    words = [word.strip() for word in options.only.split(",") if word.strip()]
    chosen = [each for each in STEPS if not words or any(word in each.name for word in words)]
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as made:
        folder = options.keep or pathlib.Path(made)
        for outcome in run(chosen, gpu, folder, seconds=options.seconds):
            outcomes.append(outcome)
            print(report.table([outcome]).splitlines()[0], flush=True)
            rows = [
                line
                for path in sorted(folder.glob(f"*/{FILE}"))
                for line in map(json.loads, path.read_text().splitlines())
            ]
            options.json.parent.mkdir(parents=True, exist_ok=True)
            found = json.loads(report.document(gpu.name, machine.versions(), outcomes))
            options.json.write_text(json.dumps({**found, "rows": rows}, indent=1) + "\n")
    print(f"\n{gpu.name}\n\n| measure | | aim |\n|---|---|---|")
    for row in rows if outcomes else ():
        values = ", ".join(
            f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in row.items()
            if key not in ("measure", "aim")
        )
        print(f"| {row['measure']} | {values} | {row.get('aim', '')} |")
    print(f"\nwritten to {options.json}")
    return report.status(outcomes)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and the checks with it
    sys.exit(main())
