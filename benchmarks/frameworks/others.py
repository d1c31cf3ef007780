"""Models beside networks: a forest, a pipeline of images, and a library in C; beside each the library's own call."""

import ctypes
import pathlib
import subprocess
import typing

import numpy as np

from benchmarks.frameworks.made import Made
from benchmarks.frameworks.nets import SHAPE, images
from naiad.backends import c

SIDE = 224
"""Of the images that the pipeline makes."""
_FEATURES, _TREES, _DEPTH = 32, 100, 6
_FOREST_ROWS = 256
_HORNER = (8, 1 << 14)
"""Rows, and FP32 of each, for the library in C."""


def trees(folder: pathlib.Path) -> Made:
    """100 trees of depth 6 of XGBoost, 256 rows; bare is treelite's call."""
    import treelite  # noqa: PLC0415
    import xgboost  # noqa: PLC0415

    random = np.random.default_rng(1)
    values = random.normal(size=(4000, _FEATURES)).astype(np.float32)
    labels = values[:, 0] * values[:, 1] + values[:, 2] > 0
    settings = {"objective": "binary:logistic", "max_depth": _DEPTH, "nthread": 1}
    path = folder / "1" / "xgboost.json"
    xgboost.train(settings, xgboost.DMatrix(values, labels), _TREES).save_model(path)
    forest = treelite.frontend.load_xgboost_model(path)
    rows = values[:_FOREST_ROWS]
    config = """backend: "fil" max_batch_size: 32768
parameters { key: "predict_proba" value { string_value: "true" } }
parameters { key: "cpu_nthread" value { string_value: "1" } }"""
    return Made(config, rows, lambda: treelite.gtil.predict(forest, rows, nthread=1))


def dali(folder: pathlib.Path) -> Made:
    """A serialised pipeline that resizes and normalises images; bare is a run of it, fed with the rows."""
    from nvidia.dali import fn, pipeline_def, types  # noqa: PLC0415
    from nvidia.dali.pipeline import Pipeline  # noqa: PLC0415

    def graph() -> typing.Any:
        images = fn.external_source(name="x", dtype=types.FLOAT, ndim=3, layout="CHW")
        resized = fn.resize(images, resize_x=SIDE, resize_y=SIDE, antialias=True)
        return fn.normalize(resized, axes=[1, 2])

    define = pipeline_def(graph)
    serialized = define(batch_size=16, num_threads=1, device_id=None).serialize()
    (folder / "1" / "model.dali").write_bytes(serialized)
    bare = Pipeline.deserialize(
        serialized,
        batch_size=16,
        device_id=None,
        prefetch_queue_depth=1,
        exec_dynamic=True,
        exec_async=True,
        exec_pipelined=True,
    )
    rows = images()
    fed = list(rows)

    def call() -> None:
        bare.feed_input("x", fed)
        bare.run()

    config = (
        f'backend: "dali" max_batch_size: 16 input {{ name: "x" data_type: TYPE_FP32 dims: {list(SHAPE)} }} '
        f'output {{ name: "y" data_type: TYPE_FP32 dims: {[SHAPE[0], SIDE, SIDE]} }}'
    )
    return Made(config, rows, call)


def c_library(folder: pathlib.Path) -> Made:
    """A polynomial of degree 64, computed in C for each number; bare is a call of the same function through ctypes."""
    path = folder / "1" / "libnaiad_horner.so"
    source = pathlib.Path(__file__).parent / "horner.c"
    options = ["-O2", "-std=c11", "-fPIC", "-shared", f"-I{c.__path__[0]}"]
    # The compiler that who builds such backends has.
    subprocess.run(["cc", *options, "-o", path, source], check=True)  # noqa: S603, S607
    horner = ctypes.CDLL(str(path)).horner
    horner.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    horner.restype = None
    rows = np.random.default_rng(2).random(_HORNER, np.float32)
    out = np.empty_like(rows)
    tensor = f"data_type: TYPE_FP32 dims: {_HORNER[1]}"
    config = f"""backend: "horner" max_batch_size: 8
input {{ name: "INPUT0" {tensor} }} output {{ name: "OUTPUT0" {tensor} }}"""
    return Made(config, rows, lambda: horner(rows.ctypes.data, out.ctypes.data, rows.size))
