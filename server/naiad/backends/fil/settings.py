"""What the parameters of a tree model ask for, under the names of Triton's fil backend. Pure."""

import collections.abc
import math
import types

import msgspec

from naiad.backends.fil.formats import model_type_of
from naiad.backends.parameter_values import integer
from naiad.errors import InferenceError, invalid

_ON_GPUS = "it tunes FIL's kernels for GPUs, and trees are computed on the CPU here"
_REMOVED = "FIL removed it in 25.09, and trees are computed on the CPU here"

WITHOUT_EFFECT = types.MappingProxyType(
    {
        "algo": _REMOVED,
        "blocks_per_sm": _REMOVED,
        "chunk_size": _ON_GPUS,
        "layout": _ON_GPUS,
        "storage_type": _REMOVED,
        "threads_per_tree": _REMOVED,
        "transfer_threshold": "rows are never copied to a GPU: trees are computed on the CPU here",
        "use_experimental_optimizations": "there is one way to compute trees here, treelite's",
    }
)
"""FIL's parameters that are accepted and not read, with the reason."""

OWN_PROBABILITIES = "naiad.probabilities"
"""The parameter, `library` or `fil`."""

_BOOLEANS = {"true": True, "false": False}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a model.

    Attributes:
        model_type: a key of `formats.FILES`.
        classifier: whether answers are classes or probabilities; None leaves it to the model.
        predict_proba: a classifier answers with a probability for each class, and else with the number of the most likely class.
        threshold: the probability above which a binary classifier without `predict_proba` answers 1.
        threads: for large batches; 0 and less for one for each core. Small ones are computed by one thread.
        own_probabilities: of a multi-class model the probabilities are those of the library that made it, where FIL's are others.
        unknown_fields: fields that treelite does not know are left out of an XGBoost model, and are else an error.
    """

    model_type: str
    classifier: bool | None = None
    predict_proba: bool = False
    threshold: float = 0.5
    threads: int = -1
    own_probabilities: bool = False
    unknown_fields: bool = False


def settings_of(
    model: str, parameters: collections.abc.Mapping[str, str], filename: str = ""
) -> Settings:
    """The settings in a model's parameters; `filename` is its default_model_filename.

    `output_class` is what `is_classifier` was called before 25.09; the old name wins, as in FIL.

    Raises:
        InferenceError: INVALID_ARG: a value that is not valid.
    """
    classifier = _boolean(parameters, "is_classifier", model)
    before = _boolean(parameters, "output_class", model)
    threads = parameters.get("cpu_nthread", "-1")
    if integer(threads) is None:
        raise _expected(
            "cpu_nthread", "a number of threads, or -1 for one for each core", threads, model
        )
    probabilities = parameters.get(OWN_PROBABILITIES, "fil")
    if probabilities not in ("fil", "library"):
        raise _expected(
            OWN_PROBABILITIES,
            "library, for those of the library that made the model, or fil, for those of Triton's backend",
            probabilities,
            model,
        )
    return Settings(
        model_type=model_type_of(model, parameters, filename),
        classifier=classifier if before is None else before,
        predict_proba=bool(_boolean(parameters, "predict_proba", model)),
        threshold=_threshold(parameters, model),
        threads=int(threads),
        own_probabilities=probabilities == "library",
        unknown_fields=bool(_boolean(parameters, "xgboost_allow_unknown_field", model)),
    )


def _threshold(parameters: collections.abc.Mapping[str, str], model: str) -> float:
    text = parameters.get("threshold", "0.5")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _expected("threshold", "a number such as 0.5", text, model)
    return value


def _boolean(parameters: collections.abc.Mapping[str, str], key: str, model: str) -> bool | None:
    text = parameters.get(key)
    if text is None:
        return None
    if text.lower() not in _BOOLEANS:
        raise invalid(
            f"Expected 'true' or 'false' for parameter '{key}', got: '{text}' (parameters of model '{model}')"
        )
    return _BOOLEANS[text.lower()]


def _expected(key: str, what: str, text: str, model: str) -> InferenceError:
    return invalid(
        f"expected the parameter '{key}' to be {what}, got '{text}' (parameters of model '{model}')"
    )
