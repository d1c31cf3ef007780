"""Models of tests: their code and their config, written into a folder."""

import collections.abc
import pathlib
import textwrap

from naiad.testing import ModelUnderTest

IMPORTS = "import numpy as np\nimport triton_python_backend_utils as pb_utils\n"

CONFIG = """
backend: "python"
max_batch_size: 4
input { name: "X" data_type: TYPE_FP32 dims: -1 }
output { name: "Y" data_type: TYPE_FP32 dims: -1 }
"""

DOUBLE = """
class TritonPythonModel:
    def initialize(self, args):
        self.args = args

    def execute(self, requests):
        self.seen = requests
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        if (x < 0).any():
            error = pb_utils.TritonError("no negative", pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse(error=error)
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * 2)], parameters={"rows": len(x)})
"""


def written(folder: pathlib.Path, code: str, config: str | None = CONFIG) -> pathlib.Path:
    """Write the model `m`; gives its folder."""
    (folder / "m" / "1").mkdir(parents=True)
    (folder / "m" / "1" / "model.py").write_text(IMPORTS + textwrap.dedent(code))
    if config is not None:
        (folder / "m" / "config.pbtxt").write_text(config)
    return folder / "m"


Load = collections.abc.Callable[..., ModelUnderTest]
"""The fixture `load`: code, config and options of `load_model` -> the model."""
