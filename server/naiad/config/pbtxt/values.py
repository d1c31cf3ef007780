"""One scalar value in a config file: its tokens, its value, and what is wrong with it.

Wrong values are named by what people really write: a placeholder of a template, a word without quotes, a missing or typographic
quote, a value that was forgotten. `scalars.py` then reads the text as the field's type.
"""

from typing import Any

from naiad.config.pbtxt.cursor import CLOSERS, Cursor, is_symbol, placeholder_in
from naiad.config.pbtxt.escapes import unescape
from naiad.config.pbtxt.scalars import (
    Reading,
    advice,
    example,
    is_text,
    read_bare,
    read_quoted,
    wanted,
    wanted_short,
)
from naiad.config.pbtxt.tokens import TYPOGRAPHIC_QUOTES, Kind, Token
from naiad.config.problem import Position
from naiad.core.record import Record

_TOOLS = "run the tool that fills it (envsubst, helm, fill_template.py)"


class Scalar(Record, frozen=True):
    """A value that was read: what to set, or None when it could not even be guessed; and where it stands."""

    value: Any
    position: Position


def read_value(cursor: Cursor, field: Any, *, name: Token, fields: frozenset[str]) -> Scalar | None:
    """Read one value of a scalar field and report what is wrong with it; the cursor stands before the value.

    None when there is no value: then nothing was taken. A value that is one of `fields`, the names of the fields around it, and has a colon
    is such a forgotten value.
    """
    token = cursor.token
    if token.kind is Kind.END or is_symbol(token, "}>],;") or _next_field(cursor, name, fields):
        report_no_value(cursor, field, name)
        return None
    if is_symbol(token, "{<["):
        return _bracket(cursor, field)
    if token.kind is Kind.STRING:
        return _quoted(cursor, field)
    return _bare(cursor, field)


def report_no_value(cursor: Cursor, field: Any, name: Token) -> None:
    """Report a field of which only the name is written."""
    cursor.report_token(
        name,
        f"{field.name} has no value",
        f"write {field.name}: {example(field)}, or delete it",
    )


def report_placeholder(cursor: Cursor, start: int, end: int, *, field: Any | None) -> None:
    """Report a stretch of text that a template left behind."""
    instead = "take it out" if field is None else f"write {field.name}: {example(field)}"
    cursor.report_span(
        start,
        end,
        f"{cursor.text[start:end]} was never filled in: this file is a template",
        f"{instead}, or {_TOOLS}",
    )


def _next_field(cursor: Cursor, name: Token, fields: frozenset[str]) -> bool:
    token = cursor.token
    return (
        token.kind is Kind.WORD
        and token.line > name.line
        and token.text in fields
        and is_symbol(cursor.ahead(), ":{[")
    )


def _bracket(cursor: Cursor, field: Any) -> Scalar:
    """A block or a list where one value belongs; `<word>` is a placeholder."""
    first = cursor.token
    last = cursor.skip_brackets()
    text = cursor.text[first.start : last.end]
    position = cursor.span(first.start, last.end)
    if placeholder_in(text) == text:
        report_placeholder(cursor, first.start, last.end, field=field)
        return Scalar(None, position)
    inner = text[1:-1].strip() if text.endswith(CLOSERS[first.text]) else ""
    if first.text == "[":
        single = bool(inner) and not set(inner) & set(",{}<>[]:;")
        cursor.report(
            position if single else first.position(),
            f"{field.name} takes one value, not a list",
            f"write {field.name}: {inner}" if single else f"write {field.name}: {example(field)}",
        )
        value = read_bare(field, inner).value if single and inner[0] not in "\"'" else None
        return Scalar(value, position)
    cursor.report_token(
        first,
        f"{field.name} takes {wanted_short(field)}, not a block",
        f"write {field.name}: {example(field)}",
    )
    return Scalar(None, position)


def _is_name(text: Token, after: Token) -> bool:
    """Whether a text is the next field's name in quotes, as JSON writes it, and not one more piece of a value."""
    return is_symbol(after, ":=") and after.line == text.line


def _quoted(cursor: Cursor, field: Any) -> Scalar:
    first = cursor.take()
    parts = [first]
    while (
        parts[-1].closed
        and cursor.token.kind is Kind.STRING
        and not _is_name(cursor.token, cursor.ahead())
    ):
        parts.append(cursor.take())
    position = first.position()
    if not parts[-1].closed:
        return Scalar(_unclosed(cursor, field, parts[-1]), parts[-1].position())
    value = _decode(cursor, parts)
    if value is None:
        return Scalar(None, position)
    if _is_left_over(field, value):
        report_placeholder(cursor, first.start, parts[-1].end, field=field)
        return Scalar(None, position)
    reading = read_quoted(field, value)
    _report(cursor, reading, position)
    return Scalar(reading.value, position)


