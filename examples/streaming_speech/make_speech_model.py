"""Makes a model repository with Silero's voice activity detector, in a form that can be batched.

    pip install onnx && pip install --no-deps silero-vad
    python make_speech_model.py speech_repository

The package's model has the batch as the second dimension of its state, takes the sampling rate as a number without dimensions, and wants the end of the
last chunk before each new one. Triton's batching needs the batch first everywhere, so the model gets a few operators around it; its weights stay as they are.
"""

import argparse
import importlib.util
import pathlib
import shutil
import sys

import onnx
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).resolve().parent
NAME = "silero_vad"
FILE = "silero_vad_16k_op15.onnx"
CHUNK = 512
"""Samples per request, 32 ms."""
CONTEXT = 64
"""Samples of the last chunk that the model sees again."""
RATE = 16_000
STATE = (2, 128)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="the model repository to make")
    repository = parser.parse_args().folder
    make_repository(repository)
    print(f"naiad serve --model-repository {repository}")
    return 0


def make_repository(repository: pathlib.Path) -> pathlib.Path:
    """Write the model and its config there; gives back the model's folder."""
    folder = repository / NAME
    (folder / "1").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HERE / "config.pbtxt", folder / "config.pbtxt")
    onnx.save(batchable(onnx.load(model_file())), folder / "1" / "model.onnx")
    return folder


def model_file() -> pathlib.Path:
    """The package's model. The package is not imported, because that needs torch, which its model does not."""
    spec = importlib.util.find_spec("silero_vad")
    if spec is None or spec.origin is None:
        sys.exit("the package silero-vad is not installed: pip install --no-deps silero-vad")
    return pathlib.Path(spec.origin).parent / "data" / FILE


def batchable(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with AUDIO, STATE_IN and CONTEXT_IN in, PROBABILITY, STATE_OUT and CONTEXT_OUT out, the batch first in all of them."""
    graph = model.graph
    before = [
        helper.make_node("Concat", ["CONTEXT_IN", "AUDIO"], ["input"], axis=1),
        helper.make_node("Transpose", ["STATE_IN"], ["state"], perm=(1, 0, 2)),
    ]
    after = [
        helper.make_node("Identity", ["output"], ["PROBABILITY"]),
        helper.make_node("Transpose", ["stateN"], ["STATE_OUT"], perm=(1, 0, 2)),
        helper.make_node(
            "Slice", ["AUDIO", "context_start", "context_end", "one"], ["CONTEXT_OUT"]
        ),
    ]
    constants = [
        helper.make_tensor("sr", TensorProto.INT64, [], [RATE]),
        helper.make_tensor("context_start", TensorProto.INT64, [1], [CHUNK - CONTEXT]),
        helper.make_tensor("context_end", TensorProto.INT64, [1], [CHUNK]),
        helper.make_tensor("one", TensorProto.INT64, [1], [1]),
    ]
    wrapped = helper.make_graph(
        [*before, *graph.node, *after],
        NAME,
        [value("AUDIO", CHUNK), value("STATE_IN", *STATE), value("CONTEXT_IN", CONTEXT)],
        [value("PROBABILITY", 1), value("STATE_OUT", *STATE), value("CONTEXT_OUT", CONTEXT)],
        [*graph.initializer, *constants],
    )
    made = helper.make_model(wrapped, opset_imports=model.opset_import, ir_version=model.ir_version)
    onnx.checker.check_model(made)
    return made


def value(name: str, *dims: int) -> onnx.ValueInfoProto:
    """A tensor of numbers with a batch dimension in front."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *dims])


if __name__ == "__main__":
    sys.exit(main())
