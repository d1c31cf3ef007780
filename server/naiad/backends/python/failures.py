"""What a model's exception looks like to people: what happened, then where, the model's own lines first."""

import importlib
import pathlib
import threading
import traceback

from naiad.backends.python.api import context

_MOST_PLACES = 40
_MOST_MEMBERS = 10


def raised() -> "tuple[type[BaseException], ...]":
    """What a model's code may raise and fail by, in this thread: whatever it is, in a server and its workers.

    A test runs its model in the main thread, where the rest has other meanings: Ctrl-C, the end of a test.
    """
    if context.in_worker or threading.current_thread() is not threading.main_thread():
        return (BaseException,)
    import asyncio  # noqa: PLC0415 - 36 ms and 6 MB of a worker, for tests only

    return (Exception, SystemExit, GeneratorExit, asyncio.CancelledError)


def describe(error: BaseException, folder: pathlib.Path) -> str:
    """An exception of a model as text; whatever lies in its folder is the model's own.

    Returns:
        `Type: message`, a blank line, `At:` and a line `path(number): function` for each place, innermost first; the
        model's own places before those of libraries, this server's left out. A cause follows in the same form, and so do the
        exceptions of a group. A SyntaxError's place is the line that cannot be read.
    """
    return _all(error, folder, set())


def _all(error: BaseException, folder: pathlib.Path, seen: "set[int]") -> str:
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        texts.append(_one(cause, folder))
        for member in _members(cause):
            if id(member) not in seen:
                texts[-1] += "\n\nAmong them: " + _all(member, folder, seen)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n\nCaused by: ".join(texts)


def _members(error: BaseException) -> "tuple[BaseException, ...]":
    """The exceptions of an ExceptionGroup, which Python 3.8 does not know; what a TaskGroup raises says nothing without them."""
    members = getattr(error, "exceptions", ())
    if not isinstance(members, tuple):
        return ()
    return tuple(member for member in members if isinstance(member, BaseException))[:_MOST_MEMBERS]


def _one(error: BaseException, folder: pathlib.Path) -> str:
    message = _message(error)
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    inside = str(folder.resolve())
    own = [frame for frame in frames if frame.filename.startswith((inside, str(folder)))]
    others = [frame for frame in frames if frame not in own and not _is_ours(frame.filename)]
    innermost_first = [*reversed(own), *reversed(others)]
    places = _shortened(
        [f"  {frame.filename}({frame.lineno}): {frame.name}" for frame in innermost_first]
    )
    if isinstance(error, SyntaxError) and error.filename:
        places.insert(0, f"  {error.filename}({error.lineno}): {(error.text or '').strip()}")
    return "\n".join([text, "", "At:", *places]) if places else text


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except raised() as failure:  # `__str__` is the model's code too
        return f"(its text cannot be shown: __str__ raised {type(failure).__name__})"


def _shortened(places: "list[str]") -> "list[str]":
    """A recursion is shortened to a few lines, as in Python's own tracebacks."""
    lines: list[str] = []
    times = 0
    for place, following in zip(places, [*places[1:], ""]):  # noqa: B905 - 3.8 knows no strict; they are as long as each other
        times += 1
        if place == following:
            continue
        lines.append(place if times == 1 else f"{place} ({times} times)")
        times = 0
    omitted = len(lines) - _MOST_PLACES
    return lines if omitted <= 0 else [*lines[:_MOST_PLACES], f"  ({omitted} more places)"]


_SERVER = str(pathlib.Path(__file__).parents[2])


def _is_ours(filename: str) -> bool:
    return filename.startswith((_SERVER, "<frozen importlib")) or filename == importlib.__file__
