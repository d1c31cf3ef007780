"""The error message of a path that does not exist: the path that was probably meant, the models that are loaded, and where all paths stand.

The message begins with Triton's "Not Found". Models are named only below `/v2`, where a restriction requires its header first. Pure.
"""

import collections.abc
import difflib
import functools
import heapq
import re

from naiad.protocol.http.paths import API

_MODEL_PATH = re.compile(r"/v2/models/([^/]+)(/versions/[^/]+)?(?:/(.*))?", re.DOTALL)
_VERSION = re.compile(r"/versions/[0-9]+")
_PATHS = tuple(path.template for path in API if "{" not in path.template)
_ACTIONS = tuple(
    path.segments[-1] for path in API if path.segments[:-1] == ("", "v2", "models", "{model}")
)
_MAX_MODELS = 10
_MAX_LENGTH = 200
"""Characters of a path that are repeated; for a longer path no similar one is looked for."""
_MAX_COMPARED = 16
"""Names that are compared letter by letter, which takes 0.1 ms each, on the event loop."""


def not_found(path: str, models: collections.abc.Collection[str]) -> str:
    """The error message.

    Args:
        path: decoded.
        models: the names of the models that are ready, each once.
    """
    below = path == "/v2" or path.startswith("/v2/")
    known = sorted(models) if below else []
    parts = [f"Not Found: this server has no path {path[:_MAX_LENGTH]}"]
    if path.rstrip("/") == "/v2/models":
        parts.append(
            "POST /v2/repository/index lists the models, GET /v2/models/MODEL describes one"
        )
    elif len(path) <= _MAX_LENGTH and (meant := _meant(path, known)):
        parts.append(f"did you mean {meant}?")
    if known:
        more = f" and {len(known) - _MAX_MODELS} more" if len(known) > _MAX_MODELS else ""
        parts.append(f"models: {', '.join(known[:_MAX_MODELS])}{more}")
    parts.append("GET /docs shows every path")
    return "; ".join(parts)


def _meant(path: str, models: list[str]) -> str:
    """The path that a client probably meant; "" when none is similar."""
    if path != "/" and path.endswith("/"):
        path = path.rstrip("/")
        if path in _PATHS:
            return path
    match = _MODEL_PATH.fullmatch(path)
    if match is None:
        return _closest(path, _PATHS)
    model, version, action = match.groups("")
    name = model if model in models else _closest(model, models)
    if version and not _VERSION.fullmatch(version):
        version = "/versions/1"
    if action and action not in _ACTIONS:
        action = _closest(action, _ACTIONS)
        if not action:
            return ""
    meant = f"/v2/models/{name}{version}" + (f"/{action}" if action else "")
    return meant if name else ""


def _closest(word: str, words: collections.abc.Sequence[str]) -> str:
    if len(words) > _MAX_COMPARED:
        words = heapq.nlargest(_MAX_COMPARED, words, key=functools.partial(_same_ends, word))
    return next(iter(difflib.get_close_matches(word, words, n=1)), "")


def _same_ends(word: str, other: str) -> int:
    """How many characters two names share at the beginning and at the end."""
    begin = _same_beginning(word, other)
    return begin + _same_beginning(word[begin:][::-1], other[begin:][::-1])


def _same_beginning(word: str, other: str) -> int:
    for at, (one, two) in enumerate(zip(word, other, strict=False)):
        if one != two:
            return at
    return min(len(word), len(other))
