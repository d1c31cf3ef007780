"""Parameters of Naiad's own that a config misspells: they have no effect, and nothing else says so. Pure."""

import collections.abc
import difflib
import typing

_PREFIX = "naiad."
KNOWN: typing.Final = (
    "naiad.execute_timeout", "naiad.explainer", "naiad.fill_batches", "naiad.host", "naiad.load_timeout", "naiad.probabilities", "naiad.requirements",
    "naiad.visible_gpus",
)  # fmt: skip
"""Those of docs/configuration.md."""


def misspelled(parameters: collections.abc.Iterable[str]) -> list[str]:
    """Notes about keys that are nearly one of Naiad's.

    Args:
        parameters: the keys of a config.
    """
    found: list[str] = []
    for key in parameters:
        if key in KNOWN or not key.lower().startswith(_PREFIX):
            continue
        near = difflib.get_close_matches(key.lower(), KNOWN, n=1, cutoff=0.8)
        if near:
            found.append(f"the parameter '{key}' has no effect: did you mean '{near[0]}'?")
    return found
