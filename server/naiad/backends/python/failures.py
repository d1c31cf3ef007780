"""What a model's exception looks like to people: what happened, then where, the model's own lines first (user-pains 14)."""

import importlib
import pathlib
import traceback


def describe(error: BaseException, folder: pathlib.Path) -> str:
    """An exception as text.

    Args:
        error: what the model raised.
        folder: the model's folder: whatever lies in it is the model's own.

    Returns:
        `Type: message`, a blank line, `At:` and a line `path(number): function` for each place, innermost first; the
        model's own places before those of libraries, this server's left out. A cause follows in the same form. A
        SyntaxError's place is the line that cannot be read.
    """
    texts: list[str] = []
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        texts.append(_one(cause, folder))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n\nCaused by: ".join(texts)


def _one(error: BaseException, folder: pathlib.Path) -> str:
    message = str(error)
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    inside = str(folder.resolve())
    own = [each for each in frames if each.filename.startswith((inside, str(folder)))]
    others = [each for each in frames if each not in own and not _is_ours(each.filename)]
    places = [f"  {each.filename}({each.lineno}): {each.name}" for each in reversed(own)]
    places += [f"  {each.filename}({each.lineno}): {each.name}" for each in reversed(others)]
    if isinstance(error, SyntaxError) and error.filename:
        places.insert(0, f"  {error.filename}({error.lineno}): {(error.text or '').strip()}")
    return "\n".join([text, "", "At:", *places]) if places else text


_SERVER = str(pathlib.Path(__file__).parents[2])


def _is_ours(filename: str) -> bool:
    return filename.startswith((_SERVER, "<frozen importlib")) or filename == importlib.__file__
