"""What a failed test shows: the test's own lines and the model's, not those of this package in between.

pytest leaves out frames that hold `__tracebackhide__`. The frames of the engine and the backend below are cut off the error instead, because their
modules know nothing of tests. `pytest --full-trace` shows the former.
"""

import collections.abc
import functools
import pathlib
import types
from typing import ParamSpec, TypeVar

import naiad
from naiad.errors import InferenceError

__tracebackhide__ = True

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_PACKAGE = f"{pathlib.Path(naiad.__file__).parent}/"


def shows_only_the_test(
    function: collections.abc.Callable[Arguments, Result],
) -> collections.abc.Callable[Arguments, Result]:
    """A function for tests, whose `InferenceError` looks as if it was raised where the test calls it."""

    @functools.wraps(function)
    def call(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        try:
            return function(*arguments, **named)
        except InferenceError as error:
            cause = error.__cause__
            while cause is not None:
                cause = cause.with_traceback(_without_our_frames(cause.__traceback__)).__cause__
            raise error.with_traceback(None)  # noqa: B904 - the same error, and it keeps its cause

    return call


def _without_our_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback from the first frame that is not of this package: the model's."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        trace = trace.tb_next
    return trace
