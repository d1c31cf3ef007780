"""The files of tree models by the parameter `model_type`, as Triton's fil backend names them: which one a config means, and what a file looks like. Pure."""

import collections.abc
import pathlib
import types

from naiad.errors import invalid

XGBOOST = "xgboost"
XGBOOST_JSON = "xgboost_json"
XGBOOST_UBJ = "xgboost_ubj"
LIGHTGBM = "lightgbm"
CHECKPOINT = "treelite_checkpoint"

FILES = types.MappingProxyType(
    {
        XGBOOST: "xgboost.model",
        XGBOOST_JSON: "xgboost.json",
        XGBOOST_UBJ: "xgboost.ubj",
        LIGHTGBM: "model.txt",
        CHECKPOINT: "checkpoint.tl",
    }
)
"""The default file of each `model_type`."""

_BY_SUFFIX = types.MappingProxyType(
    {pathlib.PurePath(name).suffix: each for each, name in FILES.items()}
)
_CHECKPOINT_MAJORS = range(2, 10)
_MINORS = 1000


def model_type_of(
    model: str, parameters: collections.abc.Mapping[str, str], filename: str = ""
) -> str:
    """The `model_type` of a config. Without the parameter the file's suffix says it; `xgboost`, as in Triton, where that says nothing.

    Raises:
        InferenceError: INVALID_ARG: there is no such type.
    """
    text = parameters.get("model_type", "")
    if not text:
        return _BY_SUFFIX.get(pathlib.PurePath(filename).suffix, XGBOOST)
    if text in FILES:
        return text
    raise invalid(
        f"{text} not recognized as a valid serialization format (parameter model_type of model '{model}'): write {', '.join(FILES)}"
    )


def named_file(message: object) -> str:
    """The file that the parameter `model_type` of a config names; "" without it, when the folder says which one there is."""
    parameters = getattr(message, "parameters", {})
    if "model_type" not in parameters:
        return ""
    return FILES.get(parameters["model_type"].string_value, "")


def looks_like(start: bytes) -> str:
    """The `model_type` of which a file begins so; "" where the bytes do not say it.

    Args:
        start: its first bytes, 16 or more where it has so many.
    """
    if start.startswith((b"tree\n", b"tree\r\n")):
        return LIGHTGBM
    if start.startswith(b"{"):
        return (
            XGBOOST_UBJ
            if start[1:2] in (b"L", b"l", b"I", b"i", b"U", b"#", b"$")
            else XGBOOST_JSON
        )
    if start.startswith(b"binf"):
        return XGBOOST
    major, minor = (int.from_bytes(start[at : at + 4], "little") for at in (0, 4))
    return CHECKPOINT if major in _CHECKPOINT_MAJORS and minor < _MINORS else ""
