"""Nets translated, and run by onnxruntime without a server."""

import io
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

from naiad.backends.caffe2 import onnx_file
from naiad.backends.caffe2.translation import InputType, Translation, read_nets, translate


def translated(path: pathlib.Path, inputs: Mapping[str, tuple[Any, Sequence[int]]]) -> Translation:
    """A model translated for inputs of these dtypes and dims."""
    types = {
        name: InputType(dtype=np.dtype(dtype), dims=tuple(dims))
        for name, (dtype, dims) in inputs.items()
    }
    return translate(read_nets(path), types)


def run(translation: Translation, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """What onnxruntime makes of a translation: the outputs by name, held against what the translation says of them."""
    file = io.BytesIO()
    onnx_file.write(translation.graph, file)
    assert len(file.getvalue()) == onnx_file.size_of(translation.graph)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    names = list(translation.outputs)
    for output in session.get_outputs():
        # The runtime knows what the translation knows: a config is held against both.
        dims = translation.outputs[output.name].dims
        if dims is not None:
            shown = [size if isinstance(size, int) else -1 for size in output.shape]
            assert [size if said >= 0 else -1 for said, size in zip(dims, shown, strict=True)] == [
                *dims
            ], output.name
    results = dict(zip(names, session.run(names, dict(feeds)), strict=True))
    for name, array in results.items():
        value = translation.outputs[name]
        assert value.dtype == array.dtype, name
        if value.dims is not None:
            assert len(value.dims) == array.ndim, (value.dims, array.shape)
            assert all(
                said in (-1, real) for said, real in zip(value.dims, array.shape, strict=True)
            ), (value.dims, array.shape)
    return results
