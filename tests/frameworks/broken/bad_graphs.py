"""The table of graphs that disagree with their config, of operators that a framework does not know, and of files that claim more than there is.

A case is a model of its own, or the good model of its framework with another config.
"""

import collections.abc
import dataclasses

from tests.frameworks.broken import odd_models
from tests.frameworks.broken.good_models import FRAMEWORKS, Good, tensors

REFUSED, FAILS, SERVED = "refused", "fails", "served"
"""The model is not loaded; it is, and each request fails; the framework makes up for the difference."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A model.

    Attributes:
        outcome: `REFUSED`, `FAILS` or `SERVED`.
        says: of its reason, or of the error of each request; the first part is the framework's own reason, or the difference.
        seen: `naiad check` says it in the same words.
        model: what has to be written; None for a copy of the good model.
        edit: of a copy's config.
    """

    outcome: str
    says: tuple[str, ...] = ()
    seen: bool = False
    model: Good | None = None
    edit: collections.abc.Callable[[str], str] = str


def _in(kind: str, old: str, new: str) -> collections.abc.Callable[[str], str]:
    """Changes the config's line of its input, or of its output."""

    def edit(config: str) -> str:
        lines = config.split("\n")
        at = next(i for i, line in enumerate(lines) if line.startswith(kind))
        assert old in lines[at], (old, lines[at])
        lines[at] = lines[at].replace(old, new)
        return "\n".join(lines)

    return edit


def _more_inputs(config: str) -> str:
    return f'{config}input {{ name: "more" data_type: TYPE_FP32 dims: [ 2 ] }}\n'


def _edits(given: str, answer: str, dims: str, answer_dims: str) -> dict[str, collections.abc.Callable[[str], str]]:  # fmt: skip
    return {
        "input_name": _in("input", f'"{given}"', f'"{_other(given)}"'),
        "output_name": _in("output", f'"{answer}"', f'"{_other(answer)}"'),
        "input_datatype": _in("input", "TYPE_FP32", "TYPE_INT32"),
        "output_datatype": _in("output", "TYPE_FP32", "TYPE_INT32"),
        "input_dims": _in("input", f"[ {dims} ]", "[ 3 ]"),
        "output_dims": _in("output", f"[ {answer_dims} ]", "[ 3 ]"),
        "more_inputs": _more_inputs,
    }


def _other(name: str) -> str:
    """A name that the model does not have."""
    return name.replace("__0", "__7") if "__" in name else "nonesuch"


def _disagreeing() -> dict[str, Case]:
    edits = {
        **{each: _edits("x", "y", "2", "2") for each in ("onnx", "openvino", "savedmodel", "graphdef", "caffe2")},
        "torchscript": _edits("x", "y__0", "2", "2"),
        "exported": _edits("INPUT__0", "OUTPUT__0", "2", "2"),
        "forest": _edits("input__0", "output__0", "5", "1"),
    }  # fmt: skip
    return {
        f"{framework}-{kind}": dataclasses.replace(
            EXPECTED.get(f"{framework}-{kind}") or ALIKE[kind], edit=edit
        )
        for framework, kinds in edits.items()
        for kind, edit in kinds.items()
        if f"{framework}-{kind}" not in LEFT_OUT
    }


ALIKE = {
    "input_name": Case(REFUSED, ("unexpected inference input 'nonesuch', allowed inputs are: x",), seen=True),
    "output_name": Case(REFUSED, ("unexpected inference output 'nonesuch', allowed outputs are: y",), seen=True),
    "input_datatype": Case(REFUSED, ("configuration expects datatype TYPE_INT32 for input ", "model provides TYPE_FP32"), seen=True),
    "output_datatype": Case(REFUSED, ("configuration expects datatype TYPE_INT32 for output ", "model provides TYPE_FP32"), seen=True),
    "input_dims": Case(REFUSED, ("config says dims [3] after the batch dimension, the graph says ",), seen=True),
    "output_dims": Case(REFUSED, ("config says dims [3] after the batch dimension, the graph says ",), seen=True),
    "more_inputs": Case(REFUSED, ("unexpected inference input 'more', allowed inputs are: x",), seen=True),
}  # fmt: skip
"""What most backends say."""

