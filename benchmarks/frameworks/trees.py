"""What an instance of the backend `fil` adds to treelite: batches through an instance beside treelite's own call, in turns, in one process.

    .venv-frameworks/bin/python -m benchmarks.frameworks.trees [ROUNDS]

A forest of 100 trees of depth 6 over 32 features, trained by XGBoost. Each round times both ways once, in the other order than the last one, for each number of rows, in requests of one row up to
32 rows and in 8 requests above, with one thread; printed are the medians, and the median of the rounds' ratios.
"""

import pathlib
import statistics
import sys
import tempfile
import time
import typing

import numpy as np
import treelite
import xgboost

from naiad.backends.backend import Backend, ModelSource
from naiad.backends.catalog import Catalog
from naiad.backends.instance import InstanceSpec
from naiad.backends.registry import Registry
from naiad.config.model_config import InstanceKind
from naiad.config.resolving.resolve import resolve
from naiad.core import datatypes
from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor

Array = np.ndarray[typing.Any, typing.Any]

FEATURES, TREES, DEPTH = 32, 100, 6
SIZES = (1, 8, 32, 256, 2048)
CONFIG = """backend: "fil" max_batch_size: 32768
parameters { key: "model_type" value { string_value: "xgboost_json" } }
parameters { key: "predict_proba" value { string_value: "true" } }
parameters { key: "cpu_nthread" value { string_value: "1" } }
"""


def main(rounds: int) -> None:
    """Print a line for each number of rows."""
    random = np.random.default_rng(1)
    values = random.normal(size=(4000, FEATURES)).astype(np.float32)
    labels = values[:, 0] * values[:, 1] + values[:, 2] > 0
    settings = {"objective": "binary:logistic", "max_depth": DEPTH}
    booster = xgboost.train(settings, xgboost.DMatrix(values, labels), TREES)
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root) / "m"
        (folder / "1").mkdir(parents=True)
        path = folder / "1" / "xgboost.json"
        booster.save_model(path)
        (folder / "config.pbtxt").write_text(CONFIG)
        trees = treelite.frontend.load_xgboost_model(path)
        config = resolve(folder, backends=Catalog()).config
        assert config is not None
        backend: Backend = Registry(clock=SystemClock()).get(config.backend)
        loaded = backend.load(ModelSource(config=config, version=1, model_dir=folder, options={}))
        instance = loaded.make_instance(InstanceSpec("m_0_0", InstanceKind.CPU, 0))
    print(
        f"{'rows':>6}{'bare loop':>13}{'instance':>13}{'compute':>13}   instance / bare   compute / bare   ({rounds} rounds)"
    )
    for size in SIZES:
        rows = values[:size]
        batch = _requests(rows, size if size <= 32 else 8)  # noqa: PLR2004 - see above
        times: list[tuple[int, int, int]] = []
        for number in range(rounds + 5):
            times_of = {}
            for which in ("bare", "ours") if number % 2 else ("ours", "bare"):
                begun = time.perf_counter_ns()
                if which == "bare":
                    treelite.gtil.predict(trees, rows, nthread=1)
                else:
                    execution = instance.execute(batch)
                times_of[which] = time.perf_counter_ns() - begun
            ran = execution.output_start_ns - execution.input_end_ns
            if number >= 5:  # noqa: PLR2004 - the first ones warm both up
                times.append((times_of["bare"], times_of["ours"], ran))
        middle = [statistics.median(column) / 1e3 for column in zip(*times, strict=True)]
        whole = statistics.median(ours / bare for bare, ours, _ in times)
        compute = statistics.median(inside / bare for bare, _, inside in times)
        print(
            f"{size:6}"
            + "".join(f"{value:10.1f} µs" for value in middle)
            + f"   {whole:15.3f}   {compute:14.3f}",
            flush=True,
        )


def _requests(rows: Array, count: int) -> list[Inference]:
    def ignore(_response: InferResponse) -> None:
        pass

    return [
        Inference(
            InferRequest(
                "m", 1, "", [Tensor("input__0", datatypes.FP32, part.shape, part)], [], {}
            ),
            ignore,
            batch_size=len(part),
            received_ns=0,
        )
        for part in np.split(rows, count)
    ]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
