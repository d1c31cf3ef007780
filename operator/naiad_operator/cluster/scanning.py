"""What the text of an object shows before it is decoded: how many levels and values it has, in a few passes of C code. Pure, and nothing here recurses."""

import re

from naiad_operator.api.manifests.unreadable import (
    CONTAINERS,
    ESCAPES,
    LEVELS,
    MAX_CONTAINERS,
    MAX_LEVELS,
    VALUES,
)

MANAGED = b'"managedFields":['

_OWNED_LEVELS = 10
"""How many more levels the managed fields have than the fields that they name, at most."""

_NO_MARKS = bytes(set(range(256)) - set(b'{["\\,'))


def marks_of(text: bytes) -> bytes:
    """The characters of a text that bounds count."""
    return text.translate(None, _NO_MARKS)


def beyond(text: bytes, marks: bytes) -> str:
    """Which bound on numbers of things a text with these marks exceeds; "" when none."""
    commas = marks.count(b",")
    if commas > VALUES.most:
        return VALUES.message
    opened = marks.count(b"{") + marks.count(b"[")
    if opened > MAX_CONTAINERS:
        where = deep_field(text)
        return f"{where} is {LEVELS.message}" if where else CONTAINERS.message
    return ESCAPES.message if len(marks) - opened - commas > ESCAPES.most else ""


def is_shallow(text: bytes, marks: bytes) -> bool:
    """Whether an object has no more levels than it may; its managed fields, which the API server writes, may have a few more."""
    if marks.count(b"{") + marks.count(b"[") <= MAX_LEVELS:
        return True
    managed, spec = text.find(MANAGED), text.find(b'},"spec":')
    if not 0 <= managed < spec:
        return levels(text) <= MAX_LEVELS
    after = text.find(b'],"name":', managed, spec)
    end = after + 2 if after > 0 else spec
    rest, fields = text[:managed] + text[end:], text[managed:end]
    return levels(rest) <= MAX_LEVELS and levels(fields) <= MAX_LEVELS + _OWNED_LEVELS


_OTHERS = bytes(set(range(256)) - set(b'{}[]"'))
_TO_BRACES = bytes.maketrans(b"[]", b"{}")
_RUNS = re.compile(rb"(\{+)(\}*)")
"""Few are left once the usual levels are taken away."""
_USUAL_LEVELS = 16
_TOO_MANY = b"{" * (MAX_LEVELS + _OWNED_LEVELS + 1)


def levels(text: bytes) -> int:
    """How many objects and lists are nested at the deepest place, in a few passes of C code; of very many perhaps fewer, still too many."""
    if b"\\" in text:
        text = _without_escapes(text)
    if text.count(b'"') <= _FEW_QUOTES:  # few long strings perhaps, of any brackets
        text = _outside_strings(text)
    braces = text.translate(_TO_BRACES, _OTHERS).replace(b'""', b"")
    if (
        b'"' in braces
    ):  # strings with brackets in them; neighbours may have become one, with nothing lost between them
        braces = _outside_strings(braces)
    if _TOO_MANY in braces:
        return len(_TOO_MANY)
    taken = 0
    while braces and taken < _USUAL_LEVELS:  # each pass takes the innermost ones away
        braces = braces.replace(b"{}", b"")
        taken += 1
    depth = deepest = 0
    for opened, closed in _RUNS.findall(braces):
        depth += len(opened)
        deepest = max(deepest, depth)
        depth -= len(closed)
    return taken + deepest


_FEW_ESCAPES = 2_000


def _outside_strings(text: bytes) -> bytes:
    """A text without its strings; it has no escaped quotes."""
    return b"".join(text.split(b'"')[::2])


_FEW_QUOTES = 4_000


def _without_escapes(text: bytes) -> bytes:
    """A text without the quotes that do not end its strings."""
    parts = text.split(b'\\"', _FEW_ESCAPES)
    if len(parts) > _FEW_ESCAPES:
        return text.replace(b"\\\\", b"").replace(b'\\"', b"")
    for index, part in enumerate(parts[:-1]):
        if (len(part) - len(part.rstrip(b"\\"))) % 2:  # of an escaped backslash
            parts[index] = part + b'"'
    return b"".join(parts)


_TOKEN = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)(?:"|\Z)|[{}\[\]]', re.DOTALL)
"""A string, also one that has no end, or a bracket outside of strings."""
_SEARCHED = 1 << 12
"""After how many bytes the search for the field that is too deep ends."""
_NAMED_LEVELS = 4
_LONGEST_NAME = 60


def deep_field(text: bytes) -> str:
    """The field that is nested too deeply, e.g. "spec.predictor.affinity"; "" when it is far behind, not in the spec, or there is none."""
    start = text.find(b'"spec":{')
    if start < 0:
        return ""
    searched = text[start : start + _SEARCHED].rstrip(b"\\")
    path: list[str] = []
    key = b""
    depth = 1
    for token in _TOKEN.finditer(searched):
        match token[0]:
            case b"{" | b"[":
                depth += 1
                if depth <= _NAMED_LEVELS:
                    path[depth - 2 :] = [key[:_LONGEST_NAME].decode(errors="replace")]
                elif depth > MAX_LEVELS:
                    return ".".join(path)
            case b"}" | b"]":
                depth -= 1
            case _:
                key = token[1]
    return ""