LEFT_OUT = frozenset(("torchscript-input_datatype", "torchscript-output_datatype", "torchscript-output_dims"))  # fmt: skip
"""TorchScript takes any datatype, and `torchscript-odd` gives others."""

_OTHER_DATATYPE = "unexpected datatype float32 of output 'y'"
_OTHER_SHAPE = "unexpected shape of output 'y'"

EXPECTED: dict[str, Case] = {
    # by the order of the config
    "torchscript-input_name": Case(SERVED),
    "torchscript-output_name": Case(FAILS, ("refers to an output index which doesn't exist. This model has 1 outputs",)),
    "torchscript-input_dims": Case(FAILS, ("PyTorch execute failure: The size of tensor a (3) must match the size of tensor b (2)",)),
    "torchscript-more_inputs": Case(REFUSED, ("configuration expects 2 inputs, model provides 1 (x)",), seen=True),
    "exported-input_name": Case(REFUSED, ("it has no input 'INPUT__7'; it has INPUT__0 or ARGS[0]",), seen=True),
    "exported-output_name": Case(REFUSED, ("it has no output 'OUTPUT__7'; it has OUTPUT__0 or RESULT",), seen=True),
    "exported-input_dims": Case(REFUSED, ("configuration expects dims [3] for input 'INPUT__0', model provides [2]",), seen=True),
    "exported-output_dims": Case(REFUSED, ("configuration expects dims [3] for output 'OUTPUT__0', model provides [2]",), seen=True),
    "exported-input_datatype": Case(REFUSED, ("configuration expects datatype TYPE_INT32 for input ", "model provides TYPE_FP32"), seen=True),
    "exported-output_datatype": Case(REFUSED, ("configuration expects datatype TYPE_INT32 for output ", "model provides TYPE_FP32"), seen=True),
    "exported-more_inputs": Case(REFUSED, ("it has no input 'more'",), seen=True),
    "caffe2-input_name": Case(REFUSED, ("the net needs the inputs 'x', the configuration lists 'nonesuch' (add input { name: \"x\"",), seen=True),
    "forest-input_name": Case(REFUSED, ("unexpected inference input 'input__7', allowed inputs are: input__0",), seen=True),
    "forest-output_name": Case(REFUSED, ("unexpected inference output 'output__7', allowed outputs are: output__0",), seen=True),
    "forest-more_inputs": Case(REFUSED, ("unexpected inference input 'more', allowed inputs are: input__0",), seen=True),
    # the net, which has neither datatypes nor dims, would give others
    "caffe2-input_datatype": Case(REFUSED, ("configuration expects datatype TYPE_FP32 for output 'y', model provides TYPE_INT32",), seen=True),
    "caffe2-input_dims": Case(REFUSED, ("config says dims [2] after the batch dimension, the graph says [?, 3]",), seen=True),
    # it converts
    "openvino-input_datatype": Case(SERVED),
    "openvino-output_datatype": Case(SERVED),
    # a GraphDef has names, and datatypes and shapes of its inputs
    "graphdef-output_datatype": Case(FAILS, (_OTHER_DATATYPE,)),
    "graphdef-output_name": Case(REFUSED, ("unexpected inference output 'nonesuch', allowed outputs are: Const, Sum, factors, y",), seen=True),
    "graphdef-output_dims": Case(FAILS, (_OTHER_SHAPE,)),
}  # fmt: skip

X_Y, INDEXED, NUMBERED = tensors("x", "y"), tensors("x", "y__0"), tensors("INPUT__0", "OUTPUT__0")


def _model(of: str, make: object, config: str = "") -> Good:
    good = FRAMEWORKS[of]
    assert callable(make)
    return dataclasses.replace(good, make=make, tensors=config or good.tensors)


