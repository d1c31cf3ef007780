"""`--backend-config`: one word of the command line to one setting of one backend (row 17.10).

A value that no model could use is refused here, at start: later it would be reported as the fault of a model, or not at all while no
model needs it. Keys that a backend does not declare pass: they have no effect. Backends read their settings themselves, and report a wrong
one that did not come through a command line.
"""

import typing

from naiad.backends.catalog import Catalog
from naiad.config.option_values import OptionValues, integer, one_of
from naiad.options.usage import UsageError

_COMMON = {
    "default-max-batch-size": integer(example="4"),
    "host": one_of("thread", "process"),
}


class BackendSetting(typing.NamedTuple):
    """A setting.

    Attributes:
        backend: whose it is; "" for all backends.
        note: why it has no effect; "" where it may have one.
    """

    backend: str
    key: str
    value: str
    note: str = ""


def backend_setting(text: str) -> BackendSetting:
    """Read the value of `--backend-config=`: BACKEND,KEY=VALUE, or KEY=VALUE for all backends.

    Raises:
        UsageError: it is neither, or no model could use its value.
    """
    backend, comma, rest = text.partition(",")
    if not comma:
        backend, rest = "", text
    key, equals, value = rest.partition("=")
    if not equals or not key:
        raise UsageError(
            f"--backend-config={text}: write BACKEND,KEY=VALUE, or KEY=VALUE for all backends"
        )
    values = _COMMON.get(key) or _values_of(backend, key)
    if values is not None and not values.fits(value):
        raise UsageError(
            f"--backend-config={text}: {key} is '{value}', expected {values.expected}: write {backend}{comma}{key}={values.example}, "
            "or leave it out"
        )
    plugin = Catalog().find(backend) if backend else None
    reason = plugin.options_without_effect.get(key, "") if plugin is not None else ""
    note = f"--backend-config={backend},{key} has no effect here: {reason}" if reason else ""
    return BackendSetting(backend, key, value, note)


def _values_of(backend: str, key: str) -> OptionValues | None:
    """The values that the backend accepts for the key; None for any."""
    if backend:
        plugin = Catalog().find(backend)
        return plugin.options.get(key) if plugin is not None else None
    return next((entry.options[key] for entry in Catalog() if key in entry.options), None)
