"""A model file as treelite loads it. Importing this imports treelite.

Treelite ends the process on some damaged files (checkpoints above all), which is why models run in worker processes by default.
"""

import pathlib
import re
from typing import Any

import treelite

from naiad.backends import reasons
from naiad.backends.fil import checkpoint, legacy
from naiad.backends.fil.forest import Forest
from naiad.backends.fil.formats import CHECKPOINT, LIGHTGBM, XGBOOST, XGBOOST_JSON
from naiad.backends.fil.settings import Settings
from naiad.backends.fil.structure import check_structure
from naiad.backends.model_files.wire_format import ModelFileError
from naiad.errors import InferenceError, invalid, unsupported

_PLACE = re.compile(r"^\[[\d:]+\] \S+:\d+: ", re.MULTILINE)
"""What treelite writes before an error: the time, and a line of its source."""
_CLASSIFIES = (0, 2)
_MULTI_CLASS = 2
_ONE_VERSUS_ALL = "multiclass_ova"


def load(path: pathlib.Path, settings: Settings, model: str) -> Any:
    """The model, with what it computes last changed as FIL changes it: a multi-class model that is asked for probabilities gives some.

    Raises:
        InferenceError: INVALID_ARG, with treelite's own reason first: it is not a model that treelite can read, or it is damaged.
    """
    try:
        loaded = _loaded(path, settings, model)
    except (treelite.TreeliteError, ModelFileError, ValueError, OSError) as error:
        # Treelite quotes bytes of a damaged file, which are not always text.
        reason = "its error is not text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise invalid(
            f"unable to load model '{model}': {reasons.one_line(_PLACE.sub('', reason))} (reading '{path}' as {settings.model_type}, treelite {treelite.__version__})"
        ) from error
    check_structure(loaded, model)
    _adapt(loaded, settings)
    return loaded


def forest_of(loaded: Any) -> Forest:
    """What a loaded model is."""
    header = loaded.get_header_accessor()
    classes = [int(each) for each in header.get_field("num_class")]
    return Forest(
        features=loaded.num_feature,
        classes=max(1, *classes, 1),
        classifier=int(header.get_field("task_type")[0]) in _CLASSIFIES,
        targets=int(header.get_field("num_target")[0]),
    )


def _loaded(path: pathlib.Path, settings: Settings, model: str) -> Any:
    kind = settings.model_type
    if kind == CHECKPOINT:
        checkpoint.read(path)
        return treelite.Model.deserialize(path)
    if kind == LIGHTGBM:
        return treelite.frontend.load_lightgbm_model(path)
    if kind == XGBOOST:
        return _legacy(path, model)
    return treelite.frontend.load_xgboost_model(
        path,
        format_choice="json" if kind == XGBOOST_JSON else "ubjson",
        allow_unknown_field=settings.unknown_fields,
    )


def _legacy(path: pathlib.Path, model: str) -> Any:
    load_legacy = getattr(treelite.frontend, "load_xgboost_model_legacy_binary", None)
    if load_legacy is None:
        raise to_convert(path, model)
    legacy.read(path)
    return load_legacy(path)


def to_convert(path: pathlib.Path, model: str) -> InferenceError:
    """The error of a file of XGBoost's binary format, where treelite no longer reads it, with what converts it."""
    return unsupported(
        f"unable to load model '{model}': treelite {treelite.__version__} does not read XGBoost's binary format ('{path}'): convert it by an XGBoost before 3.1, "
        f"python -c \"import xgboost; b = xgboost.Booster(); b.load_model('{path.name}'); b.save_model('xgboost.ubj')\", and write the parameter model_type = "
        "xgboost_ubj"
    )


def _adapt(loaded: Any, settings: Settings) -> None:
    """Change what is computed last, as FIL does: softmax of a multi-class model with one tree per class, nothing after vectors of probabilities.

    LightGBM's multiclassova has probabilities of its own, one sigmoid for each class, which FIL replaces by a softmax; `own_probabilities` keeps them.
    """
    header = loaded.get_header_accessor()
    several = int(header.get_field("task_type")[0]) == _MULTI_CLASS
    if not several or not settings.predict_proba:
        return
    if int(header.get_field("leaf_vector_shape")[1]) > 1:
        header.set_field("postprocessor", "identity_multiclass")
    elif not (settings.own_probabilities and header.get_field("postprocessor") == _ONE_VERSUS_ALL):
        header.set_field("postprocessor", "softmax")
