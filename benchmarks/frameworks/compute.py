"""What an instance adds to the library that it runs: a batch of 8 requests through an instance beside the library's own call, in turns, in one process.

    .venv-frameworks/bin/python -m benchmarks.frameworks.compute [ROUNDS [NAMES]]

80 rounds of everything, the default, take two minutes on a quiet machine; it needs a C compiler. The network of `nets` in four frameworks, a forest, a pipeline of images, a library
in C, each with one thread. The rounds are divided among eight models and instances of each kind, made one after the other. Each round times both ways once, in the other order than the
last one: on the clock, and processor time of the whole process, threads of the library included. "Compute" is what the statistics call compute_infer, and what the aim of at most 1.03
is about. Printed are medians, and medians of the rounds' ratios.
"""

import collections.abc
import gc
import importlib
import pathlib
import statistics
import sys
import tempfile
import time
import typing
import warnings

import numpy as np

from benchmarks.frameworks import nets, others
from benchmarks.frameworks.made import Array, Call, Made
from naiad.backends.backend import Backend, ModelSource, PlansWorkers
from naiad.backends.c.backend import CBackend
from naiad.backends.catalog import Catalog
from naiad.backends.instance import Instance, InstanceSpec, LoadedModel
from naiad.backends.registry import Registry
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.config.resolving.resolve import resolve
from naiad.core import datatypes
from naiad.core.inference import Inference
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor

MODELS: tuple[collections.abc.Callable[[pathlib.Path], Made], ...] = (
    others.trees, others.dali, nets.onnxruntime, nets.pytorch, nets.openvino, nets.tensorflow, others.c_library,
)  # fmt: skip
_REQUESTS = 8
_WARM_UP = 3
_BUILDS = 8
"""How many models and instances of each kind are made: two that are just the same differ by up to a fifth (DALI), by where their memory lies."""
_MS = 1e6


class Took(typing.NamedTuple):
    """One round, in ns: on the clock, or of processor time."""

    bare: int
    instance: int
    compute: int


class Marks:
    """A clock that notes the processor time whenever an instance asks for the time, so that both are known of what the instance calls computing."""

    def __init__(self) -> None:
        self._now_ns = time.monotonic_ns
        self.processor_ns: dict[int, int] = {}

    def monotonic_ns(self) -> int:
        """See `Clock`."""
        now = self._now_ns()
        self.processor_ns[now] = time.process_time_ns()
        return now

    def wall_ns(self) -> int:
        """See `Clock`."""
        return time.time_ns()


def main(rounds: int, names: collections.abc.Collection[str] = ()) -> None:
    """Print the table, or only the lines that are named."""
    marks = Marks()
    # Instances of worker processes ask the module itself.
    time.monotonic_ns = marks.monotonic_ns
    print(f"{rounds} rounds of {_REQUESTS} requests; ms on the clock / of processor time\n")
    print("| | bare loop | instance | compute | compute / bare | instance / bare |")
    print("|---|---|---|---|---|---|")
    for make in (each for each in MODELS if not names or each.__name__ in names):
        clock: list[Took] = []
        processor: list[Took] = []
        for _ in range(_BUILDS):
            more = _built(make, marks, max(1, rounds // _BUILDS))
            clock += more[0]
            processor += more[1]
        print(f"| {make.__name__} | {' | '.join(_cells(clock, processor))} |", flush=True)


def _built(
    make: collections.abc.Callable[[pathlib.Path], Made], marks: Marks, rounds: int
) -> tuple[list[Took], list[Took]]:
    """The rounds of a model and an instance of it that are made for them."""
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root) / "m"
        (folder / "1").mkdir(parents=True)
        made = make(folder)
        (folder / "config.pbtxt").write_text(made.config)
        instance, batch = _instance(folder, made.rows, marks)
        try:
            return _rounds(made.bare, instance, batch, marks, rounds)
        finally:
            instance.close()


def _cells(clock: list[Took], processor: list[Took]) -> list[str]:
    """Of each column the value on the clock and that of processor time."""
    columns = [
        [f"{statistics.median(column) / _MS:.2f}" for column in zip(*rounds, strict=True)]
        + [
            f"{statistics.median(part / took.bare for took, part in zip(rounds, parts, strict=True)):.3f}"
            for parts in ([took.compute for took in rounds], [took.instance for took in rounds])
        ]
        for rounds in (clock, processor)
    ]
    return [" / ".join(both) for both in zip(*columns, strict=True)]


def _rounds(
    bare: Call, instance: Instance, batch: list[Inference], marks: Marks, rounds: int
) -> tuple[list[Took], list[Took]]:
    """Of each round on the clock and of processor time."""
    found: list[tuple[Took, Took]] = []
    gc.collect()
    gc.disable()
    for number in range(rounds + _WARM_UP):
        took: dict[str, tuple[int, int]] = {}
        execution: typing.Any = None
        marks.processor_ns.clear()
        for which in ("bare", "instance") if number % 2 else ("instance", "bare"):
            used, begun = time.process_time_ns(), time.perf_counter_ns()
            if which == "bare":
                bare()
            else:
                execution = instance.execute(batch)
            took[which] = time.perf_counter_ns() - begun, time.process_time_ns() - used
        begin, end = execution.input_end_ns, execution.output_start_ns
        inside = end - begin, marks.processor_ns[end] - marks.processor_ns[begin]
        if number >= _WARM_UP:
            clock, processor = (
                Took(took["bare"][i], took["instance"][i], inside[i]) for i in range(2)
            )
            found.append((clock, processor))
    gc.enable()
    return [clock for clock, _ in found], [processor for _, processor in found]


def _instance(folder: pathlib.Path, rows: Array, clock: Marks) -> tuple[Instance, list[Inference]]:
    """An instance, and the batch."""
    resolution = resolve(folder, backends=Catalog(model_dir=folder))
    config = resolution.config
    assert config is not None, resolution.problems
    source = ModelSource(config=config, version=1, model_dir=folder, options={})
    spec = InstanceSpec("m_0_0", InstanceKind.CPU, 0)
    loaded, in_worker = _loaded(config, source, spec, clock)
    instance = loaded.make_instance(spec)
    (given,) = config.inputs
    # Worker processes know datatypes by their names.
    datatype: typing.Any = datatypes.FP32.name if in_worker else datatypes.FP32

    def ignore(_response: InferResponse) -> None:
        pass

    batch = [
        Inference(
            InferRequest("m", 1, "", [Tensor(given.name, datatype, part.shape, part)], [], {}),
            ignore,
            batch_size=len(part),
            received_ns=0,
        )
        for part in np.split(rows, _REQUESTS)
    ]
    return instance, batch


def _loaded(
    config: ModelConfig, source: ModelSource, spec: InstanceSpec, clock: Marks
) -> tuple[LoadedModel, bool]:
    """The model as the process of its instances has it, and whether that is one of the processes that know no server."""
    backend: Backend = (
        CBackend(name="horner", backend_dir=None)
        if config.backend == "horner"
        else Registry(clock=clock).get(config.backend)
    )
    if not isinstance(backend, PlansWorkers):
        return backend.load(source), False
    plan = backend.worker_plan(source, spec)
    module, _, name = plan.load.partition(":")
    loaded: LoadedModel = getattr(importlib.import_module(module), name)(dict(plan.settings))
    return loaded, True


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 80, sys.argv[2:])