def _is_left_over(field: Any, value: str) -> bool:
    """Whether a template left this quoted value behind; not so in `parameters`, which only the model interprets."""
    if field.containing_type.name == "ModelParameter":
        return False
    return placeholder_in(value, quoted_text=is_text(field)) is not None


def _unclosed(cursor: Cursor, field: Any, token: Token) -> Any:
    """A text without its closing quote, or with quotes of another kind; returns the value that was surely meant."""
    inner = token.text[1:].rstrip(TYPOGRAPHIC_QUOTES + "\"'")
    if token.text[0] in "\"'":
        message = f"this text has no closing {token.text[0]}"
        if cursor.text.count(token.text[0], token.start - token.column + 1, token.start) >= 2:  # noqa: PLR2004 - a pair
            message += "; the missing quote may also stand earlier in the line"
    else:
        message = f"{token.text[0]} is a typographic quote, which the format does not know"
    reading = read_bare(field, inner) if not is_text(field) else Reading(value=inner)
    shown = f'"{inner}"' if is_text(field) else inner
    cursor.report_token(token, message, f"write {field.name}: {shown}")
    return reading.value


def _decode(cursor: Cursor, parts: list[Token]) -> str | None:
    """The text of quoted parts that stand in a row; reports the first wrong escape of each."""
    data = b""
    wrong = False
    for part in parts:
        inner = part.text[1:-1]
        piece, flaws = unescape(inner)
        data += piece
        if flaws:
            wrong = True
            first = flaws[0]
            start = part.start + 1 + first.start
            for flaw in reversed(flaws):
                inner = f"{inner[: flaw.start]}\\{inner[flaw.start :]}"
            cursor.report_span(
                start,
                start + first.width,
                first.message,
                f"write \\\\ for a backslash: {part.text[0]}{inner}{part.text[0]}",
            )
    try:
        return data.decode()
    except UnicodeDecodeError:
        if not wrong:
            cursor.report_token(
                parts[0],
                "this text is not valid UTF-8 once its escapes are undone",
                r"write the characters themselves, or \u and four hexadecimal digits for each",
            )
        return None if not wrong else data.decode(errors="replace")


def _bare(cursor: Cursor, field: Any) -> Scalar:
    """A value without quotes: everything up to the next space or separator."""
    first = cursor.take()
    last = first
    spaced = first.text == "-" and cursor.token.kind is Kind.WORD and not is_text(field)
    if spaced:
        last = cursor.take()  # Triton's own parser takes `- 5`
    while _belongs(cursor, last, field):
        last = cursor.take()
    if is_text(field):
        last = _rest_of_words(cursor, last)
    text = cursor.text[first.start : last.end]
    position = cursor.span(first.start, last.end)
    if spaced:
        text = "-" + text[1:].lstrip()
    if first.kind is Kind.PLACEHOLDER or placeholder_in(text) is not None:
        report_placeholder(cursor, first.start, last.end, field=field)
        return Scalar(None, position)
    if first.kind is Kind.SYMBOL and last is first:
        cursor.report_token(
            first,
            f"{field.name} takes {wanted(field)}, not {text}",
            advice(field),
        )
        return Scalar(None, position)
    reading = read_bare(field, text)
    _report(cursor, reading, position)
    return Scalar(reading.value, position)


def _belongs(cursor: Cursor, last: Token, field: Any) -> bool:
    """Whether the next token goes on with an unquoted value: no space between, and no separator."""
    token = cursor.token
    if token.start != last.end or token.kind is Kind.END:
        return False
    if token.kind is Kind.STRING:
        return _is_stray_quote(token, last)
    if token.kind is Kind.SYMBOL and token.text in ",;{}[]<>=":
        return False
    if token.text == ":":
        after = cursor.ahead()
        return is_text(field) and after.start == token.end and after.kind is not Kind.STRING
    return True


def _rest_of_words(cursor: Cursor, last: Token) -> Token:
    """Take the further words of an unquoted text: those on its line that do not begin a field."""
    while (
        cursor.token.kind is Kind.WORD
        and cursor.token.line == last.line
        and not is_symbol(cursor.ahead(), ":={[<")
    ):
        last = cursor.take()
    return cursor.take() if _is_stray_quote(cursor.token, last) else last


def _is_stray_quote(token: Token, last: Token) -> bool:
    """Whether a closing quote follows whose opening one is missing: `model.onnx"`."""
    lone = token.kind is Kind.STRING and not token.closed and len(token.text) == 1
    return lone and token.start == last.end


def _report(cursor: Cursor, reading: Reading, position: Position) -> None:
    if reading.message:
        cursor.report(position, reading.message, reading.suggestion)
