"""What a config has to know of a forest of trees: how many features it takes, and what it answers with. Pure."""

from typing import Any

import msgspec

from naiad.backends.fil.settings import Settings
from naiad.backends.model_files.signature import GraphTensor, Signature
from naiad.core import datatypes
from naiad.errors import invalid, unsupported

INPUT = "input__0"
OUTPUT = "output__0"
SHAP = "treeshap_output"


class Forest(msgspec.Struct, frozen=True, kw_only=True):
    """A model, as its file describes it.

    Attributes:
        features: columns of its input.
        classes: values that it computes for a row; 1 of a regression and of a binary classifier whose value is the probability of class 1.
        classifier: whether its objective is one of classification.
        targets: how many regressions it is at once; only one can be served.
    """

    features: int
    classes: int
    classifier: bool
    targets: int = 1


def is_classifier(forest: Forest, settings: Settings) -> bool:
    """Whether answers are classes or probabilities, by the config or else by the model."""
    return forest.classifier if settings.classifier is None else settings.classifier


def columns(forest: Forest, settings: Settings) -> int:
    """How many values the answer to one row has: 1 for a class, 2 for the probabilities of a binary classifier."""
    if not is_classifier(forest, settings):
        return forest.classes
    if not settings.predict_proba:
        return 1
    return max(2, forest.classes)


def signature(message: Any, forest: Forest, settings: Settings) -> Signature:
    """The tensors of a model, as its config may name them.

    Of a binary classifier with `predict_proba` a config may also take the probability of class 1 alone, by `dims: [ 1 ]`, as with FIL. Shapley values are an output
    of the models whose config lists it: of shape [features + 1], or [classes, features + 1] of several classes.
    """
    wanted = next((list(spec.dims) for spec in message.output if spec.name == OUTPUT), [])
    count = columns(forest, settings)
    alone = is_classifier(forest, settings) and settings.predict_proba and forest.classes == 1
    if alone and wanted in ([1], [-1, 1]):
        count = 1
    outputs = [_tensor(OUTPUT, count)]
    if any(spec.name == SHAP for spec in message.output):
        groups = (forest.classes,) if forest.classes > 1 else ()
        outputs.append(_tensor(SHAP, *groups, forest.features + 1))
    return Signature(
        inputs=(_tensor(INPUT, forest.features),),
        overridable=(),
        outputs=tuple(outputs),
    )


def check_servable(forest: Forest, model: str) -> None:
    """Check what no config can change.

    Raises:
        InferenceError: UNSUPPORTED: the forest has several targets.
    """
    if forest.targets > 1:
        raise unsupported(
            f"unable to load model '{model}': Multi-target model not supported: it has {forest.targets} targets: train one model for each of them, and serve "
            "them as an ensemble"
        )


def check_outputs(message: Any) -> None:
    """Check that a config does not ask for Shapley values alone, as FIL cannot.

    Raises:
        InferenceError: INVALID_ARG: it does.
    """
    names = [spec.name for spec in message.output]
    if SHAP in names and OUTPUT not in names:
        raise invalid(
            f"unable to load model '{message.name}': its config lists the output '{SHAP}' without '{OUTPUT}': list both; a request may ask for one of them"
        )


def _tensor(name: str, *sizes: int) -> GraphTensor:
    return GraphTensor(
        name=name,
        kind="tensor",
        datatype=datatypes.FP32,
        type_name=datatypes.FP32.config_name,
        shape=(-1, *sizes),
        symbols=("",) * (1 + len(sizes)),
    )
