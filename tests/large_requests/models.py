"""The models that large requests are sent to. They do as little as possible themselves: the server is what is measured."""

import collections.abc
import pathlib

_NUMBERS = """\
backend: "python"
input { name: "x" data_type: TYPE_%s dims: -1 }
output { name: "size" data_type: TYPE_INT32 dims: 1 }
instance_group { kind: KIND_CPU }
"""

_GENERATE = """\
backend: "python"
input { name: "x" data_type: TYPE_STRING dims: -1 optional: true }
input { name: "n" data_type: TYPE_FP32 dims: -1 optional: true }
output { name: "size" data_type: TYPE_INT32 dims: 1 }
instance_group { kind: KIND_CPU }
"""

_SIZE_MODEL = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        size = np.array([1], np.int32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("size", size)]) for request in requests]
"""

_MAKER = """\
backend: "python"
input { name: "count" data_type: TYPE_INT32 dims: 1 }
output { name: "out" data_type: TYPE_%s dims: -1 }
instance_group { kind: KIND_CPU }
"""

_MAKER_MODEL = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            count = int(pb_utils.get_input_tensor_by_name(request, "count").as_numpy()[0])
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("out", self.make(count))]))
        return responses

    def make(self, count):
        return MADE
"""

_MAKERS = {
    "makes_numbers": ("FP32", "np.full(count, 1.1, np.float32)"),
    "makes_nan": ("FP32", "np.full(count, np.nan, np.float32)"),
    "makes_integers": ("INT64", "np.full(count, 2**62, np.int64)"),
    "makes_bools": ("BOOL", "np.ones(count, np.bool_)"),
    "makes_strings": ("STRING", 'np.full(count, b"ab", np.object_)'),
    "makes_text": ("STRING", 'np.array([b"x" * count], np.object_)'),
}


def make(folder: pathlib.Path, names: collections.abc.Collection[str] = ()) -> pathlib.Path:
    """The repository, with all models or with some.

    `takes_…`: any number of elements in, one number out. `makes_…`: the other way round.
    """
    takers = {
        f"takes_{kind.lower()}": _NUMBERS % kind for kind in ("FP32", "INT64", "BOOL", "STRING")
    }
    found = {
        **{name: (config, _SIZE_MODEL) for name, config in takers.items()},
        "takes_any": (_GENERATE, _SIZE_MODEL),
        **{
            name: (_MAKER % kind, _MAKER_MODEL.replace("MADE", made))
            for name, (kind, made) in _MAKERS.items()
        },
    }
    for name, (config, model) in found.items():
        if not names or name in names:
            version = folder / name / "1"
            version.mkdir(parents=True)
            (version.parent / "config.pbtxt").write_text(config)
            (version / "model.py").write_text(model)
    return folder