NO_TORCH_OPERATOR = "name the library that has it in model_operations { op_library_filename }"

WRITTEN: dict[str, Case] = {
    "torchscript-operator": Case(
        REFUSED, ("Unknown builtin op: mylib::frobnicate", NO_TORCH_OPERATOR), model=_model("torchscript", odd_models.script_operator)
    ),
    "torchscript-claim": Case(
        REFUSED, ("a tensor takes 100000000000 bytes by its description", "copy it again"), seen=True,
        model=_model("torchscript", odd_models.script_claim),
    ),
    "exported-operator": Case(
        REFUSED, ("failed to resolve torch.ops.mylib.frobnicate.default to an operator", NO_TORCH_OPERATOR),
        model=_model("exported", odd_models.exported_operator),
    ),
    "exported-claim": Case(REFUSED, ("requiring a storage size of 100000000000",), model=_model("exported", odd_models.exported_claim)),
    "onnx-domain": Case(
        REFUSED, ("my.lib:Frobnicate(-1) is not a registered function/op", "op_library_filename"), model=_model("onnx", odd_models.onnx_domain)
    ),
    "onnx-operator": Case(
        REFUSED, ("No Op registered for Frobnicate with domain_version of 17", "an older opset"), model=_model("onnx", odd_models.onnx_operator)
    ),
    "onnx-opset": Case(REFUSED, ("Opset 99 is under development", "or install a newer onnxruntime than"), model=_model("onnx", odd_models.onnx_opset)),
    "onnx-claim": Case(REFUSED, ("Initializer 'weights' declares a size of 100000000000 bytes",), model=_model("onnx", odd_models.onnx_claim)),
    "openvino-operator": Case(
        REFUSED, ("Opset opset1 doesn't contain the operation with type: Frobnicate", "CPU_EXTENSION_PATH"),
        model=_model("openvino", odd_models.openvino_operator),
    ),
    "openvino-opset": Case(
        REFUSED, ("from unsupported opset: opset99", "CPU_EXTENSION_PATH"), model=_model("openvino", odd_models.openvino_opset)
    ),
    "openvino-claim": Case(REFUSED, ("model.xml' takes values from 100000000000: copy both files again",), seen=True, model=_model("openvino", odd_models.openvino_claim)),
    "savedmodel-operator": Case(
        REFUSED, ("Op type not registered 'Mal'", "op_library_filename"), model=_model("savedmodel", odd_models.savedmodel_operator)
    ),
    "graphdef-operator": Case(
        REFUSED, ("Op type not registered 'Mal'", "op_library_filename"), model=_model("graphdef", odd_models.graphdef_operator)
    ),
    "graphdef-claim": Case(FAILS, ("TensorFlow execute failure: Cannot parse tensor from proto",), model=_model("graphdef", odd_models.graphdef_claim)),
    "caffe2-operator": Case(REFUSED, ("Frobnicate",), seen=True, model=_model("caffe2", odd_models.caffe2_operator)),
    "caffe2-claim": Case(REFUSED, ("this net fills more than",), seen=True, model=_model("caffe2", odd_models.caffe2_claim)),
    "forest-operator": Case(REFUSED, ("reg:frobnicate",), model=_model("forest", odd_models.forest_operator)),
    "forest-claim": Case(REFUSED, ("it says that it has 25000000000 features",), seen=True, model=_model("forest", odd_models.forest_claim)),
    **{
        f"{framework}-odd": Case(SERVED, model=_model(framework, make))
        for framework, make in {
            "torchscript": odd_models.script_odd, "exported": odd_models.exported_odd, "onnx": odd_models.onnx_odd, "openvino": odd_models.openvino_odd,
            "savedmodel": odd_models.savedmodel_odd,
        }.items()
    },
}  # fmt: skip

GRAPHS: dict[str, Case] = {**WRITTEN, **_disagreeing()}
