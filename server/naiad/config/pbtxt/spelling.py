"""Suggestions for misspelled names ("did you mean"): pure functions of a word and the known names, without knowledge of configs.

A misleading suggestion costs more than none, so only close names are suggested.
"""

import collections.abc
import re

_TRANSPOSED = 2
_CUT = 64
"""Longer words are not misspelled names, and comparing them takes time."""

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SEPARATOR = re.compile(r"[^a-z0-9]+")


def closest(
    word: str,
    names: collections.abc.Iterable[str],
    *,
    synonyms: collections.abc.Mapping[str, str] | None = None,
) -> str | None:
    """The name that a misspelled word stands for; None when none is near enough, or several are equally near.

    Tried in this order: the same letters but for case, `_`, `-` and spaces (`maxBatchSize`); a synonym that other tools
    use (`shape` for dims); few edits (`max_bacth_size`); a word of the name left out (`queue_delay`), when only one name fits.
    """
    known = list(names)
    if not word or len(word) > _CUT or word in known:
        return word if word in known else None
    squeezed = squeeze(word)
    for name in known:
        if squeeze(name) == squeezed:
            return name
    synonym = (synonyms or {}).get(squeezed)
    if synonym in known:
        return synonym
    return _by_edits(squeezed, known) or _by_parts(word, known)


def squeeze(word: str) -> str:
    """A name without case, underscores, hyphens and spaces, which vary between writers."""
    return "".join(letter for letter in word.lower() if letter.isalnum())


def _by_edits(squeezed: str, names: list[str]) -> str | None:
    allowed = 1 if len(squeezed) < 6 else 2 if len(squeezed) < 12 else 3  # noqa: PLR2004 - a scale
    if len(squeezed) <= 2:  # noqa: PLR2004 - one edit makes anything of two letters
        return None
    scored = sorted((distance(squeezed, squeeze(name), limit=allowed), name) for name in names)
    if not scored or scored[0][0] > allowed:
        return None
    if len(scored) > 1 and scored[1][0] == scored[0][0]:
        return None
    return scored[0][1]


def _by_parts(word: str, names: list[str]) -> str | None:
    parts = _parts(word)
    longest = max((len(part) for part in parts), default=0)
    if longest < 4:  # noqa: PLR2004 - `max`, `of`, `id` stand in too many names
        return None
    fitting = [
        name
        for name in names
        if (parts <= _parts(name) and 2 * len(parts) >= len(_parts(name))) or _parts(name) < parts
    ]
    return fitting[0] if len(fitting) == 1 else None


def _parts(word: str) -> set[str]:
    spaced = _CAMEL.sub("_", word).lower()
    return {part.removesuffix("s") for part in _SEPARATOR.split(spaced) if part}


def distance(left: str, right: str, *, limit: int) -> int:
    """Edits between two words (insert, delete, replace, or swap two neighbours), or `limit + 1` when there are more than `limit`."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, letter in enumerate(left, start=1):
        two_before, before, row = before, row, [i] + [0] * len(right)
        for j, other in enumerate(right, start=1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if (
                min(i, j) >= _TRANSPOSED
                and letter == right[j - _TRANSPOSED]
                and left[i - _TRANSPOSED] == other
            ):
                row[j] = min(row[j], two_before[j - _TRANSPOSED] + 1)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)
