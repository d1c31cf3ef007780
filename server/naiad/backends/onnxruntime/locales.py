"""The locales that text models need: those made of scikit-learn's vectorizers lower or compare text by one, which onnxruntime takes from the system.

onnxruntime says of a missing one that a session cannot be made. The error here says which locale it is, and how it is installed.
"""

import collections.abc
import ctypes
import pathlib
import re

from naiad.backends.onnxruntime import onnx_graph
from naiad.errors import InferenceError, invalid

_OPERATOR = "StringNormalizer"
_DEFAULT = "en_US.UTF-8"
"""The locale of a node that names none."""

_CATEGORIES = 0x1FBF
"""LC_ALL_MASK of glibc."""

_FAILED = re.compile(r"Failed to construct locale with name:(.+?):locale::")


def missing(model: str, locale: str) -> InferenceError:
    """The error of a model that needs a locale which this machine does not have."""
    language, _, encoding = locale.partition(".")
    return invalid(
        f"unable to load model '{model}': it changes or compares text ({_OPERATOR}) by the locale {locale}, which this machine does not have: "
        f"install it (Debian: apt-get install locales && localedef -i {language} -f {encoding or 'UTF-8'} {locale})"
    )


def translated(model: str, failure: Exception) -> InferenceError | None:
    """The error of a session that could not be made, if a locale is the reason."""
    found = _FAILED.search(str(failure))
    return missing(model, found[1]) if found else None


def faults(path: pathlib.Path, model: str) -> list[InferenceError]:
    """The errors for each locale that a model file needs and this machine does not have. Blocking: it reads the file's nodes."""
    try:
        nodes = onnx_graph.attributes_of(path, _OPERATOR)
    except onnx_graph.OnnxFileError:
        return []  # has been reported
    needed = {str(node.get("locale") or _DEFAULT) for node in nodes if _uses_locale(node)}
    return [missing(model, name) for name in sorted(needed) if not _exists(name)]


def _uses_locale(node: collections.abc.Mapping[str, str | int]) -> bool:
    changes = node.get("case_change_action", "NONE") in {"LOWER", "UPPER"}
    return changes or ("stopwords" in node and not node.get("is_case_sensitive", 0))


def _exists(name: str) -> bool:
    system = ctypes.CDLL(None)
    system.newlocale.restype = ctypes.c_void_p
    system.newlocale.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p]
    system.freelocale.argtypes = [ctypes.c_void_p]
    locale = system.newlocale(_CATEGORIES, name.encode(), None)
    if not locale:
        return False
    system.freelocale(locale)
    return True
