"""`--backend-config`: one word of the command line to one setting of one backend (row 17.10). Pure.

A value that suits no model is refused here, before anything is loaded: later it would be said of a model, which is not at fault, or
of nobody for as long as no model asks. Only what docs/backends.md lists is looked at; other keys pass, as they mean nothing here.
The backends read their settings themselves, and say again what is wrong with one that did not come through a command line.
"""

import collections.abc
import math
import typing

import msgspec

from naiad.options.usage import UsageError

_INT32_MAX = 2**31 - 1
_BOOLEANS = frozenset(("true", "on", "1", "false", "off", "0"))


class BackendSetting(typing.NamedTuple):
    """A setting.

    Attributes:
        backend: whose it is; "" for all backends.
        key: its name.
        value: as it was written.
    """

    backend: str
    key: str
    value: str


class _Values(msgspec.Struct, frozen=True, kw_only=True):
    """What a key may be set to.

    Attributes:
        fits: whether a value can be used.
        expected: those that can, for a message.
        example: one of them.
        backends: who reads the key; none named means every backend.
    """

    fits: collections.abc.Callable[[str], bool]
    expected: str
    example: str
    backends: frozenset[str] = frozenset()


def _is_whole(value: str) -> bool:
    try:
        return abs(int(value)) <= _INT32_MAX
    except ValueError:
        return False


def _is_whole_or_empty(value: str) -> bool:
    return not value or _is_whole(value)


def _is_boolean(value: str) -> bool:
    return value.lower() in _BOOLEANS


def _is_host(value: str) -> bool:
    return value in ("", "thread", "process")


def _are_days(value: str) -> bool:
    try:
        return not value or 0 <= float(value) < math.inf
    except ValueError:
        return False


_ONNX, _PYTHON = frozenset(("onnxruntime",)), frozenset(("python",))
_WHOLE = f"a whole number up to {_INT32_MAX}"
_THREADS = _Values(fits=_is_whole_or_empty, expected=_WHOLE, example="2", backends=_ONNX)

_VALUES: dict[str, _Values] = {
    "default-max-batch-size": _Values(fits=_is_whole, expected=_WHOLE, example="4"),
    "host": _Values(fits=_is_host, expected="thread or process", example="process"),
    "intra_op_thread_count": _THREADS,
    "inter_op_thread_count": _THREADS,
    "enable-global-threadpool": _Values(
        fits=_is_boolean, expected="true, on, 1, false, off or 0", example="1", backends=_ONNX
    ),
    "environment-keep-days": _Values(
        fits=_are_days,
        expected="a number of days, 0 to keep environments for ever",
        example="30",
        backends=_PYTHON,
    ),
}


def backend_setting(text: str) -> BackendSetting:
    """Read what stands behind `--backend-config=`: BACKEND,KEY=VALUE, or KEY=VALUE for all backends.

    Raises:
        UsageError: it is neither, or its value fits no model.
    """
    backend, comma, rest = text.partition(",")
    if not comma:
        backend, rest = "", text
    key, equals, value = rest.partition("=")
    if not equals or not key:
        raise UsageError(
            f"--backend-config={text}: write BACKEND,KEY=VALUE, or KEY=VALUE for all backends"
        )
    values = _VALUES.get(key)
    if values is not None and _reads(values, backend) and not values.fits(value):
        raise UsageError(
            f"--backend-config={text}: {key} is '{value}', expected {values.expected}: write {backend}{comma}{key}={values.example}, "
            "or leave it out"
        )
    return BackendSetting(backend, key, value)


def _reads(values: _Values, backend: str) -> bool:
    return not values.backends or not backend or backend in values.backends
