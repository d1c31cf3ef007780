"""What it is worth that batches of a convolutional ONNX model are filled up to a few sizes: requests per second beside no batching and always-full batches.

One network is loaded four times: batches of one row; batches of any size, as they come; the same filled up; and batches that are always full, because
requests wait for it. Slices of all four take turns, and medians are shown. With --gpu the ratios are held to two aims, and the exit status is 1
when one is missed: at 32 clients filled batches are at least 2.2 times as fast as no batching, and at least 0.6 times as fast as full ones. On the CPU,
where nothing is planned again, the table shows what the added rows cost.

    python -m benchmarks.server.filled_batches --gpu
"""

import argparse
import asyncio
import pathlib
import statistics
import sys
import tempfile

import numpy as np
import uvloop

from benchmarks import models
from benchmarks.server.engine_load import make_loader, rate
from naiad.core import datatypes
from naiad.core.tensor import Tensor
from naiad.engine.model import Model

CLIENTS = 32
SIDE = 112
CHANNELS = {True: (64,) + (128,) * 9, False: (32, 64, 64, 64, 64)}
"""Of the convolutions on a GPU and on the CPU: 8 GFLOP per row of the default size, and a tenth of that."""
AIMS = {"one row": 2.2, "always full": 0.6}
"""What filled batches are held to on a GPU: their rate, divided by this kind's."""

_CONFIG = """\
backend: "onnxruntime"
max_batch_size: {most}
input {{ name: "x" data_type: TYPE_FP32 dims: [ {dims} ] }}
output {{ name: "y" data_type: TYPE_FP32 dims: [ {out}, 1, 1 ] }}
instance_group {{ kind: {kind} count: 1 }}
parameters {{ key: "naiad.fill_batches" value {{ string_value: "{fill}" }} }}
"""
_BATCHING = "dynamic_batching {{ max_queue_delay_microseconds: {delay} }}\n"

KINDS = {
    "one row": (1, None, "off"),
    "as they come": (32, 0, "off"),
    "filled": (32, 0, "on"),
    "always full": (16, 100_000, "off"),
}
"""max_batch_size, the queue delay in microseconds (None: no dynamic batcher), and whether batches are filled up."""


def write_models(
    repository: pathlib.Path, shape: tuple[int, int, int], *, gpu: bool
) -> dict[str, pathlib.Path]:
    """Write one model per kind; gives their folders."""
    folders: dict[str, pathlib.Path] = {}
    for kind, (most, delay, fill) in KINDS.items():
        folder = folders[kind] = repository / kind.replace(" ", "_")
        models.convolution(folder, shape, CHANNELS[gpu])
        config = _CONFIG.format(
            most=most,
            out=CHANNELS[gpu][-1],
            dims=", ".join(map(str, shape)),
            kind="KIND_GPU" if gpu else "KIND_CPU",
            fill=fill,
        )
        if delay is not None:
            config += _BATCHING.format(delay=delay)
        (folder / "config.pbtxt").write_text(config)
    return folders


async def measure(options: argparse.Namespace) -> dict[str, "Measured"]:
    """Measure every kind."""
    gpu, shape = options.gpu, (3, options.side, options.side)
    loader = make_loader({}, gpus=(0,) if gpu else ())
    with tempfile.TemporaryDirectory() as name:
        served: dict[str, Model] = {}
        for kind, folder in write_models(pathlib.Path(name), shape, gpu=gpu).items():
            plan = await loader.plan(folder)
            if plan.reason:
                sys.exit(f"{kind}: {plan.reason}")
            served[kind] = await loader.load(plan.versions[0])
        values = np.random.default_rng(1).random((1, *shape), np.float32)
        tensor = Tensor("x", datatypes.FP32, values.shape, values)
        rates: dict[str, list[float]] = {kind: [] for kind in served}
        for _ in range(options.slices + 1):
            for kind, model in served.items():
                rates[kind].append(
                    await rate(model, tensor, clients=options.clients, seconds=options.seconds)
                )
        measured = {kind: Measured(model, rates[kind][1:]) for kind, model in served.items()}
        for model in served.values():
            await model.stop()
    loader.close()
    return measured


class Measured:
    """The median rate of a kind, and rows per batch, those that clients sent and those that were added."""

    def __init__(self, model: Model, rates: list[float]) -> None:
        counted = model.statistics
        executions = max(counted.execution_count, 1)
        self.per_second = statistics.median(rates)
        self.rows = counted.inference_count / executions
        self.added = counted.padding_rows / executions
        self.load_s = counted.load_ns / 1e9


def table(measured: dict[str, Measured]) -> str:
    """As Markdown."""
    filled = measured["filled"].per_second
    lines = [
        "| batches | requests/s | rows per batch | added rows per batch | load, s | filled, divided by this |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {kind} | {each.per_second:,.0f} | {each.rows:.1f} | {each.added:.1f} | {each.load_s:.1f} | {filled / each.per_second:.2f} |"
        for kind, each in measured.items()
    ]
    return "\n".join(lines)


def missed(measured: dict[str, Measured]) -> list[str]:
    """The aims that are not reached."""
    filled = measured["filled"].per_second
    return [
        f"filled batches reach {filled / measured[kind].per_second:.2f} of '{kind}', the aim is {aim}"
        for kind, aim in AIMS.items()
        if filled < aim * measured[kind].per_second
    ]


def main() -> int:
    """Measure, print, and give back the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--gpu", action="store_true", help="on GPU 0, and held to the aims")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--side", type=int, default=SIDE, help="of the image, in pixels")
    parser.add_argument("--slices", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each slice")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        measured = runner.run(measure(options))
    print(table(measured))
    for line in missed(measured) if options.gpu else ():
        print(line)
    return int(options.gpu and bool(missed(measured)))


if __name__ == "__main__":
    sys.exit(main())
