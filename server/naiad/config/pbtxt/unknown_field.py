"""The error message for a field name that a block does not have, and the field that was meant. Pure."""

from typing import Any

import msgspec

from naiad.config.pbtxt.spelling import closest, distance, squeeze
from naiad.config.pbtxt.vocabulary import FIELD_SYNONYMS, every_field_name, homes, meant_field

_MOST_LISTED = 12
_MOST_HOMES = 3


class UnknownField(msgspec.Struct, frozen=True, kw_only=True):
    """An explanation of an unknown field.

    Attributes:
        message: what is wrong.
        suggestion: what to write instead.
        meant: the descriptor of the field that was surely meant, else None; its value can be read as that.
    """

    message: str
    suggestion: str
    meant: Any | None


def explain(descriptor: Any, word: str, *, block: tuple[str, ...]) -> UnknownField:
    """Explain an unknown field.

    Args:
        descriptor: of the message that the block is.
        word: the name as written.
        block: the names of the blocks around it, outermost first; () at the top level.
    """
    message = f'unknown field "{word}" {inside(block)}'
    here = meant_field(descriptor, word)
    if here is not None and (_alike(word, here.name) or not homes(word)):
        return UnknownField(message=message, suggestion=f'did you mean "{here.name}"?', meant=here)
    elsewhere = (
        word if homes(word) else closest(word, sorted(every_field_name()), synonyms=FIELD_SYNONYMS)
    )
    if elsewhere is not None and homes(elsewhere):
        return UnknownField(
            message=message, suggestion=_belongs(elsewhere, block, written=word), meant=None
        )
    if here is not None:
        return UnknownField(message=message, suggestion=f'did you mean "{here.name}"?', meant=here)
    return UnknownField(message=message, suggestion=_listing(descriptor, block), meant=None)


def inside(block: tuple[str, ...]) -> str:
    """Where a field stands, in words."""
    if not block:
        return "at the top level of the file"
    return f'in "{block[-1]}"'


def _alike(word: str, name: str) -> bool:
    squeezed = squeeze(word)
    return FIELD_SYNONYMS.get(squeezed) == name or distance(squeezed, squeeze(name), limit=1) <= 1


def _belongs(name: str, block: tuple[str, ...], *, written: str) -> str:
    """Where a field that exists in other blocks is to be written: the nearest of them."""
    blocks = homes(name)
    below = [path for path in blocks if path[: len(block)] == block and len(path) > len(block)]
    chosen = (below or [path for path in blocks if path != block])[:_MOST_HOMES]
    if not chosen:
        return f'did you mean "{name}"?'
    spelled = name if name == written else f'did you mean "{name}"? It'
    if chosen[0] == ():
        return f"{spelled} belongs at the top level of the file, outside {block[0]}"
    if below:
        chosen = [path[len(block) :] for path in chosen]
    shortest = min(len(path) for path in chosen)
    shown = [_nested(path, name) for path in chosen if len(path) == shortest]
    return f"{spelled} belongs in {' or '.join(shown)}"


def _nested(path: tuple[str, ...], name: str) -> str:
    return " { ".join((*path, f"{name}: …")) + " }" * len(path)


def _listing(descriptor: Any, block: tuple[str, ...]) -> str:
    names = [field.name for field in descriptor.fields]
    if not names:
        return f"{block[-1]} takes no fields: write {block[-1]} {{ }}" if block else ""
    if len(names) > _MOST_LISTED:
        return "see the model configuration reference for the fields there are"
    return f"{inside(block)[3:]} has the fields {', '.join(names)}"
