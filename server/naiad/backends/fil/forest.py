"""What a config has to know of a forest of trees: how many features it takes, and what it answers with. Pure."""

from typing import Any

import msgspec

from naiad.backends.fil.settings import Settings
from naiad.backends.model_files.signature import GraphTensor, Signature
from naiad.core import datatypes
from naiad.errors import unsupported

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

    Of a binary classifier with `predict_proba` a config may also take the probability of class 1 alone, by `dims: [ 1 ]`, as with FIL.
    """
    wanted = next((list(spec.dims) for spec in message.output if spec.name == OUTPUT), [])
    count = columns(forest, settings)
    alone = is_classifier(forest, settings) and settings.predict_proba and forest.classes == 1
    if alone and wanted in ([1], [-1, 1]):
        count = 1
    return Signature(
        inputs=(_tensor(INPUT, forest.features),),
        overridable=(),
        outputs=(_tensor(OUTPUT, count),),
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
    """Check that a config asks for no Shapley values.

    Raises:
        InferenceError: UNSUPPORTED: it does.
    """
    if any(spec.name == SHAP for spec in message.output):
        raise unsupported(
            f"unable to load model '{message.name}': output '{SHAP}' is not supported: Shapley values are not computed here: take the output out, or compute "
            "them in a Python model, with pred_contribs=True of XGBoost or pred_contrib=True of LightGBM"
        )


def _tensor(name: str, size: int) -> GraphTensor:
    return GraphTensor(
        name=name,
        kind="tensor",
        datatype=datatypes.FP32,
        type_name=datatypes.FP32.config_name,
        shape=(-1, size),
        symbols=("", ""),
    )
