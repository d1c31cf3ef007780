"""The name of a field and the colon after it: what people write there, and which field they mean."""

from typing import Any

from naiad.config.pbtxt.block import Block
from naiad.config.pbtxt.cursor import Cursor, is_symbol, shown
from naiad.config.pbtxt.scalars import example, is_text
from naiad.config.pbtxt.tokens import TYPOGRAPHIC_QUOTES, Kind, Token
from naiad.config.pbtxt.unknown_names import explain, inside, nested
from naiad.config.pbtxt.values import report_no_value

_BEFORE_VALUE = ":={[<"


def begins_field(cursor: Cursor) -> bool:
    """Whether the next token is the name of a field: something that a value may follow comes after it."""
    return cursor.token.kind in {Kind.WORD, Kind.STRING} and is_symbol(
        cursor.ahead(), _BEFORE_VALUE
    )


def field_named(cursor: Cursor, block: Block, token: Token) -> Any | None:
    """The field that a name in a block means; the cursor stands after the name, which is a word, or a text in quotes as in JSON.

    Returns:
        The field's descriptor, also when the name is wrong (which is reported) and one field is surely meant; None when
        its value cannot be read.
    """
    fields = block.message.DESCRIPTOR.fields_by_name
    if token.kind is Kind.STRING:
        name = token.text.strip("\"'" + TYPOGRAPHIC_QUOTES)
        if block.is_map_entry and name not in fields:
            return _json_entry(cursor, block, token, name)
        if not cursor.at_symbol(_BEFORE_VALUE):
            cursor.report_token(
                token,
                f"this text belongs to no field {inside(block.names)}",
                "write the name of a field and a colon in front of it",
            )
            return None
        _report_quotes(cursor, token, name)
    else:
        name = token.text
    if cursor.at_symbol(".") and cursor.token.start == token.end:
        _report_dots(cursor, token)
        return None
    if name in fields:
        return fields[name]
    explanation = explain(block.message.DESCRIPTOR, name, block=block.names)
    suggestion = explanation.suggestion
    if block.is_map_entry and explanation.meant is None:
        suggestion = f"write {_entry(block, name)}: its entries have a key and a value"
    cursor.report_token(token, explanation.message, suggestion)
    return explanation.meant


def _report_quotes(cursor: Cursor, token: Token, name: str) -> None:
    """Report quotes around a name, once for the file: JSON has them around every name."""
    if not cursor.quoted_name_seen:
        cursor.quoted_name_seen = True
        cursor.report_token(
            token,
            f"the name of a field has no quotes: {token.text}",
            f"write {name}: here, and so wherever a name has quotes in this file",
        )


def _json_entry(cursor: Cursor, block: Block, token: Token, key: str) -> Any | None:
    """Report `"FOO": { … }` inside a map; the first one in its braces is read as the entry that was meant."""
    cursor.report_token(
        token,
        f'an entry of "{block.names[-1]}" is written with key and value, not as in JSON',
        f"write {_entry(block, key)} for each entry",
    )
    if block.message.key != "":
        return None
    block.message.key = key
    block.place(("key",), token.position())
    return block.message.DESCRIPTOR.fields_by_name["value"]


def _entry(block: Block, key: str) -> str:
    """How an entry of a map is written."""
    value = block.message.DESCRIPTOR.fields_by_name["value"]
    inner = example(value)
    if value.message_type is not None and len(value.message_type.fields) == 1:
        only = value.message_type.fields[0]
        inner = f"{{ {only.name}: {example(only)} }}"
    shown = f'"{key}"' if is_text(block.message.DESCRIPTOR.fields_by_name["key"]) else "1"
    return f"{block.names[-1]} {{ key: {shown} value: {inner} }}"


def _report_dots(cursor: Cursor, first: Token) -> None:
    """Take and report the rest of a name such as `instance_group.kind`."""
    names = [first.text]
    while cursor.at_symbol(".") and cursor.ahead().kind is Kind.WORD:
        cursor.take()
        names.append(cursor.take().text)
    cursor.report_span(
        first.start,
        cursor.previous.end,
        "names are not joined by dots: a field of a block is written inside its braces",
        f"write {nested(names[:-1], names[-1])}",
    )
    cursor.take_if(".")


def take_colon(cursor: Cursor, field: Any, token: Token) -> bool:
    """Take the colon after a field's name, or report what stands there instead; False when no value follows at all."""
    if cursor.take_if(":"):
        return True
    if cursor.at_symbol("="):
        sign = cursor.take()
        cursor.take_if(">")
        cursor.report_token(
            sign,
            f"a colon stands between a name and its value, not {sign.text}",
            f"write {field.name} {{ … }}"
            if cursor.at_symbol("{<")
            else f"write {field.name}: {_value_shown(cursor, token)}",
        )
        return True
    is_list = field.is_repeated and cursor.at_symbol("[")
    if field.message_type is not None or (cursor.at_symbol("{<[}>],;") and not is_list):
        return True
    if cursor.token.kind is Kind.END:
        return True
    if cursor.token.line > token.line and begins_field(cursor):
        report_no_value(cursor, field, token)
        return False
    cursor.report_token(
        token,
        f"there is no colon after {token.text}",
        f"write {field.name}: {_value_shown(cursor, token)}",
    )
    return True


def _value_shown(cursor: Cursor, name: Token) -> str:
    token = cursor.token
    if is_symbol(token, "["):
        return "[ … ]"
    return shown(token) if token.line == name.line and token.kind is not Kind.SYMBOL else "…"


def skip_value(cursor: Cursor, name: Token) -> None:
    """Skip the value of a field that cannot be read; a name on a later line is the next field."""
    signed = cursor.take_if(":") or cursor.take_if("=")
    if cursor.at_symbol("{<["):
        cursor.skip_brackets()
        return
    token = cursor.token
    same_line = token.line == name.line
    if not signed and not same_line:
        return
    if token.kind is Kind.STRING:
        while cursor.token.kind is Kind.STRING and not is_symbol(cursor.ahead(), ":="):
            cursor.take()
    elif token.kind is Kind.PLACEHOLDER or (
        token.kind is Kind.WORD and not (begins_field(cursor) and not (signed and same_line))
    ):
        cursor.take()
