"""The text format as a recursive descent over a message's descriptor: blocks, lists, maps.

It never stops at what is wrong: it reports it, takes what was surely meant where that is clear, and goes on at the next field.
Depth is bounded by the definition of ModelConfig, which holds no message inside itself; what no field explains is
skipped without recursion. Every loop takes a token or ends.
"""

from typing import Any

from naiad.config.pbtxt.block import Block, Positions, is_map
from naiad.config.pbtxt.cursor import Cursor, Open, is_symbol, shown
from naiad.config.pbtxt.field_name import begins_field, field_named, skip_value, take_colon
from naiad.config.pbtxt.scalars import is_text
from naiad.config.pbtxt.tokens import Kind, Token
from naiad.config.pbtxt.unknown_names import inside
from naiad.config.pbtxt.values import read_value, report_placeholder


class Grammar:
    """Reads one file."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def read_file(self, message: Any, positions: Positions) -> None:
        """Read the whole file into a message, and note where everything stands."""
        block = Block(message, (), (), positions)
        cursor = self._cursor
        if cursor.at_symbol("{"):
            cursor.report_token(
                cursor.token,
                "the file begins with a brace, as JSON does: the format has none around the whole",
                "remove this brace and the one that closes it",
            )
            cursor.enter("the whole file", block.fields)
            self._fields(block)
        while cursor.token.kind is not Kind.END:
            self._fields(block)

    # ---- blocks

    def _fields(self, block: Block) -> None:
        """Read fields up to the end of the innermost block, or of the file."""
        cursor = self._cursor
        while not cursor.at_end():
            if cursor.token.kind in {Kind.WORD, Kind.STRING}:
                self._field(block)
            else:
                self._junk(block)

    def _junk(self, block: Block) -> None:
        """Skip tokens that cannot begin a field; they are one problem per line."""
        cursor = self._cursor
        first = last = cursor.take()
        if first.kind is Kind.PLACEHOLDER:
            report_placeholder(cursor, first.start, first.end, field=None)
            return
        if is_symbol(first, ",;"):
            cursor.report_token(
                first,
                f"this {first.text} separates nothing",
                "remove it: one after a value is enough",
            )
            return
        while (
            cursor.token.line == first.line
            and cursor.token.kind in {Kind.SYMBOL, Kind.PLACEHOLDER}
            and not cursor.at_symbol("}>]")
        ):
            last = cursor.take()
        text = cursor.text[first.start : last.end]
        if text.startswith(("/", "*")):
            while cursor.token.line == first.line and cursor.token.kind is not Kind.END:
                last = cursor.take()
            cursor.report_span(
                first.start, last.end, "this is not a comment here", "write # in front of a comment"
            )
            return
        cursor.report_span(
            first.start,
            last.end,
            f"expected the name of a field {inside(block.names)}, found {text}",
            "write name: value, or name { … }",
        )

    # ---- fields

    def _field(self, block: Block) -> None:
        cursor = self._cursor
        token = cursor.take()
        field = field_named(cursor, block, token)
        if field is None:
            skip_value(cursor, token)
        elif take_colon(cursor, field, token):
            target = self._target(block, field, token)
            if field.message_type is not None:
                self._messages(target, field, token)
            elif field.is_repeated and cursor.at_symbol("["):
                target.place_first((field.name,), cursor.token.position())
                self._list(target, field, token)
            else:
                self._scalar(target, field, token)
        if not cursor.take_if(","):
            cursor.take_if(";")

    def _target(self, block: Block, field: Any, token: Token) -> Block:
        """The block to read a field into.

        It is thrown away when another field of its oneof is set already, which is reported, and when a misspelled name only
        repeats the correct one. The value of a misspelled name is replaced by that of the correct name.
        """
        if token.text.strip("\"'") != field.name and not field.is_repeated:
            if block.has(field):
                return block.scratch()
            block.guessed.add(field.name)
        elif field.name in block.guessed:
            block.guessed.discard(field.name)
            block.message.ClearField(field.name)
        if field.containing_oneof is None:
            return block
        other = block.message.WhichOneof(field.containing_oneof.name)
        if other is None or other == field.name:
            return block
        line = block.line_of(other)
        self._cursor.report_token(
            token,
            f'"{field.name}" cannot stand beside "{other}"'
            f"{'' if line is None else f' (line {line})'}: they exclude each other",
            f"keep one of {', '.join(member.name for member in field.containing_oneof.fields)}",
        )
        return block.scratch()

    def _report_twice(self, block: Block, field: Any, token: Token, suggestion: str) -> None:
        line = block.line_of(field.name)
        self._cursor.report_token(
            token,
            f"{field.name} is set twice{'' if line is None else f': first in line {line}'}",
            suggestion,
        )

    # ---- lists

    def _list(self, block: Block, field: Any, name: Token) -> None:
        """Read `[a, b, c]`, a list of values or of blocks."""
        cursor = self._cursor
        inside_item = set(field.message_type.fields_by_name) if field.message_type else None
        cursor.enter(field.name, frozenset())
        after_comma = False
        while not cursor.at_end(after_comma=after_comma):
            token = cursor.token
            if cursor.take_extra_separator():
                after_comma = False
            elif begins_field(cursor):
                if inside_item is None or token.text in block.fields - inside_item:
                    cursor.close_missing(f'"{token.text}" in line {token.line} comes before')
                else:
                    self._item_without_braces(block, field)
                return
            elif inside_item is not None:
                self._message(block, field, name, anchor=token)
                after_comma = cursor.separator_after_item()
            elif self._scalar(block, field, name):
                after_comma = cursor.separator_after_item()
            else:
                cursor.take()

    # ---- scalars

    def _scalar(self, block: Block, field: Any, name: Token) -> bool:
        """Read one value into its field; False when there is none."""
        scalar = read_value(self._cursor, field, name=name, fields=block.fields)
        if scalar is None:
            return False
        if field.is_repeated:
            block.place_first((field.name,), scalar.position)
            if scalar.value is not None:
                values = getattr(block.message, field.name)
                values.append(scalar.value)
                block.place((field.name, len(values) - 1), scalar.position)
        elif block.has(field):
            self._report_twice(block, field, name, "keep one of the two")
        else:
            if scalar.value is not None:
                setattr(block.message, field.name, scalar.value)
            block.place((field.name,), scalar.position)
        return True

    # ---- messages

    def _messages(self, block: Block, field: Any, name: Token) -> None:
        """Read what follows the name of a field that takes blocks: one, or a list of them."""
        cursor = self._cursor
        block.place_first((field.name,), name.position())
        if not cursor.at_symbol("["):
            self._message(block, field, name, anchor=name)
            return
        if not field.is_repeated:
            cursor.report_token(
                cursor.token,
                f"{field.name} is one block, not a list",
                f"write {field.name} {{ … }} without the square brackets",
            )
        self._list(block, field, name)

    def _item_without_braces(self, block: Block, field: Any) -> None:
        """`input [ name: "x" … ]`: read the fields as one item, up to the end of the list."""
        cursor = self._cursor
        cursor.report_token(
            cursor.token,
            f'each item of the list "{field.name}" needs braces of its own',
            f"write {field.name} [ {{ {cursor.token.text}: … }} ]",
        )
        if is_map(field):
            inner = block.entry(field.name)
        elif field.is_repeated:
            inner = block.item(field.name)
        else:
            inner = block.child(getattr(block.message, field.name), field.name)
        cursor.open[-1] = Open(cursor.open[-1].token, field.name, inner.fields)
        self._fields(inner)

    def _message(self, block: Block, field: Any, name: Token, *, anchor: Token) -> None:
        """Read one block of a field, or report what stands in its place."""
        cursor = self._cursor
        if not cursor.at_symbol("{<"):
            self._no_block(block, field, name)
        elif cursor.at_symbol("<") and _is_word_in_angles(cursor):
            first = cursor.token
            last = cursor.skip_brackets()
            report_placeholder(cursor, first.start, last.end, field=field)
        elif is_map(field):
            self._map_entry(block, field)
        else:
            inner = self._inner(block, field, name)
            inner.place((), anchor.position())
            cursor.enter(field.name, inner.fields)
            self._fields(inner)

    def _inner(self, block: Block, field: Any, name: Token) -> Block:
        """The block of a field; a second one where there can be only one is thrown away."""
        if field.is_repeated:
            return block.item(field.name)
        message = getattr(block.message, field.name)
        inner = block.child(message, field.name)
        if block.has(field):
            self._report_twice(block, field, name, "put the fields of both into one block")
            return inner.scratch()
        message.SetInParent()
        return inner

    def _no_block(self, block: Block, field: Any, name: Token) -> None:
        """Report a value, or nothing, where a block belongs."""
        cursor = self._cursor
        token = cursor.token
        if (
            token.kind is Kind.END
            or is_symbol(token, "}>],;:=")
            or (token.line > name.line and begins_field(cursor))
        ):
            cursor.report_token(
                name,
                f"{field.name} takes a block, and none follows",
                f"write {field.name} {{ … }}",
            )
            return
        cursor.take()
        if token.kind is Kind.PLACEHOLDER:
            report_placeholder(cursor, token.start, token.end, field=field)
            return
        only = field.message_type.fields[0] if len(field.message_type.fields) == 1 else None
        braces = "{ … }" if only is None else f"{{ {only.name}: {shown(token)} }}"
        cursor.report_token(
            token,
            f"{field.name} takes a block, not {shown(token)}",
            f"write {field.name}: {braces}",
        )
        if only is None or only.is_repeated or field.is_repeated:
            return
        if is_text(only) and token.kind is Kind.STRING:
            setattr(getattr(block.message, field.name), only.name, token.text[1:-1])

    # ---- maps

    def _map_entry(self, block: Block, field: Any) -> None:
        """Read `{ key: … value: … }`; what it holds is placed under its key."""
        cursor = self._cursor
        entry = block.entry(field.name)
        opener = cursor.token
        cursor.enter(field.name, entry.fields)
        self._fields(entry)
        own = entry.positions or {}
        position = own.get(("key",), opener.position())
        key = entry.message.key
        entries = getattr(block.message, field.name)
        if key in entries:
            cursor.warnings.append(
                f'line {position.line}: the key "{key}" of "{field.name}" appears twice: the last one counts, as in protobuf'
            )
            block.forget((field.name, key))
        value = entry.message.DESCRIPTOR.fields_by_name["value"]
        if value.message_type is None:
            entries[key] = entry.message.value
        else:
            entries[key].CopyFrom(entry.message.value)
        block.place((field.name, key), position)
        for path, position in own.items():
            if path[0] == "value" and (len(path) > 1 or value.message_type is None):
                block.place((field.name, key, *path[1:]), position)


def _is_word_in_angles(cursor: Cursor) -> bool:
    return cursor.ahead().kind is Kind.WORD and is_symbol(cursor.ahead(2), ">")
