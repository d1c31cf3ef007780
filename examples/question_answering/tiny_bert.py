"""The vocabulary and the network of the example: BERT's inputs and outputs, and a few kilobytes in place of its weights.

The network gives a token of the context a high logit if it is of the kind that the question asks for (who: a person; when: a time) and near words that the
question has, too. That is enough for the texts of this example, and for nothing else: put the ONNX file of a real BERT in its place, with its own vocabulary.
"""

import string
import typing

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from passages import INPUTS, LENGTH

KINDS = {
    "person": "clara web ##er otto lang ada young",
    "place": "ilm jena weimar hall ##e rome",
    "time": "18 19 20 ##92 ##31 ##69 ##84 may june",
    "color": "green red blue white",
}
"""What a question can ask for, and the pieces that are such."""
ASKS = {
    "who": "person",
    "whom": "person",
    "where": "place",
    "when": "time",
    "color": "color",
    "colour": "color",
}
VERBS = "built paint open clos design burn mov"
NOUNS = "bridge river station tower city gate museum"
STOP = "the a in of by was were is it and over at near to for on ##ed ##s what which did does"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

_REACH = 12
"""Tokens over which a word that the question has, too, counts."""
_OUTSIDE = -1e4


def vocabulary() -> list[str]:
    """The pieces: those of the example, and each letter, digit and sign, so that every word of English has pieces."""
    words = " ".join([*KINDS.values(), *ASKS, VERBS, NOUNS, STOP]).split()
    letters = string.ascii_lowercase + string.digits
    return [
        *SPECIAL,
        *dict.fromkeys(words),
        *string.punctuation,
        *letters,
        *(f"##{each}" for each in letters),
    ]


def network() -> onnx.ModelProto:
    """The network: `start_logits` and `end_logits` of BERT's three inputs."""
    constants = {
        "same": _same(),
        "kinds": _kinds(KINDS),
        "asks": _asks(),
        "near": _near(),
        "begins": np.array([[[-3, 3, 0]]], np.float32),
        "ends": np.array([[[0, 3, -3]]], np.float32),
        "one": np.array(1, np.float32),
        "outside": np.array(_OUTSIDE, np.float32),
        "last": np.array([-1], np.int64),
        "words": np.array([1], np.int64),
    }
    nodes = [
        _node("Cast", "segment_ids", "segment", to=TensorProto.FLOAT),
        _node("Cast", "input_mask", "mask", to=TensorProto.FLOAT),
        _node("Mul", "segment mask", "in_context"),
        _node("Sub", "mask in_context", "in_question"),
        _node("Unsqueeze", "in_question last", "of_question"),
        *_of_question("same", "word"),
        *_of_question("asks", "asked"),
        _node("Gather", "kinds input_ids", "kind_of"),
        _node("MatMul", "kind_of asked", "asked_3"),
        _node("Squeeze", "asked_3 last", "asked_2"),
        _node("Mul", "asked_2 in_context", "fits"),
        _node("MatMul", "same_of word", "shared_3"),
        _node("Squeeze", "shared_3 last", "shared_2"),
        _node("Mul", "shared_2 in_context", "shared"),
        _node("Unsqueeze", "shared words", "shared_line"),
        _node("Conv", "shared_line near", "close_line", pads=[_REACH, _REACH]),
        _node("Squeeze", "close_line words", "close"),
        _node("Mul", "close fits", "close_fits"),
        _node("Sub", "one in_context", "not_context"),
        _node("Mul", "not_context outside", "cut"),
        _node("Unsqueeze", "fits words", "fits_line"),
        *_logits("begins", "start_logits"),
        *_logits("ends", "end_logits"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "tiny_bert",
        [value(name, TensorProto.INT32, ["N", LENGTH]) for name in INPUTS],
        [value(name, TensorProto.FLOAT, ["N", LENGTH]) for name in ("start_logits", "end_logits")],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model


def _node(operator: str, inputs: str, output: str, **attributes: typing.Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def _of_question(table: str, name: str) -> list[onnx.NodeProto]:
    """What the question has of a table, as a column."""
    return [
        _node("Gather", f"{table} input_ids", f"{table}_of"),
        _node("Mul", f"{table}_of of_question", f"{name}_each"),
        _node("ReduceMax", f"{name}_each", f"{name}_any", axes=[1], keepdims=0),
        _node("Unsqueeze", f"{name}_any last", name),
    ]


def _logits(edge: str, output: str) -> list[onnx.NodeProto]:
    """How near a token is, more at the edge of a span of the right kind, and nothing outside of the context."""
    return [
        _node("Conv", f"fits_line {edge}", f"{edge}_line", pads=[1, 1]),
        _node("Squeeze", f"{edge}_line words", f"{edge}_at"),
        _node("Relu", f"{edge}_at", f"{edge}_only"),
        _node("Mul", f"{edge}_only close_fits", f"{edge}_near"),
        _node("Add", f"{edge}_near {edge}_only", f"{edge}_inside"),
        _node("Add", f"{edge}_inside cut", output),
    ]


def _same() -> np.ndarray:
    """A column per word that counts; verbs count more than nouns."""
    pieces, words = vocabulary(), [*VERBS.split(), *NOUNS.split()]
    table = np.zeros((len(pieces), len(words)), np.float32)
    for column, word in enumerate(words):
        table[pieces.index(word), column] = 1.8 if word in VERBS.split() else 1
    return table


def _kinds(kinds: dict[str, str]) -> np.ndarray:
    pieces = vocabulary()
    table = np.zeros((len(pieces), len(kinds)), np.float32)
    for column, words in enumerate(kinds.values()):
        table[[pieces.index(word) for word in words.split()], column] = 1
    return table


def _asks() -> np.ndarray:
    names = list(KINDS)
    return _kinds(
        {kind: " ".join(word for word, asked in ASKS.items() if asked == kind) for kind in names}
    )


def _near() -> np.ndarray:
    """Words before a token count more than words behind it."""
    distances = np.arange(-_REACH, _REACH + 1)
    weights = np.where(distances < 0, 4.0, 2.5) / (1 + np.abs(distances))
    return np.reshape(weights, (1, 1, -1)).astype(np.float32)
